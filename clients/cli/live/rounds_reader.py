"""Reads the rounds of a recording, one after the other: cluster or change, request, answer."""

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import IO, Final, NamedTuple, Self

import zstandard

from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.output import note
from trimtab.common.deltas import Application
from trimtab.common.documents.bounded_input import MAX_INPUT_BYTES, open_input
from trimtab.common.recording import MAX_FRAME_BYTES, RecordingError, RecordingReader, RecordingWriter
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import plan_pb2, recording_pb2, snapshot_pb2
from trimtab.v1.option_choice_pb2 import OptionChoice

CHECKPOINT: Final = 25
"""Rounds after which a cluster is kept, packed: a step back reads the rounds since the one before it."""


class Recorded(NamedTuple):
    """One round of a recording. update : the snapshot or its changes; request, answer : what was asked and answered
    then; redacted : whether the file is.
    """

    update: SnapshotUpdate
    request: plan_pb2.PlanRequest
    answer: plan_pb2.PlanResponse
    redacted: bool


def read_rounds(
    name: str, opened: IO[bytes], max_frame_bytes: int = MAX_FRAME_BYTES
) -> Iterator[Recorded | OptionChoice]:
    """Yield the rounds and choices of a recording. Errors: UsageError for damaged or unordered frames."""
    update: SnapshotUpdate | None = None
    request: plan_pb2.PlanRequest | None = None
    kept = plan_pb2.PlanRequest()
    try:
        reader = RecordingReader(name, opened, max_frame_bytes)
        for frame in reader:
            which = frame.WhichOneof("frame")
            if which == "snapshot":
                update = SnapshotUpdate(frame.snapshot, None)
            elif which == "delta":
                update = SnapshotUpdate(None, frame.delta)
            elif which in ("settings", "state"):
                getattr(kept, which).CopyFrom(getattr(frame, which))
            elif which == "request":
                request = _completed(frame.request, kept)
            elif which == "response" and update is not None and request is not None:
                yield Recorded(update, request, frame.response, reader.header.redacted)
                update = request = None
            elif which == "choice":
                yield frame.choice
        if not reader.complete:
            note(f"{name} was not closed: its last rounds may be missing")
    except RecordingError as error:
        raise UsageError(str(error)) from None


def _completed(request: plan_pb2.PlanRequest, kept: plan_pb2.PlanRequest) -> plan_pb2.PlanRequest:
    """Return a request with the settings and state of earlier frames."""
    if not request.HasField("settings") and kept.HasField("settings"):
        request.settings.CopyFrom(kept.settings)
    if not request.HasField("state") and kept.HasField("state"):
        request.state.CopyFrom(kept.state)
        kept.ClearField("state")
    return request


def read_recording(path: Path, max_input_bytes: int = MAX_INPUT_BYTES) -> list[Recorded]:
    """Return the rounds of a recording, [] = it has none. Of a damaged one, the rounds before, with a note."""
    rounds: list[Recorded] = []
    try:
        with open_input(path) as file:
            rounds.extend(
                one for one in read_rounds(str(path), file, max_input_bytes) if not isinstance(one, OptionChoice)
            )
    except UsageError as error:
        if not rounds:
            raise
        note(f"{error}; the {len(rounds)} rounds before are shown")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    return rounds


class RecordedClusters:
    """The cluster of each round."""

    def __init__(self, rounds: list[Recorded]) -> None:
        self._rounds = rounds
        self._packed: dict[int, bytes] = {}
        self._at = -1
        self._cluster: Application | None = None

    def at(self, index: int) -> snapshot_pb2.ClusterSnapshot:
        """Return the cluster of a round. Errors: ValueError, IndexError if changes do not fit the cluster before."""
        if index < self._at or self._cluster is None:
            self._go_back(index)
        for number in range(self._at + 1, index + 1):
            self._apply(number)
        assert self._cluster is not None, "a recording begins with a snapshot"
        return self._cluster.result()

    def _go_back(self, index: int) -> None:
        """Go to the last checkpoint, or to the beginning."""
        at = max((number for number in self._packed if number <= index), default=-1)
        self._at, self._cluster = at, None
        if at >= 0:
            whole = snapshot_pb2.ClusterSnapshot.FromString(zstandard.decompress(self._packed[at]))
            self._cluster = Application(whole)

    def _apply(self, number: int) -> None:
        update = self._rounds[number].update
        if update.snapshot is not None:
            self._cluster = Application(update.snapshot)
        elif update.delta is not None and self._cluster is not None:
            self._cluster.add(update.delta)
        else:
            raise ValueError("its first round has changes, and no cluster before them")
        self._at = number
        if number % CHECKPOINT == 0 and number not in self._packed:
            self._packed[number] = zstandard.compress(self._cluster.result().SerializeToString(), 1)


class RoundsRecorder:
    """Writes rounds to a file. Use as a context manager; its regular end writes the end frame."""

    def __init__(self, path: Path, cluster: str = "", comment: str = "") -> None:
        header = recording_pb2.RecordingHeader(
            cluster=cluster, producer=f"trimtab {version('trimtab')}", comment=comment
        )
        header.create_time.FromDatetime(datetime.now(UTC))
        self._path = path
        self._writer = RecordingWriter(path, header)
        self._state: plan_pb2.PlanState | None = None

    def add(self, update: SnapshotUpdate, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse) -> None:
        """Write one round; a state that was sent by its version is written in full."""
        if update.snapshot is not None:
            self._writer.write(update.snapshot)
        elif update.delta is not None:
            self._writer.write(update.delta)
        whole = plan_pb2.PlanRequest()
        whole.CopyFrom(request)
        if whole.state_version and self._state is not None:
            whole.state.CopyFrom(self._state)
            whole.state_version = ""
        self._writer.write(whole)
        self._writer.write(answer)
        self._writer.flush()
        self._state = answer.state

    def __enter__(self) -> Self:
        self._writer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._writer.__exit__(kind, error, trace)
        except OSError as failure:
            raise FailedError(f"{self._path}: the recording is not complete: {failure}") from failure
