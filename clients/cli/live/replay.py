"""`trimtab replay`: run a recording through a planner, and show every difference to the recorded answers."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.progress import BarColumn, DownloadColumn, TimeElapsedColumn

from trimtab.clients.cli.blocks import AnswerPage, Sentence, Table, rows
from trimtab.clients.cli.command_options import ReplayOptions
from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.live.rounds_reader import Recorded, read_rounds
from trimtab.clients.cli.output import as_document
from trimtab.clients.cli.planners import open_link
from trimtab.clients.cli.printing import print_found
from trimtab.clients.cli.terminal import progress
from trimtab.clients.in_process_planner import choose_option
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.planner_client import PlannerLink
from trimtab.common.documents.bounded_input import STANDARD_INPUT, open_input
from trimtab.common.objects.files import shown
from trimtab.common.recording import is_recording
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.v1 import plan_pb2
from trimtab.v1.option_choice_pb2 import OptionChoice

MOST_SHOWN = 200
"""Most differences in a table; JSON has all of them."""
ABSENT = "—"
_VARYING = ("stateVersion", "snapshotVersion", "requestId")
"""Digests may differ between builds for equal content; the content itself is compared."""


class Difference(NamedTuple):
    """One value that differs. `path` is its path in the JSON form. `round` : its number, from 1; `recorded`,
    `replayed` : the value in either answer.
    """

    round: int
    path: str
    recorded: Any
    replayed: Any


def replay(options: ReplayOptions) -> None:
    """Replay a recording and print the differences; ends the process with 1 if there are any."""
    file = options.files[0]
    if len(options.files) > 1:
        raise UsageError(f"{options.files[1]}: one recording is replayed; -o html=FILE compares several on a page")
    if file.is_dir() or (file != STANDARD_INPUT and not file.exists()):
        raise UsageError(f"{file}: there is no such file")
    differences: list[Difference] = []
    count = 0
    with open_link(options.planner) as link, open_input(file) as opened:
        if not is_recording(opened.peek(4)):
            raise UsageError(f"{shown(file)}: this is not a recording; give a *.trimtab file")
        is_seekable = file != STANDARD_INPUT and opened.seekable()
        size = file.stat().st_size if is_seekable else None
        with progress("replaying", BarColumn(), DownloadColumn(), TimeElapsedColumn(), total=size) as show:
            for count, found in enumerate(_replayed(link, read_rounds(shown(file), opened)), start=1):
                differences.extend(Difference(count, *one) for one in found)
                show(completed=opened.tell() if is_seekable else None)
    if count == 0:
        raise UsageError(
            f"{shown(file)}: this recording has no rounds; record with `trimtab record` or `trimtab run --record`"
        )
    document = {"rounds": count, "differences": [one._asdict() for one in differences]}
    print_found(_page(count, differences), options.output.format, lambda: document)
    if differences:
        raise FailedError(f"{len(differences)} differences in {count} rounds")


def _replayed(link: PlannerLink, rounds: Iterator[Recorded | OptionChoice]) -> Iterator[list[tuple[str, Any, Any]]]:
    """Yield the differences of each round. Each request uses the recorded state, not our own. Choices are made here:
    their input is recorded completely, and no service accepts it in this form.
    """
    session = PlannerSession(link)
    for one in rounds:
        if isinstance(one, OptionChoice):
            yield list(compare(_keyed(as_document(one.answer)), _keyed(as_document(choose_option(one)))))
            continue
        try:
            answer = session.ask(one.request, one.update)
        except TrimtabError as error:
            if error.reason == Reason.UNSPECIFIED:  # no answer of a planner
                raise
            yield [("", "an answer", f"{error.reason_name}: {error.message}")]
            continue
        yield list(compare(_comparable(one.answer, one.redacted), _comparable(answer, one.redacted)))


def _comparable(answer: plan_pb2.PlanResponse, redacted: bool) -> dict[str, Any]:
    """Return the parts in which two equal requests must agree, with lists of named items as mappings."""
    document = as_document(answer)
    if redacted:
        strip(document)
    for name in _VARYING:
        document.pop(name, None)
    document.get("diagnostics", {}).pop("stages", None)
    keyed: dict[str, Any] = _keyed(document)
    return keyed


def strip(value: Any) -> None:
    """Remove, in place, what a redacted recording lacks: texts for people, hints."""
    if isinstance(value, dict):
        for name in ("detail", "notes", "opaque"):
            value.pop(name, None)
        for item in value.values():
            strip(item)
    elif isinstance(value, list):
        for item in value:
            strip(item)


def _keyed(value: Any) -> Any:
    """Turn lists of objects with a name into mappings, so that one more entry is one difference."""
    if isinstance(value, dict):
        return {key: _keyed(item) for key, item in value.items()}
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        for key in ("node", "pod", "owner", "name", "nodeGroup"):
            names = [item.get(key) for item in value]
            if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
                return {item[key]: _keyed(item) for item in value}
    if isinstance(value, list):
        return [_keyed(item) for item in value]
    return value


def compare(recorded: Any, replayed: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, recorded, replayed) of every value that differs; a value on one side only is ABSENT on the other."""
    if isinstance(recorded, dict) and isinstance(replayed, dict):
        for key in sorted(recorded.keys() | replayed.keys()):
            below = f"{path}.{key}" if path else key
            yield from compare(recorded.get(key, ABSENT), replayed.get(key, ABSENT), below)
    elif isinstance(recorded, list) and isinstance(replayed, list) and len(recorded) == len(replayed):
        for index, (one, other) in enumerate(zip(recorded, replayed, strict=True)):
            yield from compare(one, other, f"{path}[{index}]")
    elif recorded != replayed:
        yield path, recorded, replayed


def _page(count: int, differences: list[Difference]) -> AnswerPage:
    """Return the differences."""
    if not differences:
        return AnswerPage("Replay", (Sentence(f"{count} rounds, no difference"),))
    cells = [(str(one.round), one.path, _short(one.recorded), _short(one.replayed)) for one in differences[:MOST_SHOWN]]
    columns, left = ("round", "path", "recorded", "replayed"), len(differences) - len(cells)
    more = f"{left} more differences; -o json shows all" if left else ""
    return AnswerPage("Replay", (Table("", columns, rows(cells), more, sentences=columns[1:]),))


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else text[:200] + "…"
