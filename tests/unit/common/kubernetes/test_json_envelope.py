"""The API server's JSON, valid and broken."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.common.kubernetes.encodings import JSON
from trimtab.common.kubernetes.envelope import Frame
from trimtab.common.kubernetes.errors import MalformedAnswerError
from trimtab.common.kubernetes.json_envelope import read_frames, read_page, resource_version_of


def made(name: str) -> bytes:
    return json.dumps({"kind": "CapacityBuffer", "metadata": {"name": name, "resourceVersion": f"v-{name}"}}).encode()


def event(name: str) -> bytes:
    return b'{"type": "ADDED", "object": ' + made(name) + b"}\n"


@given(st.lists(st.integers(1, 60), max_size=12))
def test_events_are_read_however_the_stream_is_cut(cuts: list[int]) -> None:
    stream = b"".join(event(name) for name in "abc")
    chunks, at = [], 0
    for cut in cuts:
        chunks.append(stream[at : at + cut])
        at += cut
    chunks.append(stream[at:])
    assert list(read_frames(chunks)) == [Frame("ADDED", "CapacityBuffer", made(name)) for name in "abc"]


def test_an_incomplete_last_event_is_dropped() -> None:
    assert [frame.raw for frame in read_frames([event("a") + event("b")[:-1]])] == [made("a")]


def test_a_page_has_its_objects_as_they_came() -> None:
    body = b'{"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [%b, %b]}'
    page = read_page(body % (made("a"), made("b")))
    assert page == ([made("a"), made("b")], "7", "next")
    assert [resource_version_of(item) for item in page.items] == ["v-a", "v-b"]
    assert read_page(b'{"items": null}') == ([], "", "")


def test_an_error_in_a_watch_is_reported_with_its_code() -> None:
    error = JSON.error_of(b'{"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}')
    assert (error.status, error.reason, error.is_expired) == (410, "Expired", True)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"items": 3}', b'{"items": [{]}', b"\xff"])
def test_an_invalid_list_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedAnswerError):
        read_page(body)
    with pytest.raises(MalformedAnswerError):
        list(read_frames([body + b"x\n"]))
