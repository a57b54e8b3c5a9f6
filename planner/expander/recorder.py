"""Records choices for `trimtab replay`. A full disk ends only the recording."""

import threading
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import structlog

from trimtab.common.recording import RecordingWriter
from trimtab.v1 import option_choice_pb2 as pb
from trimtab.v1.recording_pb2 import RecordingHeader

log = structlog.get_logger("expander")


class ChoiceRecorder:
    """Writes each choice as a frame that can be read at once. Thread-safe. Errors: OSError at the start."""

    def __init__(self, path: Path) -> None:
        header = RecordingHeader(producer=f"trimtab-planner {version('trimtab')}", comment="choices of the expander")
        header.create_time.FromDatetime(datetime.now(UTC))
        self._lock = threading.Lock()
        self._writer: RecordingWriter | None = RecordingWriter(path, header)

    def add(self, choice: pb.OptionChoice) -> None:
        """Record one choice with its answer."""
        with self._lock:
            if self._writer is None:
                return
            try:
                self._writer.write(choice)
                self._writer.flush()
            except OSError as error:
                log.error("recording_ended", error=str(error))
                with suppress(OSError):
                    self._writer.abandon()
                self._writer = None

    def close(self) -> None:
        """Write the end of the recording."""
        with self._lock, suppress(OSError):
            if self._writer is not None:
                self._writer.close()
            self._writer = None
