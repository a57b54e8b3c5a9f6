"""The recording format `*.trimtab`: written and read frame by frame, in constant memory per frame.

Format: `protos/trimtab/v1/recording.proto`. A flushed frame stays readable even if the process dies. The reader reports
where a file is cut off or damaged. Neither interprets the content.
"""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import zstandard
from google.protobuf.message import DecodeError

from trimtab.common.documents.private_files import create_private
from trimtab.v1 import recording_pb2 as pb
from trimtab.v1.option_choice_pb2 import OptionChoice
from trimtab.v1.plan_pb2 import PlanRequest, PlanResponse, PlanSettings, PlanState
from trimtab.v1.snapshot_pb2 import ClusterSnapshot, SnapshotDelta
from trimtab.wire import varint

MAGIC = "trimtab recording"
FORMAT_VERSION = 1
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
MAX_FRAME_BYTES = 1 << 30
"""The largest size of a snapshot."""
_LEVEL = 6
_CHUNK_BYTES = 1 << 14
"""Compressed bytes read at a time; few, because hostile data can expand ten-thousandfold."""

Recorded = ClusterSnapshot | SnapshotDelta | PlanRequest | PlanResponse | PlanSettings | PlanState | OptionChoice
_FIELDS: dict[type[Recorded], str] = {
    ClusterSnapshot: "snapshot",
    SnapshotDelta: "delta",
    PlanRequest: "request",
    PlanResponse: "response",
    PlanSettings: "settings",
    PlanState: "state",
    OptionChoice: "choice",
}


class RecordingError(ValueError):
    """A file is not a recording, is cut off or damaged. The message is for people."""


class RecordingWriter:
    """Writes a recording. Use it as a context manager; a regular exit writes the end frame.

    header : cluster, create_time, producer and comment are taken from it; magic and version are filled in
    """

    def __init__(self, path: Path, header: pb.RecordingHeader | None = None) -> None:
        create_private(path)
        self._file: IO[bytes] = path.open("wb")
        self._stream = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).stream_writer(self._file)
        self._count = 0
        filled = pb.RecordingHeader(magic=MAGIC, format_version=FORMAT_VERSION)
        if header is not None:
            filled.MergeFrom(header)
            filled.magic, filled.format_version = MAGIC, FORMAT_VERSION
        self._write(pb.RecordingFrame(header=filled))

    def write(self, item: Recorded) -> None:
        """Append one frame; it may be buffered until `flush`."""
        frame = pb.RecordingFrame()
        getattr(frame, _FIELDS[type(item)]).CopyFrom(item)
        # An empty message needs its presence set.
        getattr(frame, _FIELDS[type(item)]).SetInParent()
        self._write(frame)

    def flush(self) -> None:
        """Pass all frames to the operating system; they are readable afterwards."""
        self._stream.flush(zstandard.FLUSH_BLOCK)
        self._file.flush()

    def close(self) -> None:
        """Write the end frame and close the file."""
        self._write(pb.RecordingFrame(end=pb.RecordingEnd(frame_count=self._count)))
        self.abandon()

    def abandon(self) -> None:
        """Close the file without an end frame: readers report it as incomplete."""
        self._stream.flush(zstandard.FLUSH_FRAME)
        self._file.close()

    def _write(self, frame: pb.RecordingFrame) -> None:
        data = frame.SerializeToString(deterministic=True)
        self._stream.write(varint(len(data)) + data)
        self._count += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


class RecordingReader:
    """Iterates over the frames of a recording after its header, without the end frame.

    path : for messages; file : the compressed bytes; max_frame_bytes : largest frame that is read.
    header : the header; complete : whether the end frame has been read, known after the iteration;
    frame_bytes : size of the last frame, unpacked.
    Errors: RecordingError on creation for a file that is not a recording of a known version, and during iteration for a
    file cut off inside a frame or damaged, with the number of good frames before.
    """

    def __init__(self, path: str, file: IO[bytes], max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._path = path
        self._file = file
        self._max_frame_bytes = max_frame_bytes
        self.frame_bytes = 0
        self._unpacker = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
        self._buffer, self._position = b"", 0
        self._count = 0
        self.complete = False
        first = self._next()
        if first is None:
            raise self._broken("it is cut off before its first frame")
        if first.header.magic != MAGIC:
            raise RecordingError(f"{path}: not a recording: its first frame is not a header; give a *.trimtab file")
        if first.header.format_version != FORMAT_VERSION:
            version = first.header.format_version
            raise RecordingError(
                f"{path}: format version {version} is unknown, this build reads {FORMAT_VERSION}; use a newer build"
            )
        self.header = first.header

    def __iter__(self) -> Iterator[pb.RecordingFrame]:
        while (frame := self._next()) is not None:
            which = frame.WhichOneof("frame")
            if which == "end":
                self._finish(frame.end)
                return
            if which is not None:
                yield frame

    def _finish(self, end: pb.RecordingEnd) -> None:
        if end.frame_count != self._count - 1:
            raise self._broken(f"its end says that it has {end.frame_count} frames")
        if self._read(1):
            raise self._broken("there is more after its end")
        self.complete = True

    def _next(self) -> pb.RecordingFrame | None:
        length = self._read_length()
        if length is None:
            return None
        if length > self._max_frame_bytes:
            raise self._broken(f"a frame of {length} bytes is larger than the limit of {self._max_frame_bytes} bytes")
        self.frame_bytes = length
        data = self._read(length)
        if len(data) < length:
            raise self._broken("it is cut off inside a frame")
        try:
            frame = pb.RecordingFrame.FromString(data)
        except DecodeError:
            raise self._broken("a frame is damaged") from None
        self._count += 1
        return frame

    def _read_length(self) -> int | None:
        value, shift = 0, 0
        while True:
            byte = self._read(1)
            if not byte:
                if shift:
                    raise self._broken("it is cut off inside a frame")
                return None
            value |= (byte[0] & 0x7F) << shift
            shift += 7
            if byte[0] < 0x80:
                return value
            if shift > 35:
                raise self._broken("the length of a frame is damaged")

    def _read(self, size: int) -> bytes:
        """Read `size` bytes, fewer only at the end of the file."""
        data = self._buffer[self._position : self._position + size]
        self._position += len(data)
        if len(data) == size:
            return data
        parts, missing = [data], size - len(data)
        while missing and self._fill():
            parts.append(self._buffer[:missing])
            self._position = len(parts[-1])
            missing -= self._position
        return b"".join(parts)

    def _fill(self) -> bool:
        """Replace the used-up buffer by the next unpacked bytes, if there are any."""
        self._buffer, self._position = b"", 0
        while not self._buffer:
            packed = self._file.read(_CHUNK_BYTES)
            if not packed:
                return False
            try:
                self._buffer = self._unpacker.decompress(packed)
            except zstandard.ZstdError as error:
                raise self._broken(f"its compressed data are damaged ({error})") from None
        return True

    def _broken(self, problem: str) -> RecordingError:
        return RecordingError(
            f"{self._path}: {problem}, after {self._count} good frames; copy the file again, or record again"
        )


def is_recording(head: bytes) -> bool:
    """Return whether a file that begins with these bytes may be a recording."""
    return head.startswith(ZSTD_MAGIC)
