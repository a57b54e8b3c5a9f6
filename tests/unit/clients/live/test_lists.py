"""An open watch is ended from any thread, at any time."""

import socket

import pytest
import urllib3

from trimtab.clients.live.lists import WatchStream


@pytest.mark.parametrize("is_closed_before", [False, True], ids=["while it is open", "once its socket is closed"])
def test_a_watch_can_be_ended_whether_its_reader_has_closed_the_connection_or_not(is_closed_before: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        response = urllib3.HTTPResponse(preload_content=False, sock_shutdown=ours.shutdown, connection=ours)
        if is_closed_before:
            ours.close()
        stream = WatchStream(response, 0.0, lambda _: iter(()))
        stream.close()
        assert list(stream) == []
