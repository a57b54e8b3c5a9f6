"""`trimtab run --replace` on a real control plane over a cluster of wrong sizes, while the actuator is killed several
times: the price comes within five percent of one that no cluster of these node groups can be below, no pod is lost,
and the API server's own records say that budgets held and that nothing was evicted or deleted twice.
"""

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e import audit_log, watch_log, workloads
from tests.e2e.actuator_process import all_ready, apply, listed
from tests.e2e.closed_loop import Part, closed_loop
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from tests.e2e.loop_processes import until
from tests.e2e.restarted import RestartedProcess

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

Json = dict[str, Any]
ACTUATOR, LOOP = "first", "second"
"""Users of the control plane."""
POOL, NODES = "wrong", 10
SETTLED_S, LIMIT_S = 40.0, 400.0
NEAR = 1.05


class Machine(NamedTuple):
    """What a node of a group has, and costs in an hour."""

    cpu: int
    price: float


MACHINES = {"large": Machine(16, 1.10), "medium": Machine(8, 0.36), "small": Machine(4, 0.17)}


class App(NamedTuple):
    """A Deployment with a budget of a quarter of its pods."""

    name: str
    replicas: int
    cpu_milli: int

    @property
    def least_healthy(self) -> int:
        """The fewest pods that its budget allows to be healthy: shares of maxUnavailable are rounded up."""
        return self.replicas - -(-self.replicas // 4)


APPS = (App("web", 24, 1000), App("api", 20, 2000), App("cache", 36, 500))


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """Run a control plane for one test, so that it may be repeated."""
    state = tmp_path / "plane"
    with ControlPlane(cached_binaries(), state, audited=[ACTUATOR, LOOP], audits_pods=True) as started:
        yield started


def groups() -> list[Json]:
    """Return the node groups; the nodes that are there are of the large one."""
    made = []
    for name, machine in MACHINES.items():
        one = workloads.group(name, 60, POOL, str(machine.cpu))
        one["spec"] |= {"nodeSelector": {"pool": POOL, "kind": name}, "price": machine.price}
        one["spec"]["template"]["metadata"]["labels"]["kind"] = name
        made.append(one)
    return made


def fill(plane: ControlPlane) -> list[str]:
    """Create large nodes, about half of which is used by pods that are spread over them; return their names."""
    nodes = workloads.nodes("old", NODES, str(MACHINES["large"].cpu), POOL)
    for node in nodes:
        node["metadata"]["labels"]["kind"] = "large"
    objects = []
    for app in APPS:
        made = workloads.deployment(app.name, app.replicas, f"{app.cpu_milli}m", POOL)
        spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        rule = {**spread, "labelSelector": {"matchLabels": {"app": app.name}}}
        made["spec"]["template"]["spec"]["topologySpreadConstraints"] = [rule]
        objects += [made, workloads.budget(app.name, app.name, maxUnavailable="25%")]
    apply(plane, *nodes, *objects)
    until("all pods are ready", lambda: all_ready(plane), LIMIT_S)
    return [node["metadata"]["name"] for node in nodes]


def least_price() -> float:
    """Return the price of the cheapest nodes whose cores together are enough: no cluster that holds the pods costs
    less.
    """
    cores = sum(app.replicas * app.cpu_milli for app in APPS) / 1000
    most = [range(int(cores / machine.cpu) + 2) for machine in MACHINES.values()]
    return min(
        sum(count * machine.price for count, machine in zip(counts, MACHINES.values(), strict=True))
        for counts in itertools.product(*most)
        if sum(count * machine.cpu for count, machine in zip(counts, MACHINES.values(), strict=True)) >= cores
    )


def replacing(plane: ControlPlane, folder: Path) -> AbstractContextManager[RestartedProcess]:
    """Run planner, actuator and loop; the actuator is entered."""
    # Where pods go is the scheduler's choice: scale-down removes what it leaves half empty.
    scale_down = {"unneededTime": "10s", "delayAfterAdd": "1s", "utilizationThreshold": 1.0}
    acts, loops = Part(ACTUATOR, ["--replace-poll=0.2"]), Part(LOOP, ["--replace"])
    return closed_loop(plane, folder, groups(), scale_down, acts=acts, loops=loops)


def nodes_by_kind(plane: ControlPlane) -> Counter[str]:
    return Counter(one["metadata"]["labels"]["kind"] for one in listed(plane, "nodes"))


def price_of(kinds: Counter[str]) -> float:
    return sum(MACHINES[kind].price * count for kind, count in kinds.items())


def until_settled(plane: ControlPlane) -> Counter[str]:
    """Wait until neither nodes nor their taints nor pods have changed for a while; return the number of each kind of
    nodes.
    """

    def seen() -> tuple[Any, ...]:
        nodes = [(one["metadata"]["name"], str(one["spec"].get("taints"))) for one in listed(plane, "nodes")]
        pods = [(one["metadata"]["name"], one["spec"].get("nodeName")) for one in listed(plane, "pods")]
        return sorted(nodes), sorted(pods, key=str)

    end, last, since = time.monotonic() + LIMIT_S, seen(), time.monotonic()
    while time.monotonic() - since < SETTLED_S:
        assert time.monotonic() < end, "the cluster does not settle"
        time.sleep(0.5)
        if (now := seen()) != last:
            last, since = now, time.monotonic()
    return nodes_by_kind(plane)


def check_records(changes: list[Json], old: set[str], present: set[str]) -> None:
    """Check what the API server has recorded: nobody deleted or evicted twice, nothing but evictions by the actuator,
    and budgets held.
    """
    evicted = audit_log.evictions(changes)
    assert len(evicted) == len(set(evicted)) > 0
    assert set(evicted) == set(audit_log.by_user(changes, ACTUATOR, "create", "pods/eviction")), "others evict nothing"
    assert audit_log.by_user(changes, ACTUATOR, "delete", "pods") == []
    made = audit_log.by_user(changes, ACTUATOR, "create", "nodes")
    deleted = audit_log.by_user(changes, ACTUATOR, "delete", "nodes")
    assert (len(made), len(deleted)) == (len(set(made)), len(set(deleted)))
    assert (old | set(made)) - set(deleted) == present
    for app in APPS:
        assert audit_log.lowest_health(changes, f"{app.name}-") >= app.least_healthy, app.name


@pytest.mark.timeout(1200)
def test_a_cluster_of_wrong_sizes_comes_near_the_bound_though_the_actuator_dies(
    plane: ControlPlane, tmp_path: Path
) -> None:
    old = set(fill(plane))
    before = price_of(nodes_by_kind(plane))

    def evicted() -> int:
        return len(audit_log.evictions(audit_log.changes_of(plane.audit_log)))

    def has_new_nodes() -> bool:
        return any(name not in old for name in (one["metadata"]["name"] for one in listed(plane, "nodes")))

    with watch_log.WatchLog(plane, tmp_path) as log, replacing(plane, tmp_path) as actuator:
        until("the watches have begun", log.has_begun)
        until("the first new node", has_new_nodes, LIMIT_S)
        actuator.die_and_return()
        for count in (1, 12, 30):
            until(f"{count} evictions", lambda count=count: evicted() >= count, LIMIT_S)  # type: ignore[misc]
            actuator.die_and_return()
        kinds = until_settled(plane)
        until("all pods are ready", lambda: all_ready(plane), LIMIT_S)
        changes = log.changes()
    assert price_of(kinds) <= NEAR * least_price() < before, kinds
    present = listed(plane, "nodes")
    assert [one["metadata"]["name"] for one in present if one["spec"].get("taints")] == []
    check_records(audit_log.changes_of(plane.audit_log), old, {one["metadata"]["name"] for one in present})
    assert watch_log.unprotected_evictions(changes) == []
    assert watch_log.overfull_nodes(changes) == []
    assert watch_log.healthy_at_the_end(changes) == {app.name: app.replicas for app in APPS}
