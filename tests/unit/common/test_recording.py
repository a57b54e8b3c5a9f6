"""The recording format: written, read, cut off, damaged."""

import io
from pathlib import Path

import pytest
import zstandard
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.kubernetes import pod, snapshot_of
from trimtab.common.recording import MAGIC, Recorded, RecordingError, RecordingReader, RecordingWriter, is_recording
from trimtab.v1 import recording_pb2 as pb
from trimtab.v1.plan_pb2 import PlanRequest, PlanResponse, PlanSettings, PlanState, ScaleDownState
from trimtab.v1.snapshot_pb2 import ClusterSnapshot, SnapshotDelta

FRAMES: list[Recorded] = [
    PlanSettings(),
    PlanState(),
    snapshot_of(*[pod(f"p{i}") for i in range(50)]),
    PlanRequest(request_id="1", now=Timestamp(seconds=1)),
    PlanResponse(request_id="1"),
    SnapshotDelta(deleted_pods=["default/p1"]),
    PlanRequest(request_id="2"),
]
NAMES = ["settings", "state", "snapshot", "request", "response", "delta", "request"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a recording of all frames."""
    file = tmp_path / "x.trimtab"
    with RecordingWriter(file, pb.RecordingHeader(cluster="c", producer="test", comment="ours")) as writer:
        for frame in FRAMES:
            writer.write(frame)
    return file


def read(data: bytes) -> tuple[list[pb.RecordingFrame], RecordingReader]:
    reader = RecordingReader("x.trimtab", io.BytesIO(data))
    return list(reader), reader


def packed(*frames: pb.RecordingFrame) -> bytes:
    """Return a stream of short frames."""
    data = b"".join(bytes([frame.ByteSize()]) + frame.SerializeToString() for frame in frames)
    return zstandard.ZstdCompressor().compress(data)


def test_what_is_written_is_read_again(path: Path) -> None:
    assert is_recording(path.read_bytes())
    frames, reader = read(path.read_bytes())
    assert [frame.WhichOneof("frame") for frame in frames] == NAMES
    assert [getattr(frame, name) for frame, name in zip(frames, NAMES, strict=True)] == FRAMES
    assert (reader.header.cluster, reader.header.comment, reader.complete) == ("c", "ours", True)


def test_the_same_frames_have_the_same_bytes(path: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    with RecordingWriter(again, pb.RecordingHeader(cluster="c", producer="test", comment="ours")) as writer:
        for frame in FRAMES:
            writer.write(frame)
    assert again.read_bytes() == path.read_bytes()


def test_what_was_flushed_can_be_read_while_the_writer_continues(tmp_path: Path) -> None:
    file = tmp_path / "x"
    with RecordingWriter(file) as writer:
        writer.write(PlanRequest(request_id="1"))
        writer.flush()
        frames, reader = read(file.read_bytes())
    assert ([frame.request.request_id for frame in frames], reader.complete) == (["1"], False)


def test_a_recording_that_an_error_ended_is_not_complete(tmp_path: Path) -> None:
    file = tmp_path / "x"
    with pytest.raises(KeyError), RecordingWriter(file) as writer:
        _write_and_fail(writer)
    frames, reader = read(file.read_bytes())
    assert (len(frames), reader.complete) == (1, False)


def _write_and_fail(writer: RecordingWriter) -> None:
    writer.write(PlanState())
    raise KeyError


def test_frames_of_a_kind_not_known_are_skipped() -> None:
    header = pb.RecordingFrame(header=pb.RecordingHeader(magic=MAGIC, format_version=1))
    unknown = pb.RecordingFrame.FromString(b"\xfa\x01\x00")
    state = pb.RecordingFrame(state=PlanState(scale_down=ScaleDownState(strings=[""])))
    frames, _ = read(packed(header, unknown, state))
    assert frames == [state]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(packed(pb.RecordingFrame(state=PlanState())), "its first frame is not a header", id="no header"),
        pytest.param(packed(), "cut off before its first frame", id="nothing"),
        pytest.param(
            packed(pb.RecordingFrame(header=pb.RecordingHeader(magic=MAGIC, format_version=9))),
            "format version 9 is unknown",
            id="future",
        ),
        pytest.param(b"nonsense", "compressed data are damaged", id="not zstd"),
        pytest.param(zstandard.compress(b"\x05nonsense"), "a frame is damaged", id="not a message"),
        pytest.param(zstandard.compress(b"\xff" * 9), "the length of a frame is damaged", id="length"),
        pytest.param(zstandard.compress(b"\xff\xff\xff\xff\x0f"), "larger than the limit", id="huge"),
        pytest.param(
            packed(
                pb.RecordingFrame(header=pb.RecordingHeader(magic=MAGIC, format_version=1)),
                pb.RecordingFrame(end=pb.RecordingEnd(frame_count=7)),
            ),
            "its end says that it has 7 frames",
            id="frames lost",
        ),
    ],
)
def test_a_file_that_is_not_a_recording_is_refused_by_name(data: bytes, message: str) -> None:
    with pytest.raises(RecordingError, match=message) as caught:
        read(data)
    assert str(caught.value).startswith("x.trimtab: ")


def test_a_recording_cut_off_anywhere_is_an_error_or_known_to_be_incomplete(path: Path) -> None:
    data = path.read_bytes()
    for length in range(0, len(data) - 1, 97):
        try:
            frames, reader = read(data[:length])
        except RecordingError:
            continue
        assert len(frames) <= len(FRAMES)
        assert not reader.complete or len(frames) == len(FRAMES)


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_damaged_byte_gives_a_clear_error_or_the_frames(position: int, change: int) -> None:
    data = bytearray(SMALL)
    data[position % len(data)] ^= change
    try:
        frames, _ = read(bytes(data))
    except RecordingError:
        return
    assert len(frames) <= 1


SMALL = packed(
    pb.RecordingFrame(header=pb.RecordingHeader(magic=MAGIC, format_version=1)),
    pb.RecordingFrame(snapshot=ClusterSnapshot(strings=["", "a"])),
)
