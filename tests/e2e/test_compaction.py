"""A watcher of a real cluster whose etcd is compacted many times a second: lists end, watches continue."""

import json
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.actuator_process import apply, until
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from trimtab.clients.kubernetes.api import Api
from trimtab.clients.kubernetes.connection import ConnectionSettings, connect_cluster
from trimtab.clients.snapshots.live.reflector import Reflector, ReflectorSettings
from trimtab.clients.snapshots.live.resources import BY_KIND

pytestmark = pytest.mark.e2e

NODES, MORE = 300, 20
WHILE_S = 10.0


class Seen:
    """Counts objects."""

    def __init__(self) -> None:
        self.complete = self.count = 0
        self.events = 0

    def put(self, kind: str, objects: Any) -> None:
        self.count += len(objects)
        self.events += len(objects)

    def drop(self, kind: str, raw: bytes) -> None:
        self.events += 1

    def listing(self, kind: str) -> None:
        self.count = 0

    def listed(self, kind: str) -> None:
        self.complete += 1


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
        seen = Seen()
        api = Api(connect_cluster(ConnectionSettings(plane.kubeconfig("admin"))))
        reflector = Reflector(api, BY_KIND["Node"], seen, ReflectorSettings(page_limit=20))
        watcher = threading.Thread(target=reflector.run)
        watcher.start()
        try:
            until(lambda: seen.complete > 0, 60, "a whole list")
            assert seen.count == NODES
            before = seen.events
            apply(plane, *map(node, range(NODES, NODES + MORE)))
            until(lambda: seen.events >= before + MORE, 60, "the new nodes are seen")
            time.sleep(WHILE_S)
            # One list, and no more than client-go's pauses allow if watches expire.
            assert reflector.lists <= 4
            assert compactions[0] > 20
        finally:
            stopped.set()
            reflector.stop()
            storm.join(60)
            watcher.join(60)
