"""Reads the rounds of a recording, one after the other: cluster or change, request, answer."""

from collections.abc import Iterator
from typing import IO, NamedTuple

from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.output import note
from trimtab.common.recording import MAX_FRAME_BYTES, RecordingError, RecordingReader
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import plan_pb2
from trimtab.v1.option_choice_pb2 import OptionChoice


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
