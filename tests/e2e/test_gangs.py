"""Gangs on a real control plane with the scheduler's pod groups, planned by `trimtab run`: no node for a gang that
cannot be whole, nodes of several groups for those that can, and all pods bound by the scheduler once they are there.
"""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.builders import pod_group_objects as gangs
from tests.e2e import workloads
from tests.e2e.actuator_process import QUICK, apply, listed
from tests.e2e.control_plane.control_plane import GANG_GATES, SERVED, ControlPlane, cached_binaries, free_ports
from tests.e2e.loop_processes import planner_at, process, until

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
LIMIT_S = 60.0
CPU = "1800m"
"""Two such pods fill a node of 4 CPUs."""
SIZES = (8, 16, 32, 64)
"""Of gangs that need all nodes which the two groups of their pool may have."""
MOST = {"small-a": 2, "small-b": 3, "large-a": 5, "large-b": 4, "head-a": 1}
MOST |= {f"of{size}-{group}": size // 4 for size in SIZES for group in "ab"}
"""Most nodes of each group; the part before the hyphen is the pool that pods ask for."""


def node_groups() -> list[Json]:
    made = []
    for name, most in MOST.items():
        one = workloads.group(name, most, name.partition("-")[0])
        one["spec"]["nodeSelector"]["group"] = name
        one["spec"]["template"]["metadata"]["labels"]["group"] = name
        made.append(one)
    return made


def members(gang: str, pool: str, count: int, role: str = "worker") -> list[Json]:
    """Return pods of a gang that ask for a pool."""
    made = [workloads.bare_pod(f"{gang}-{role}-{number:02}", CPU, pool) for number in range(count)]
    for one in made:
        one["metadata"]["labels"] = {"gang": gang}
        one["spec"]["schedulingGroup"] = {"podGroupName": gang}
    return made


class Watched(NamedTuple):
    """What is seen of the cluster and of the loop from outside."""

    plane: ControlPlane
    log: Path

    def rounds(self) -> list[Json]:
        """Return the rounds that the loop has told of."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]
        return [one for one in lines if one["event"] == "round"]

    def ordered(self) -> Counter[str]:
        """Return the number of nodes that the loop has ordered, by group."""
        sizes: Counter[str] = Counter()
        for one in self.rounds():
            sizes |= Counter({group: one["grow"][group] for group in one["grown"]})
        return sizes

    def nodes(self) -> dict[str, Json]:
        """Return nodes by name."""
        return {one["metadata"]["name"]: one for one in listed(self.plane, "nodes")}

    def nodes_by_group(self) -> Counter[str]:
        """Return the number of nodes by group."""
        return Counter(one["metadata"]["labels"]["group"] for one in self.nodes().values())

    def pods(self, gang: str) -> list[Json]:
        """Return the pods of a gang."""
        return [one for one in listed(self.plane, "pods") if one["metadata"].get("labels", {}).get("gang") == gang]

    def bound(self, gang: str) -> int:
        """Return how many pods of a gang have a node."""
        return sum("nodeName" in one["spec"] for one in self.pods(gang))

    def attempts(self) -> Counter[str]:
        """Return how many times the scheduler has tried to place a pod group, by result, as it counts itself."""
        found: Counter[str] = Counter()
        for line in self.plane.scheduler_metrics().splitlines():
            if line.startswith("scheduler_podgroup_schedule_attempts_total{"):
                labels, _, value = line.rpartition(" ")
                found[labels.partition('result="')[2].partition('"')[0]] += int(float(value))
        return found

    def more_rounds(self, count: int) -> None:
        """Wait for so many rounds more."""
        wanted = len(self.rounds()) + count
        until(f"{count} rounds", lambda: len(self.rounds()) >= wanted, LIMIT_S)

    def why_not(self, pod: str) -> str:
        """Return the text of the event that says why a pod triggers no scale-up, "" = there is none."""
        for one in listed(self.plane, "events"):
            if one["reason"] == "NotTriggerScaleUp" and one["involvedObject"]["name"] == pod:
                return str(one["message"])
        return ""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    state = tmp_path_factory.mktemp("plane") / "state"
    with ControlPlane(cached_binaries(), state, feature_gates=GANG_GATES, served=SERVED) as started:
        yield started


@pytest.fixture(scope="module")
def watched(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("loop")
    groups = folder / "groups.json"
    groups.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": node_groups()}))
    planner, actuator, health = (f"127.0.0.1:{port}" for port in free_ports(3))
    common = ("--kubeconfig", plane.kubeconfig("admin"))
    with (
        process(
            "trimtab.actuator", "--address", actuator, "--state-dir", folder / "state", "--cloud-config", groups,
            *common, *QUICK, log=folder / "actuator.log",
        ),
        planner_at(planner, folder),
        process(
            "trimtab.clients.cli", "run", "--planner", planner, "--actuator", actuator, "--node-groups", groups,
            "--interval", 0.5, "--health-address", health, *common, log=folder / "loop.log",
        ) as looping,
    ):  # fmt: skip
        seen = Watched(plane, folder / "loop.log")
        until("a round", lambda: looping.poll() is not None or seen.rounds(), LIMIT_S)
        yield seen
        looping.send_signal(signal.SIGTERM)
        assert looping.wait(60) == 0, (folder / "loop.log").read_text()


def test_gangs_get_the_nodes_of_several_groups_that_make_them_whole_or_none(watched: Watched) -> None:
    create = watched.plane
    # 12 pods need 6 nodes; the two groups of the pool may have 5.
    apply(create, gangs.pod_group("never", 12), *members("never", "small", 12))
    text = until("the reason is told", lambda: watched.why_not("never-worker-00"), LIMIT_S)
    assert "its gang default/never waits: 2 of 12 pods that it needs have no place" in text
    watched.more_rounds(5)
    assert watched.ordered() == {}
    assert watched.nodes() == {}

    # Held by the scheduler, and so no demand: 7 of 8 pods exist.
    eight = members("eight", "small", 8)
    apply(create, gangs.pod_group("eight", 8), *eight[:7])
    watched.more_rounds(3)
    assert watched.ordered() == {}

    # The last pod: 4 nodes, more than either group may have.
    apply(create, eight[7])
    until("all of eight are bound", lambda: watched.bound("eight") == 8, LIMIT_S)
    together(watched, "eight", {"small-a", "small-b"}, nodes=4)

    # 15 workers need 8 nodes of two groups, the head one of a third.
    sixteen = [*members("sixteen", "large", 15), *members("sixteen", "head", 1, "head")]
    apply(create, gangs.pod_group("sixteen", 16), *sixteen)
    until("all of sixteen are bound", lambda: watched.bound("sixteen") == 16, LIMIT_S)
    together(watched, "sixteen", {"large-a", "large-b", "head-a"}, nodes=9)

    watched.more_rounds(3)
    assert watched.bound("never") == 0
    assert watched.ordered() == watched.nodes_by_group()
    assert watched.ordered().total() == 13


def test_a_gang_that_cannot_be_whole_takes_no_node_from_a_later_pod(watched: Watched) -> None:
    before = watched.ordered().total()
    alone = workloads.bare_pod("alone", CPU, "small")
    alone["metadata"]["labels"] = {"gang": "alone"}
    apply(watched.plane, alone)
    until("it is bound", lambda: watched.bound("alone") == 1, LIMIT_S)
    watched.more_rounds(3)
    assert watched.ordered().total() == before + 1
    assert watched.bound("never") == 0


@pytest.mark.nightly
@pytest.mark.parametrize("size", SIZES)
def test_gangs_of_up_to_64_pods_get_all_nodes_of_two_groups_and_are_bound_in_one_pass(
    watched: Watched, size: int
) -> None:
    pool = f"of{size}"
    groups = {f"{pool}-a", f"{pool}-b"}
    # Two pods more than all nodes of the two groups have room for.
    over = f"over{size}"
    apply(watched.plane, gangs.pod_group(over, size + 2), *members(over, pool, size + 2))
    text = until("the reason is told", lambda: watched.why_not(f"{over}-worker-00"), LIMIT_S)
    assert f"its gang default/{over} waits: 2 of {size + 2} pods that it needs have no place" in text
    watched.more_rounds(3)
    assert not groups & watched.ordered().keys()

    before = watched.attempts()["scheduled"]
    whole = f"whole{size}"
    apply(watched.plane, gangs.pod_group(whole, size), *members(whole, pool, size))
    until(f"all {size} are bound", lambda: watched.bound(whole) == size, 2 * LIMIT_S)
    together(watched, whole, groups, nodes=size // 2)
    assert watched.attempts()["scheduled"] == before + 1
    watched.more_rounds(2)
    assert {group: watched.ordered()[group] for group in groups} == dict.fromkeys(groups, size // 4)
    assert watched.ordered() == watched.nodes_by_group()
    assert watched.bound(over) == 0


def together(watched: Watched, gang: str, groups: set[str], *, nodes: int) -> None:
    """Check that a gang is on so many nodes of these groups, and that no pod of it was bound before all were there."""
    of_name = watched.nodes()
    used = {one["spec"]["nodeName"] for one in watched.pods(gang)}
    assert len(used) == nodes
    assert {of_name[name]["metadata"]["labels"]["group"] for name in used} == groups
    there = max(of_name[name]["metadata"]["creationTimestamp"] for name in used)
    assert min(map(scheduled_at, watched.pods(gang))) >= there


def scheduled_at(pod: Json) -> str:
    conditions = {one["type"]: one for one in pod["status"]["conditions"]}
    assert conditions["PodScheduled"]["status"] == "True"
    return str(conditions["PodScheduled"]["lastTransitionTime"])
