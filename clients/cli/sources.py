"""Reading of FILE arguments into a snapshot, with a progress bar on a terminal, and its notes on stderr.

FILEs are one cluster, each `--cluster NAME=FILE` and each `--context NAME` is one more; FILEs beside contexts declare
the node groups of those clusters.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.progress import BarColumn, TaskProgressColumn, TimeElapsedColumn

from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.output import note
from trimtab.clients.cli.terminal import progress
from trimtab.common.documents.bounded_input import MAX_INPUT_BYTES, STANDARD_INPUT
from trimtab.common.kubernetes.registry import EXPORTED_KINDS
from trimtab.common.objects.build import BuiltSnapshot
from trimtab.common.objects.karpenter.offers import MachineOffer

MOST_NOTES = 20
_EXPORT = f"kubectl get {EXPORTED_KINDS} -A -o json > cluster.json"


def read_snapshot(
    paths: Sequence[Path],
    max_bytes: int = MAX_INPUT_BYTES,
    numbers: Iterable[str] = (),
    *,
    with_notes: bool = True,
    needs_nodes: bool = False,
    offers: Sequence[MachineOffer] | None = None,
) -> BuiltSnapshot:
    """Read the files, each of at most `max_bytes` unpacked, as one cluster. Errors: UsageError, also if it has neither
    a Node nor a NodeGroup: groups at zero may grow.

    numbers : keys of the pods' annotations that hold numbers; with_notes : write what the reader remarks; needs_nodes :
    an input without a Node is an error even if it has a NodeGroup; offers : machines that NodePools may have, None =
    those of the nodes.
    """
    from trimtab.common.objects import read_files

    if not paths:
        raise UsageError(f"no FILE is given; make one with: {_EXPORT}; or read a live cluster with --context NAME")
    for path in paths:
        _check(path)
    with progress("reading", BarColumn(), TaskProgressColumn(), TimeElapsedColumn()) as show:
        built = read_files(paths, lambda done, whole: show(completed=done, total=whole), max_bytes, numbers, offers)
    note_some(built.notes if with_notes else [])
    misspelled = [text for text in built.notes if text.endswith("did you mean Node?")]
    if not built.snapshot.nodes and (needs_nodes or not built.snapshot.node_groups):
        lacking = "no Node" if needs_nodes else "no Node and no NodeGroup"
        if misspelled:
            raise UsageError(f"there is {lacking} in the input: {misspelled[0]}")
        names = ", ".join(str(path) for path in paths)
        raise UsageError(f"{names}: there is {lacking} in the input; export nodes too: {_EXPORT}")
    return built


def note_some(notes: Sequence[str]) -> None:
    """Write the first notes, and the number of the others."""
    for text in notes[:MOST_NOTES]:
        note(text)
    if len(notes) > MOST_NOTES:
        note(f"… and {len(notes) - MOST_NOTES} more")


def _check(path: Path) -> None:
    """Check that a path is a file, before anything is read. Errors: UsageError."""
    if path == STANDARD_INPUT:
        return
    if path.is_dir():
        raise UsageError(f"{path}: this is a directory; name the files in it")
    if not path.exists():
        raise UsageError(f"{path}: there is no such file")


@dataclass(frozen=True)
class ClusterInput:
    """One cluster: files with all its objects, or a live one with files of its node groups.

    context : of the kubeconfig, "" = its current one; only if `is_live`
    """

    name: str
    files: tuple[Path, ...] = ()
    context: str = ""
    kubeconfig: Path | None = None
    is_live: bool = False


@dataclass(frozen=True)
class ClusterChoice:
    """The options that choose clusters, as they are given."""

    files: tuple[Path, ...] = ()
    contexts: tuple[str, ...] = ()
    kubeconfig: Path | None = None
    named: tuple[str, ...] = ()

    def clusters(self) -> list[ClusterInput]:
        """Return the clusters, those of files first. Errors: UsageError."""
        is_live = bool(self.contexts) or self.kubeconfig is not None
        found = _named(self.named)
        if self.files and not is_live:
            found.insert(0, ClusterInput(_name_of(self.files[0]), self.files))
        if is_live:
            found += [
                ClusterInput(context or "current context", self.files, context, self.kubeconfig, is_live=True)
                for context in self.contexts or ("",)
            ]
        counts = Counter(one.name for one in found)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise UsageError(f"two clusters are named {twice[0]}; give each its own name with --cluster NAME=FILE")
        return found


def _named(texts: Sequence[str]) -> list[ClusterInput]:
    """Read `--cluster NAME=FILE`; a name that is given again has one more file."""
    files: dict[str, list[Path]] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise UsageError(f"--cluster {text}: write it as NAME=FILE; repeat it for more files and clusters")
        files.setdefault(name, []).append(Path(path))
    return [ClusterInput(name, tuple(paths)) for name, paths in files.items()]


def _name_of(file: Path) -> str:
    """Return the name of a cluster in a file: the file's without the endings."""
    return "standard input" if file == STANDARD_INPUT else file.name.split(".")[0] or file.name
