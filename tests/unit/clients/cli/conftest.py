"""Running `trimtab` in this process, and small clusters to run it on."""

from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed, runner


@pytest.fixture
def trimtab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command line; arguments of any type are converted to text."""
    return runner(monkeypatch, capsys)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Write three nodes of one group: n1 with a movable pod, n2 well used, n3 with a bare pod; one pod is pending."""
    nodes = [k8s.node(name, cpu="4", labels={"pool": "a"}) for name in ("n1", "n2", "n3")]
    owner = k8s.replica_set("web", replicas=2)
    web = [k8s.pod(f"web-{i}", cpu="500m", node=node, owner=owner) for i, node in enumerate(("n1", "n2"))]
    busy = k8s.pod("busy", cpu="2500m", node="n2", owner=owner)
    bare = k8s.pod("bare", cpu="200m", node="n3")
    waiting = k8s.pod("waiting", cpu="3900m", owner=owner)
    group = k8s.node_group("a", min_size=0, max_size=5, selector={"pool": "a"})
    return listed(tmp_path, *nodes, owner, *web, busy, bare, waiting, group)
