"""Pods that share claims, pods of PodGroups with claims, and devices that several nodes reach, on a real control plane:
the scheduler places as many as the plan does, each where it fitted, and those of one claim on one node.

Each set of pods is planned and asked about before it exists, and has gone where it goes before the next one comes.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from tests.builders import device_objects as dra
from tests.builders import pod_group_objects as gangs
from tests.e2e import workloads
from tests.e2e.actuator_process import apply, listed
from tests.e2e.control_plane.control_plane import DEVICE_GATES, GANG_GATES, SERVED, ControlPlane, cached_binaries
from tests.e2e.fit_and_scheduler import DEVICE_KINDS, GROUP_KINDS, fitting, nodes_of, planned, settle, snapshot_of
from tests.e2e.loop_processes import until
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.planner_client import PlannerClient
from trimtab.places import on_existing

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

Json = dict[str, Any]
LIMIT_S = 120.0
GATES = (*DEVICE_GATES, *GANG_GATES, "DRAWorkloadResourceClaims")
KINDS = f"{DEVICE_KINDS},{GROUP_KINDS}"
CPU = "1300m"
"""Three such pods fill a node of 4 CPUs but for 100m."""
LINK = "link.example.com"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    state = tmp_path_factory.mktemp("plane") / "state"
    with ControlPlane(cached_binaries(), state, feature_gates=GATES, served=SERVED) as started:
        apply(started, dra.device_class("gpu", f'device.driver == "{dra.DRIVER}"'), dra.claim_template("one-gpu"))
        link = dra.claim_spec(dra.request("main", "link"))
        apply(started, dra.device_class("link", f'device.driver == "{LINK}"'), dra.claim_template("one-link", link))
        yield started


@pytest.fixture
def planner() -> Iterator[PlannerClient]:
    with open_planner(None) as opened:
        yield opened


class Places(NamedTuple):
    """Of some pods by name: where they fitted, where the plan puts them, and where the scheduler has put them."""

    fits: dict[str, set[str]]
    plan: dict[str, str]
    bound: dict[str, str]


def carried_out(plane: ControlPlane, planner: PlannerClient, pods: Sequence[Json], *more: Json) -> Places:
    """Plan pods, create them, and wait until as many have a node as the plan has places for. more : what they need."""
    names = [one["metadata"]["name"] for one in pods]
    snapshot = snapshot_of(plane, [*more, *pods], KINDS)
    fits = fitting(planner, snapshot, names)
    plan = {key.partition("/")[2]: node for key, node in on_existing(planned(planner, snapshot)).items()}
    apply(plane, *more, *pods)
    end = time.monotonic() + LIMIT_S
    while len(bound_of(plane, names)) < len(plan):
        assert time.monotonic() < end, f"planned: {plan}; the scheduler says {why_not(plane, names)}"
        time.sleep(0.2)
    bound = bound_of(plane, names)
    assert {name: (node, fits[name]) for name, node in bound.items() if node not in fits[name]} == {}
    return Places(fits, plan, bound)


def why_not(plane: ControlPlane, names: Sequence[str]) -> dict[str, Any]:
    """Return the node of each of some pods, or the conditions that say why it has none."""
    pods = [one for one in listed(plane, "pods") if one["metadata"]["name"] in names]
    return {
        one["metadata"]["name"]: one["spec"].get("nodeName", one["status"].get("conditions", one["status"]))
        for one in pods
    }


def bound_of(plane: ControlPlane, names: Sequence[str]) -> dict[str, str]:
    """Return the nodes of those of some pods that have one."""
    there = nodes_of(plane)
    return {name: there[name] for name in names if there.get(name)}


def gpu_nodes(plane: ControlPlane, pool: str, count: int) -> list[str]:
    """Create nodes with two devices each; return their names."""
    nodes = workloads.nodes(pool, count, pool=pool)
    names = [one["metadata"]["name"] for one in nodes]
    apply(plane, *nodes, *map(dra.gpus, names))
    until("nodes are ready", lambda: ready(plane, names), LIMIT_S)
    return names


def reached_links(pool: str, count: int) -> Json:
    """Return devices that the nodes of a pool reach, and no other."""
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": [pool]}]}]
    spec = {"driver": LINK, "nodeSelector": {"nodeSelectorTerms": terms}}
    return dra.resource_slice(f"links-{pool}", [dra.device(f"link-{at}") for at in range(count)], pool=pool, **spec)


def ready(plane: ControlPlane, names: Sequence[str]) -> bool:
    """Return whether some nodes are ready."""
    conditions = {
        one["metadata"]["name"]: {found["type"]: found["status"] for found in one["status"].get("conditions", ())}
        for one in listed(plane, "nodes")
    }
    return all(conditions.get(name, {}).get("Ready") == "True" for name in names)


def unallocated(name: str, of_class: str = "gpu") -> Json:
    """Return a claim without devices."""
    claim = dra.resource_claim(name, dra.claim_spec(dra.request("main", of_class)))
    del claim["status"]
    return claim


def sharing(claim: str, pool: str, count: int, cpu: str = CPU) -> list[Json]:
    """Return pods that share a claim."""
    return [claiming(f"{claim}-{at}", pool, cpu, resourceClaimName=claim) for at in range(count)]


def claiming(name: str, pool: str, cpu: str, **source: str) -> Json:
    """Return a pod with one claim; source : the field that names it."""
    pod = workloads.bare_pod(name, cpu, pool)
    pod["metadata"]["namespace"] = "default"
    pod["spec"]["resourceClaims"] = [{"name": "own", **source}]
    return pod


def members(group: str, pool: str, count: int) -> list[Json]:
    """Return pods of a PodGroup that has a claim for all of them."""
    made = [claiming(f"{group}-{at}", pool, CPU, resourceClaimTemplateName="one-gpu") for at in range(count)]
    for one in made:
        one["spec"]["schedulingGroup"] = {"podGroupName": group}
    return made


def group_with_claim(name: str, least: int) -> Json:
    return gangs.pod_group(name, least, resourceClaims=[{"name": "own", "resourceClaimTemplateName": "one-gpu"}])


def devices_of(plane: ControlPlane) -> dict[str, tuple[list[str], int]]:
    """Return the pools of each claim's devices, and for how many it is reserved, by the claim's name."""
    return {
        one["metadata"]["name"]: (
            [found["pool"] for found in one["status"]["allocation"]["devices"]["results"]],
            len(one["status"].get("reservedFor", ())),
        )
        for one in listed(plane, "resourceclaims")
        if one.get("status", {}).get("allocation")
    }


def test_pods_that_share_a_claim_go_to_one_node_or_wait_and_a_later_one_joins_them(
    plane: ControlPlane, planner: PlannerClient
) -> None:
    names = gpu_nodes(plane, "team", 3)
    used: dict[str, str] = {}
    for team in ("team-a", "team-b", "team-c"):
        found = carried_out(plane, planner, sharing(team, "team", 3), unallocated(team))
        assert (len(found.plan), len(set(found.plan.values()))) == (3, 1)
        # The nodes that are left are alike, so only that all are together is told beforehand.
        (used[team],) = set(found.bound.values())
        assert devices_of(plane)[team] == ([used[team]], 3)
    assert sorted(used.values()) == names

    none = carried_out(plane, planner, sharing("team-d", "team", 3), unallocated("team-d"))
    assert none == Places({f"team-d-{at}": set() for at in range(3)}, {}, {})

    late = carried_out(plane, planner, [claiming("late", "team", "50m", resourceClaimName="team-b")])
    assert late.fits == {"late": {used["team-b"]}}
    assert late.plan == late.bound == {"late": used["team-b"]}
    assert devices_of(plane)["team-b"] == ([used["team-b"]], 4)
    there = settle(plane, planner, KINDS)
    assert {name for name, node in there.items() if not node} == {f"team-d-{at}" for at in range(3)}


def test_the_pods_of_a_group_with_a_claim_go_to_one_node_and_a_later_one_goes_nowhere_else(
    plane: ControlPlane, planner: PlannerClient
) -> None:
    gpu_nodes(plane, "crew", 2)
    crew = carried_out(plane, planner, members("crew", "crew", 3), group_with_claim("crew", 3))
    (node,) = set(crew.bound.values())
    assert len(crew.plan) == 3
    assert len(set(crew.plan.values())) == 1
    held = [(pools, users) for name, (pools, users) in devices_of(plane).items() if name.startswith("crew-")]
    assert [pools for pools, _ in held] == [[node]], "one claim for the group"

    late = carried_out(plane, planner, members("crew", "crew", 4)[3:])
    assert (late.fits, late.plan, late.bound) == ({"crew-3": set()}, {}, {}), "no room beside the others"


def test_devices_that_several_nodes_reach_are_given_to_as_many_pods_as_planned(
    plane: ControlPlane, planner: PlannerClient
) -> None:
    nodes = [*workloads.nodes("net", 2, pool="net"), *workloads.nodes("far", 1, pool="far")]
    apply(plane, *nodes, reached_links("net", 3))
    until("nodes are ready", lambda: ready(plane, [one["metadata"]["name"] for one in nodes]), LIMIT_S)
    reached = {"net-1", "net-2"}
    found = carried_out(
        plane, planner, [claiming(f"net-{at}", "net", CPU, resourceClaimTemplateName="one-link") for at in range(4)]
    )
    assert list(found.fits.values()) == [reached] * 4
    assert len(found.plan) == len(found.bound) == 3
    far = carried_out(plane, planner, [claiming("far", "far", CPU, resourceClaimTemplateName="one-link")])
    assert far == Places({"far": set()}, {}, {})
    there = settle(plane, planner, KINDS)
    assert sum(bool(there[f"net-{at}"]) for at in range(4)) == 3


def test_pods_that_share_a_claim_of_devices_that_several_nodes_reach_need_no_common_node(
    plane: ControlPlane, planner: PlannerClient
) -> None:
    nodes = workloads.nodes("ring", 2, pool="ring")
    apply(plane, *nodes, reached_links("ring", 1))
    until("nodes are ready", lambda: ready(plane, ["ring-1", "ring-2"]), LIMIT_S)
    found = carried_out(plane, planner, sharing("ring", "ring", 4), unallocated("ring", "link"))
    assert len(found.plan) == len(found.bound) == 4
    assert set(found.plan.values()) == set(found.bound.values()) == {"ring-1", "ring-2"}
    assert devices_of(plane)["ring"] == (["ring"], 4)
    other = carried_out(plane, planner, sharing("second", "ring", 2, "50m"), unallocated("second", "link"))
    assert other == Places({"second-0": set(), "second-1": set()}, {}, {}), "the only device has a claim"
