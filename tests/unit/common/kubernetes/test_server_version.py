"""The version of an API server, of all forms that providers give it, of a server that does not tell, and of a cluster
whose objects alone are known."""

import json

import pytest

from trimtab.common.kubernetes.api import Api, ApiRequest
from trimtab.common.kubernetes.errors import ApiError
from trimtab.common.kubernetes.kinds.nodes import Node, NodeStatus, NodeSystemInfo
from trimtab.common.kubernetes.server_version import server_minor
from trimtab.common.objects.kubelet_versions import minor_of_kubelets


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


@pytest.mark.parametrize(
    ("versions", "minor"),
    [
        pytest.param([], 0, id="no nodes"),
        pytest.param([None, "", "kwok-v0.7.0", "fake", "v2.1.0"], 0, id="none tells it"),
        pytest.param(["v1.36.3", "v1.37.1-eks-5e7a", "kwok-v0.7.0"], 37, id="the newest"),
        pytest.param(["v1.9.11", "v1.36.0"], 36, id="by number"),
        pytest.param(["v1.34.2+k3s1"], 36, id="older than any known allocator"),
    ],
)
def test_of_objects_alone_the_newest_kubelet_tells_the_version(versions: list[str | None], minor: int) -> None:
    nodes = [Node(status=NodeStatus(node_info=NodeSystemInfo(version))) for version in versions]
    assert minor_of_kubelets([Node(), Node(status=NodeStatus()), *nodes]) == minor
