"""Reads the rounds of a recording, one after the other: cluster or change, request, answer."""

from collections.abc import Iterator
from typing import IO, NamedTuple

from trimtab.clients.cli.failures import InputError
from trimtab.clients.cli.output import note
from trimtab.clients.recording import MAX_FRAME_BYTES, RecordingError, RecordingReader
from trimtab.clients.snapshots.live.taken import Taken
from trimtab.v1 import plan_pb2
from trimtab.v1.option_choice_pb2 import OptionChoice


class Recorded(NamedTuple):
    """One round of a recording."""

    taken: Taken
    request: plan_pb2.PlanRequest
    answer: plan_pb2.PlanResponse
    redacted: bool


def read_rounds(
    name: str, opened: IO[bytes], max_frame_bytes: int = MAX_FRAME_BYTES
) -> Iterator[Recorded | OptionChoice]:
    """Yield the rounds and choices of a recording. Errors: InputError for damaged or unordered frames."""
    taken: Taken | None = None
    request: plan_pb2.PlanRequest | None = None
    kept = plan_pb2.PlanRequest()
    try:
        reader = RecordingReader(name, opened, max_frame_bytes)
        for frame in reader:
            which = frame.WhichOneof("frame")
            if which == "snapshot":
                taken = Taken(frame.snapshot, None)
            elif which == "delta":
                taken = Taken(None, frame.delta)
            elif which in ("settings", "state"):
                getattr(kept, which).CopyFrom(getattr(frame, which))
            elif which == "request":
                request = _completed(frame.request, kept)
            elif which == "response" and taken is not None and request is not None:
                yield Recorded(taken, request, frame.response, reader.header.redacted)
                taken = request = None
            elif which == "choice":
                yield frame.choice
        if not reader.complete:
            note(f"{name} was not closed: its last rounds may be missing")
    except RecordingError as error:
        raise InputError(str(error)) from None


def _completed(request: plan_pb2.PlanRequest, kept: plan_pb2.PlanRequest) -> plan_pb2.PlanRequest:
    """Return a request with the settings and state of earlier frames."""
    if not request.HasField("settings") and kept.HasField("settings"):
        request.settings.CopyFrom(kept.settings)
    if not request.HasField("state") and kept.HasField("state"):
        request.state.CopyFrom(kept.state)
        kept.ClearField("state")
    return request
