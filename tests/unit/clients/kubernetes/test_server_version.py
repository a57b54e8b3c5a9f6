"""The version of an API server, of all forms that providers give it, and of a server that does not tell."""

import json

import pytest

from trimtab.clients.kubernetes.api import Api, ApiRequest
from trimtab.clients.kubernetes.errors import ApiError
from trimtab.clients.kubernetes.server_version import server_minor


class _Server(Api):
    """An access to a server that gives one answer."""

    def __init__(self, answer: dict[str, str] | None) -> None:
        self._answer = answer

    def read(self, request: ApiRequest) -> bytes:
        assert request.path == "/version"
        if self._answer is None:
            raise ApiError(403, "Forbidden", "no")
        return json.dumps(self._answer).encode()


@pytest.mark.parametrize(
    ("answer", "minor"),
    [
        ({"major": "1", "minor": "36"}, 36),
        ({"major": "1", "minor": "33+"}, 33),
        ({"major": "2", "minor": "1"}, 0),
        ({}, 0),
        ({"major": "1", "minor": "x"}, 0),
        (None, 0),
    ],
)
def test_the_minor_version_of_a_server_is_read_or_unknown(answer: dict[str, str] | None, minor: int) -> None:
    assert server_minor(_Server(answer)) == minor
