"""Kubernetes' framing, valid and broken."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.kubernetes_protobuf import frame_bytes, wrap
from trimtab.common.kubernetes.envelope import (
    Frame,
    read_error,
    read_frames,
    read_page,
    resource_version_of,
    unwrap,
)
from trimtab.common.kubernetes.errors import MalformedAnswerError
from trimtab.k8s.v1 import core_pb2, meta_pb2


def pod(name: str) -> bytes:
    built = core_pb2.Pod()
    built.metadata.name, built.metadata.resource_version = name, f"v-{name}"
    return built.SerializeToString()


@given(st.lists(st.integers(1, 30), max_size=12))
def test_frames_are_read_however_the_stream_is_cut(cuts: list[int]) -> None:
    stream = b"".join(frame_bytes("ADDED", "Pod", "v1", pod(name)) for name in "abc")
    chunks, at = [], 0
    for cut in cuts:
        chunks.append(stream[at : at + cut])
        at += cut
    chunks.append(stream[at:])
    assert list(read_frames(chunks)) == [Frame("ADDED", "Pod", pod(name)) for name in "abc"]


def test_an_incomplete_last_frame_is_dropped() -> None:
    stream = frame_bytes("ADDED", "Pod", "v1", pod("a")) + frame_bytes("ADDED", "Pod", "v1", pod("b"))[:-1]
    assert [frame.raw for frame in read_frames([stream])] == [pod("a")]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xff\xff\xff0", id="absurd length"),
        pytest.param(b"\0\0\0\x04\xff\xff\xff\xff", id="no event"),
        pytest.param(b"\0\0\0\x02\x12\0", id="an event without object"),
    ],
)
def test_an_invalid_frame_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedAnswerError):
        list(read_frames([data]))


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_read_but_never_crash(data: bytes) -> None:
    for start in (b"", b"k8s\0"):
        try:
            read_page(start + data)
        except MalformedAnswerError:
            continue


def test_a_page_gives_items_version_and_token() -> None:
    page = meta_pb2.RawList(items=[pod("a"), pod("b")])
    page.metadata.resource_version = "7"
    setattr(page.metadata, "continue", "more")
    read = read_page(wrap("PodList", "v1", page.SerializeToString()))
    assert (read.items, read.resource_version, read.next_page) == ([pod("a"), pod("b")], "7", "more")
    assert resource_version_of(read.items[0]) == "v-a"


def test_an_envelope_says_what_is_inside() -> None:
    assert unwrap(wrap("Pod", "v1", b"x")).type_meta.kind == "Pod"
    with pytest.raises(MalformedAnswerError, match="<html>"):
        unwrap(b"<html>gateway timeout</html>")


@pytest.mark.parametrize(
    ("body", "hint", "expected"),
    [
        pytest.param(
            wrap(
                "Status",
                "v1",
                meta_pb2.Status(
                    code=429, reason="TooManyRequests", details=meta_pb2.StatusDetails(retry_after_seconds=7)
                ).SerializeToString(),
            ),
            "3",
            (429, "TooManyRequests", 7.0),
            id="protobuf, the longer hint counts",
        ),
        pytest.param(
            json.dumps({"kind": "Status", "code": 409, "reason": "Conflict", "message": "m"}).encode(),
            "",
            (409, "Conflict", None),
            id="JSON",
        ),
        pytest.param(b"Service Unavailable\n", "5", (503, "", 5.0), id="text"),
        pytest.param(b"\xff\xfe", "soon", (503, "", None), id="bytes, and a hint that is not a number"),
        pytest.param(b"", "\xb2", (503, "", None), id="a hint that is a digit to Python only"),
        pytest.param(b"", "9" * 400, (503, "", 3600.0), id="a hint beyond all bounds"),
    ],
)
def test_errors_are_read_in_every_form_a_server_or_proxy_gives(
    body: bytes, hint: str, expected: tuple[int, str, float]
) -> None:
    error = read_error(503, body, hint)
    assert (error.status, error.reason, error.retry_after_s) == expected


def test_the_codes_of_the_parts_of_a_failure_are_read_from_both_encodings() -> None:
    causes = [meta_pb2.StatusCause(reason="FieldManagerConflict")]
    status = meta_pb2.Status(code=409, reason="Conflict", details=meta_pb2.StatusDetails(causes=causes))
    text = {
        "code": 409,
        "reason": "Conflict",
        "details": {"causes": [{"reason": "FieldManagerConflict", "field": "f"}]},
    }
    for body in (wrap("Status", "v1", status.SerializeToString()), json.dumps(text).encode()):
        assert read_error(409, body).causes == {"FieldManagerConflict"}
    assert read_error(409, b"Conflict").causes == frozenset()
