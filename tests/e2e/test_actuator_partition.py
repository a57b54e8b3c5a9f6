"""Two actuators share one store: during a drain the network between the leader and the API server or the store fails,
and heals.

The API server's audit log shows the actions of each: the two are different users.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.builders.postgresql import missing
from tests.builders.tcp_proxy import TcpProxy
from tests.e2e import watch_log
from tests.e2e.actuator_process import deletion_of, until
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from tests.e2e.stages import write_stages
from tests.e2e.two_actuators import check, fill, leads, shared_store, start, to_drain, wait_for_the_end

pytestmark = pytest.mark.e2e


class Way(NamedTuple):
    """How the network fails: connections are reset instead of held; the store is away too, or nothing else; what was
    held comes late.
    """

    name: str
    cuts: bool = False
    with_store: bool = False
    with_api: bool = True
    delivers: bool = False


WAYS = [
    Way("held"),
    Way("cut", cuts=True),
    Way("late", delivers=True),
    Way("isolated", with_store=True),
    Way("store", with_store=True, with_api=False),
]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("plane")
    stages = write_stages(cached_binaries(), directory / "stages.yaml", slow_ms=700, job_ms=100)
    audited = ("first", "second")
    with ControlPlane(cached_binaries(), directory / "state", stages=[stages], audited=audited) as started:
        yield started


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_leader_that_lost_its_network_does_nothing_once_another_leads(
    plane: ControlPlane, tmp_path: Path, way: Way
) -> None:
    pool = way.name
    fill(plane, pool)
    with ExitStack() as stack:
        store = stack.enter_context(shared_store(tmp_path))
        log = stack.enter_context(watch_log.WatchLog(plane, tmp_path))
        until(log.has_begun, 60, "the watches")
        api = stack.enter_context(TcpProxy(plane.api_port))
        network = [api] if way.with_api else []
        near_store = store
        if way.with_store and not missing():
            port = urlsplit(store).port
            assert port is not None
            network.append(stack.enter_context(TcpProxy(port)))
            near_store = store.replace(f":{port}/", f":{network[-1].port}/")
        elif not way.with_api:
            pytest.skip(f"a store in a file does not hang: {missing()}")
        through = through_proxy(plane, tmp_path / "kubeconfig", api.port)
        old, old_client = start(
            stack, plane, tmp_path / "a", pool, [f"--kubeconfig={through}", f"--store={near_store}"]
        )
        until(lambda: leads(old_client), 20, "the first one leads")
        own = [f"--kubeconfig={plane.kubeconfig('second')}", f"--store={store}"]
        new, new_client = start(stack, plane, tmp_path / "b", pool, own)
        answer = old_client.start_deletion(deletion_of("drain", to_drain(pool)))
        assert [one.detail for one in answer.nodes if not one.accepted] == []
        until(lambda: len(old_client.get_status().recent_evictions) >= 3, 90, "some evictions")
        for link in network:
            (link.cut if way.cuts else link.hold)()
        # A store that hangs is given up after 10 s, and once more by the check of its connection.
        until(lambda: leads(new_client), 60, "the second one leads")
        for link in network:
            link.heal(deliver=way.delivers)
        wait_for_the_end(plane, new_client)
        until(lambda: old.poll() is not None, 30, "the old leader ends")
        assert old.returncode == 2
        assert new.poll() is None
    check(plane, log.changes(), pool)
    assert way.delivers or late_acts(plane, pool) == []


def through_proxy(plane: ControlPlane, path: Path, port: int) -> Path:
    """A kubeconfig of the first one that leads through the proxy."""
    text = plane.kubeconfig("first").read_text()
    path.write_text(text.replace(f":{plane.api_port}", f":{port}"))
    return path


def late_acts(plane: ControlPlane, pool: str) -> list[str]:
    """What the first one has changed after the second one had taken the Lease over."""
    acts = [json.loads(line) for line in plane.audit_log.read_text().splitlines()]
    acts = [act for act in acts if act.get("responseStatus", {}).get("code", 500) < 300]
    gains = (arrival(act) for act in acts if act["user"]["username"] == "second" and is_lease(act, pool))
    taken_over = min(gains)
    mine = [act for act in acts if act["user"]["username"] == "first"]
    late = [act for act in mine if arrival(act) > taken_over]
    assert len(late) < len(mine), "the log tells nothing"
    return [f"{act['verb']} {act['requestURI']}" for act in late]


def is_lease(act: dict[str, Any], pool: str) -> bool:
    return bool(act["verb"] == "update" and act["requestURI"].endswith(f"/leases/lease-{pool}"))


def arrival(act: dict[str, Any]) -> str:
    """When it came, as text that can be compared."""
    return str(act["requestReceivedTimestamp"])
