"""A watcher of a real cluster whose etcd is compacted many times a second: lists end, watches continue."""

import json
import re
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.actuator_process import apply, until
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from trimtab.clients.live.reflector import Reflector, ReflectorSettings
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import ConnectionSettings, connect_cluster
from trimtab.common.kubernetes.registry import WATCHED

pytestmark = pytest.mark.e2e

NODES, MORE = 300, 20
NODE_NAME = re.compile(rb"storm-\d+")
WHILE_S = 10.0


class ReceivedNodes:
    """Nodes by name. A node comes more than once, since controllers change it; what counts is which ones came."""

    def __init__(self) -> None:
        self.complete_lists = 0
        self.names: set[bytes] = set()
        # Per complete list, the nodes that it had.
        self.listed_names: list[set[bytes]] = []

    def put(self, kind: str, objects: Any) -> None:
        # The rest of an object may name it again, but no other node.
        self.names.update(name for raw in objects for name in NODE_NAME.findall(bytes(raw))[:1])

    def drop(self, kind: str, raw: bytes) -> None:
        raise AssertionError("no node is deleted")

    def listing(self, kind: str) -> None:
        self.names = set()

    def listed(self, kind: str) -> None:
        self.listed_names.append(set(self.names))
        self.complete_lists += 1


def node(number: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"storm-{number}"}}


def test_lists_end_and_watches_continue_while_etcd_is_compacted_all_the_time(tmp_path: Path) -> None:
    with ControlPlane(cached_binaries(), tmp_path / "state") as plane:
        apply(plane, *map(node, range(NODES)))
        stopped, compactions = threading.Event(), [0]

        def etcd(path: str, **body: object) -> Any:
            request = urllib.request.Request(f"http://127.0.0.1:{plane.etcd_port}{path}", json.dumps(body).encode())
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)

        def compact() -> None:
            while not stopped.wait(0.02):
                revision = etcd("/v3/kv/put", key="c3Rvcm0=", value="eA==")["header"]["revision"]
                etcd("/v3/kv/compaction", revision=revision)
                compactions[0] += 1

        storm = threading.Thread(target=compact)
        storm.start()
        received = ReceivedNodes()
        api = Api(connect_cluster(ConnectionSettings(plane.kubeconfig("admin"))))
        reflector = Reflector(api, WATCHED["Node"], received, ReflectorSettings(page_limit=20))
        watcher = threading.Thread(target=reflector.run)
        watcher.start()
        try:
            until(lambda: received.complete_lists > 0, 60, "a whole list")
            assert received.listed_names[0] == {f"storm-{number}".encode() for number in range(NODES)}
            apply(plane, *map(node, range(NODES, NODES + MORE)))
            until(lambda: len(received.names) == NODES + MORE, 60, "the new nodes are received")
            time.sleep(WHILE_S)
            # One list, and no more than client-go's pauses allow if watches expire.
            assert reflector.lists <= 4
            assert compactions[0] > 20
        finally:
            stopped.set()
            reflector.stop()
            storm.join(60)
            watcher.join(60)
