"""Writes a redacted copy of a recording. The file is read twice: first to collect all strings and the time of the first
request, then to write the copy.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import numpy as np

from trimtab.clients.cli.live.redaction.numbers import (
    FIRST_NOW_S,
    ComparedIntegers,
    Replacements,
    highest_price,
    price_factor,
)
from trimtab.clients.cli.live.redaction.tokens import REDACTED, DeviceNames, atoms, replaced, texts_of, tokens_of, walk
from trimtab.common.recording import RecordingError, RecordingReader, RecordingWriter
from trimtab.places import moves_by_node
from trimtab.v1 import plan_pb2, recording_pb2
from trimtab.v1 import snapshot_pb2 as pb

_NO_REQUEST_S: Final = 1 << 33
"""Time of the first request of a recording without one: all its times become equal."""


def redact_file(source: Path, target: Path) -> None:
    """Write `source`, a recording, to `target` redacted. Errors: RecordingError."""
    try:
        _redact(source, target)
    except RecordingError:
        raise
    except (IndexError, KeyError, OverflowError, ValueError) as error:
        raise RecordingError(f"{source}: what it holds is damaged: {error}") from error


def _redact(source: Path, target: Path) -> None:
    strings, nodes = set[str](), set[str]()
    integers, devices = ComparedIntegers(), DeviceNames(set(), set())
    first_now_s, highest = _NO_REQUEST_S, 0.0

    def collect(text: str) -> str:
        strings.update(atoms(text))
        return text

    with source.open("rb") as opened:
        for message in _contents(RecordingReader(str(source), opened)):
            if isinstance(message, plan_pb2.PlanRequest):
                first_now_s = min(first_now_s, message.now.seconds)
            for snapshot in (message, getattr(message, "changed", None)):
                if isinstance(snapshot, pb.ClusterSnapshot):
                    integers.see(snapshot)
                    highest = max(highest, highest_price(snapshot))
                    nodes.update(node.name for node in snapshot.nodes)
                    devices.see(snapshot.devices)
            walk(message, collect)
    known = integers.tokens() | {name: name for name in devices.kept}
    # Pools are compared with one another, and most have the name of their node.
    tokens = tokens_of(strings | devices.kept, known, nodes if devices.pools <= nodes else ())
    replacements = Replacements(price_factor(highest), first_now_s - FIRST_NOW_S)
    uids: dict[str, str] = {}
    with source.open("rb") as opened:
        reader = RecordingReader(str(source), opened)
        header = recording_pb2.RecordingHeader(redacted=True)
        if reader.header.HasField("create_time"):
            header.create_time.FromDatetime(replacements.moment(reader.header.create_time.ToDatetime(UTC)))
        last = plan_pb2.PlanState()
        with RecordingWriter(target, header) as writer:
            for message in _contents(reader):
                goes_on = isinstance(message, plan_pb2.PlanRequest) and message.state == last
                if isinstance(message, plan_pb2.PlanResponse):
                    last = plan_pb2.PlanState()
                    last.CopyFrom(message.state)
                replacements.visit(message)
                _redact_strings(message, tokens, uids)
                if goes_on:
                    _name_state(message)
                writer.write(message)


def _redact_strings(message: Any, tokens: Mapping[str, str], uids: dict[str, str]) -> None:
    """Replace all strings of a frame's content. `uids`: new pod to new uid, carried from frame to frame."""
    walk(message, lambda text: replaced(text, tokens))
    if isinstance(message, pb.ClusterSnapshot):
        uids.clear()
        uids.update(_uids(message))
    elif isinstance(message, pb.SnapshotDelta):
        for pod in message.deleted_pods:
            uids.pop(pod, None)
        uids.update(_uids(message.changed))
    elif isinstance(message, plan_pb2.PlanResponse):
        _redo_digests(message.scale_down.unneeded, message.scale_down.places, uids)
        for wave in message.replacement.waves:
            _redo_digests(wave.leaving, wave.places, uids)


def _name_state(request: plan_pb2.PlanRequest) -> None:
    """Refer to the state of the last answer instead of including it: a replay has it, with its own hints."""
    if request.HasField("state"):
        request.ClearField("state")
        request.state_version = REDACTED


def _contents(reader: RecordingReader) -> Iterator[Any]:
    """Yield the content of each frame, without fields that this build does not know."""
    for frame in reader:
        frame.DiscardUnknownFields()
        which = frame.WhichOneof("frame")
        if which is not None:
            yield getattr(frame, which)


def _uids(snapshot: pb.ClusterSnapshot) -> dict[str, str]:
    """Return the uid of each pod of a snapshot, by "namespace/name"."""
    table = snapshot.pods
    spaces = [snapshot.strings[index] for index in np.frombuffer(table.namespace, dtype="<i4").tolist()]
    names, uids = texts_of(table.names, table.name_lengths), texts_of(table.uids, table.uid_lengths)
    return {f"{space}/{name}": uid for space, name, uid in zip(spaces, names, uids, strict=True)}


def _redo_digests(
    nodes: Iterable[plan_pb2.UnneededNode | plan_pb2.ReplacedNode], places: plan_pb2.Places, uids: Mapping[str, str]
) -> None:
    """Recompute the digests of the pods to be moved from their new uids, as `NodeAssumption` defines them."""
    moves = moves_by_node(places)
    for node in nodes:
        if node.assumption.pods_to_move_digest:
            text = "".join(uid + "\n" for uid in sorted(uids[pod] for pod in moves.get(node.node, ()) if pod in uids))
            node.assumption.pods_to_move_digest = hashlib.sha256(text.encode()).hexdigest()[:16]
