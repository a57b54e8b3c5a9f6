"""Writes rounds of the loop to a recording; each can be read as soon as it is written."""

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

from trimtab.clients.cli.failures import FailedError
from trimtab.common.recording import RecordingWriter
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import plan_pb2, recording_pb2


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
