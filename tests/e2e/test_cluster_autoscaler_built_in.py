"""A Cluster Autoscaler with our processors and expander (`clients/go/autoscaler`) on a real control plane, with our
actuator as its cloud: its growth and its scale-down follow plans, node by node, and without a planner it decides alone.

The binary is built by `clients/go/autoscaler/processors/check.sh CHECKOUT BINARY`; its path is in the variable
TRIMTAB_CLUSTER_AUTOSCALER. Without it, the test is skipped.
"""

import re
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import workloads
from tests.e2e.actuator_process import all_ready, apply, command, listed, running, serving, until
from tests.e2e.autoscaler_process import autoscaler
from tests.e2e.control_plane.control_plane import ControlPlane, free_ports
from tests.e2e.loop_processes import planner_at
from tests.e2e.planner_proxy import planner_proxy
from tests.e2e.watch_log import HARD_TAINT, Change, WatchLog, ended_pods, lowest_health

Json = dict[str, Any]
pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
SLOW_S, PODS, LEFT = 240.0, 32, 8


def sized_group(name: str, size: str, cpu: str, max_size: int) -> Json:
    """Return a node group of a pool for which pods choose the pool alone."""
    made = workloads.group(f"{name}-{size}", max_size, pool=name, cpu=cpu)
    for labels in (made["spec"]["nodeSelector"], made["spec"]["template"]["metadata"]["labels"]):
        labels["size"] = size
    return made


def pods_wait(plane: ControlPlane, count: int) -> bool:
    """Return whether so many pods are there."""
    return len(listed(plane, "pods")) >= count


def sizes(plane: ControlPlane) -> Counter[str]:
    """Return the number of nodes of each group."""
    labels = [node["metadata"]["labels"] for node in listed(plane, "nodes")]
    return Counter(f"{one['pool']}-{one['size']}" for one in labels)


def taint_times(changes: list[Change]) -> dict[str, int]:
    """Return when the Cluster Autoscaler chose each node that it removed, Unix seconds: its taint says so."""
    found: dict[str, int] = {}
    for change in changes:
        for taint in change.item["spec"].get("taints", ()) if change.kind == "Node" else ():
            if taint["key"] == HARD_TAINT:
                found.setdefault(change.item["metadata"]["name"], int(taint["value"]))
    return found


@pytest.mark.timeout(900)
def test_groups_grow_and_nodes_go_as_the_plan_names_them(plane: ControlPlane, tmp_path: Path) -> None:
    name, pods, left = "named", 32, 12
    groups = [sized_group(name, "small", "4", 20), sized_group(name, "large", "8", 3)]
    options = command(plane, tmp_path / "actuator", groups, "--serve-externalgrpc")
    ours, real = (f"127.0.0.1:{port}" for port in free_ports(2))
    with ExitStack() as parts:
        parts.enter_context(planner_at(real, tmp_path))
        proxy = parts.enter_context(planner_proxy(ours, real))
        process, client = parts.enter_context(running(tmp_path / "actuator", options))
        serving(process, client)
        apply(plane, workloads.deployment(name, pods, "1", pool=name), workloads.budget(name, name, maxUnavailable=4))
        until(lambda: pods_wait(plane, pods), SLOW_S, "the pods are there")
        address = (tmp_path / "actuator" / "address").read_text().strip()
        parts.enter_context(autoscaler(plane, tmp_path, address, f"--trimtab-address={ours}"))
        until(lambda: all_ready(plane), SLOW_S, "the pods run on new nodes")
        before = {one["metadata"]["name"] for one in listed(plane, "nodes")}
        grown, splits = sizes(plane), proxy.of("scale_up")[0].plan.scale_up.splits
        watched = parts.enter_context(WatchLog(plane, tmp_path))
        until(watched.has_begun, 60, "the watches")
        plane.kubectl("scale", "deployment", name, f"--replicas={left}")
        until(lambda: sum(sizes(plane).values()) < sum(grown.values()), SLOW_S, "a node is gone")
        until(lambda: not proxy.of("scale_down")[-1].goes_now and all_ready(plane), SLOW_S, "no other node can go")
        went, stayed = taint_times(watched.changes()), {one["metadata"]["name"] for one in listed(plane, "nodes")}
    assert dict(grown) == {split.node_group: split.new_size for split in splits}
    assert len(grown) == 2
    answers = proxy.of("scale_down")
    for node, second in went.items():
        assert node in set().union(*(one.goes_now for one in answers if one.at_s < second + 1)), node
    assert before - stayed <= set(went), "a node went that the Cluster Autoscaler did not choose"
    print(f"{dict(grown)}, then without {sorted(went)}; {len(answers)} plans")
    plane.kubectl("delete", "deployment", name)
    plane.kubectl("delete", "nodes", "--all")


@pytest.mark.parametrize("has_planner", [True, False], ids=["with a planner", "without"])
@pytest.mark.timeout(900)
def test_growth_and_scale_down_follow_plans(plane: ControlPlane, tmp_path: Path, has_planner: bool) -> None:
    name = "planned" if has_planner else "alone"
    options = command(plane, tmp_path / "actuator", [workloads.group(name, 20, pool=name)], "--serve-externalgrpc")
    with ExitStack() as parts:
        flags = []
        if has_planner:
            flags.append(f"--trimtab-address=127.0.0.1:{free_ports(1)[0]}")
            parts.enter_context(planner_at(flags[0].partition("=")[2], tmp_path))
        process, client = parts.enter_context(running(tmp_path / "actuator", options))
        serving(process, client)
        address = (tmp_path / "actuator" / "address").read_text().strip()
        log = parts.enter_context(autoscaler(plane, tmp_path, address, *flags))
        apply(plane, workloads.deployment(name, PODS, "1", pool=name), workloads.budget(name, name, maxUnavailable=4))
        until(lambda: all_ready(plane), SLOW_S, "the pods run on new nodes")
        grown = len(listed(plane, "nodes"))
        plane.kubectl("scale", "deployment", name, f"--replicas={LEFT}")
        watched = parts.enter_context(WatchLog(plane, tmp_path))
        # Nodes with two of four cores in use stay, whoever decides: four at most.
        until(lambda: len(listed(plane, "nodes")) <= LEFT // 2 + 1, SLOW_S, "the nodes that can go are gone")
        until(lambda: all_ready(plane), SLOW_S, "the pods run")
        changes, text = watched.changes(), log.read_text()
    left = len(listed(plane, "nodes"))
    print(f"{name}: {grown} nodes, then {left}; {len(ended_pods(changes))} pods moved")
    assert grown >= PODS // 4
    assert lowest_health(changes, "default", {"app": name}) >= LEFT - 4
    assert bool(re.search(r"trimtab: node group planned grows", text)) is has_planner
    assert bool(re.search(r"trimtab: [1-9]\d* nodes can go together", text)) is has_planner
    plane.kubectl("delete", "deployment", name)
    plane.kubectl("delete", "nodes", "--all")
