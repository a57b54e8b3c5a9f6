"""Changes of node groups by operators and clouds, and the reaction of planner and actuator, on virtual time.

Source: the simulations of the Zalando fork of CA (`zalando_simulation_test.go`), in our own words.
"""

import pytest

from tests.builders.cloud_rounds import Rounds
from tests.builders.kubernetes import Json, node, node_group, pod, pods_of, replica_set
from tests.builders.tiers import nightly_but

LABEL = "zalando.org/scaling-priority"
CHECKS = "startup-taint.cluster-autoscaler.kubernetes.io/checks"


def group(name: str, most: int = 10, memory: str = "32Gi", cpu: str = "4", **template: object) -> Json:
    """Return an empty group."""
    model = node("x", cpu=cpu, memory=memory, **template)  # type: ignore[arg-type]
    return node_group(name, 0, most, target=0, nodes=[], template=model)


def waiting(name: str, memory: str = "24Gi", cpu: str = "1", **more: object) -> Json:
    """Return an unschedulable pod."""
    status = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    return pod(name, cpu=cpu, memory=memory, status=status, **more)  # type: ignore[arg-type]


def test_a_larger_maximum_counts_at_once_a_smaller_one_too() -> None:
    rounds = Rounds([group("a", most=1), waiting("p1")])
    assert rounds.run_for(60) == [("a", 1)]
    rounds.add(waiting("p2"))
    assert rounds.run_for(200) == []
    rounds.edit_group("a", maxSize=2)
    assert rounds.run_for(20) == [("a", 1)]
    rounds.edit_group("a", maxSize=1)
    rounds.add(waiting("p3"))
    assert rounds.run_for(200) == []


def test_a_template_that_changes_in_the_cloud_counts_at_once_whatever_the_nodes_are_like() -> None:
    rounds = Rounds([group("a"), waiting("p1")])
    assert rounds.run_for(60) == [("a", 1)]
    rounds.add(waiting("p2", memory="48Gi"))
    assert rounds.run_for(200) == []
    rounds.edit_group("a", template=node("x", cpu="4", memory="64Gi"))
    assert rounds.run_for(20) == [("a", 1)]


def test_a_group_that_comes_grows_and_one_that_is_gone_does_not() -> None:
    rounds = Rounds([group("a"), waiting("p1")])
    assert rounds.run_for(60) == [("a", 1)]
    rounds.add(waiting("p2", memory="60Gi"))
    assert rounds.run_for(200) == []
    rounds.add(group("b", memory="64Gi"))
    assert rounds.run_for(60) == [("b", 1)]
    with rounds.cluster.transaction() as state:
        del state.groups["b"]
    rounds.add(waiting("p3", memory="60Gi"))
    assert rounds.run_for(200) == []


def test_nodes_that_have_not_registered_spoil_no_template() -> None:
    rounds = Rounds([group("a"), group("b"), *(waiting(f"p{number}", memory="20Gi") for number in range(5))])
    rounds.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "0-silent", "uid": "s"}, "spec": {}})
    first = rounds.run_for(10)
    assert sum(count for _, count in first) == 5
    rounds.add(*(waiting(f"q{number}", memory="20Gi") for number in range(5)))
    later = rounds.run_for(120)
    assert sum(count for _, count in later) == 5
    assert rounds.pending == []


@pytest.mark.ci
def test_growth_continues_while_other_nodes_shrink() -> None:
    model = node("x", cpu="4", memory="32Gi")
    machines = [node(f"{name}-0", cpu="4", memory="32Gi", labels={"id": name}) for name in "ab"]
    groups = [node_group(name, 0, 10, target=1, nodes=[f"{name}-0"], template=model) for name in "ab"]
    rounds = Rounds([*machines, *groups, group("c", labels={"id": "c"})])
    rounds.run_for(540)
    wanted = {name: waiting(f"for-{name}", cpu="3", memory="10Gi", node_selector={"id": name}) for name in "bc"}
    rounds.add(*wanted.values())
    assert rounds.run_for(20) == [("c", 1)]
    assert rounds.run_for(120) == []
    assert (rounds.nodes("a"), rounds.nodes("b")) == ([], ["b-0"])
    assert rounds.run_for(800) == []
    assert (rounds.nodes("b"), len(rounds.nodes("c"))) == (["b-0"], 1)


@pytest.mark.parametrize("is_gone", [False, True], ids=["being drained", "instance gone, node still there"])
def test_a_node_being_deleted_is_not_upcoming(is_gone: bool) -> None:
    taint = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1800000000", "effect": "NoSchedule"}
    leaving = node("a-0", cpu="1", memory="8Gi", taints=[taint])
    model = node("x", cpu="1", memory="8Gi")
    rounds = Rounds([leaving, node_group("a", 0, 10, target=1, nodes=["a-0"], template=model)])
    if is_gone:
        with rounds.cluster.transaction() as state:
            state.drop_instance("a-0")
        rounds.edit_group("a", targetSize=0)
    rounds.run_for(10)
    rounds.add(waiting("p", cpu="500m", memory="4Gi"))
    assert rounds.run_for(10) == [("a", 1)]


@pytest.mark.ci
def test_a_node_that_fails_its_checks_is_waited_for_then_another_group_serves_then_it_goes() -> None:
    preferred = group("b", cpu="1", memory="8Gi", labels={LABEL: "100"}, taints=[f"{CHECKS}:NoSchedule"])
    rounds = Rounds(
        [group("a", cpu="1", memory="8Gi"), preferred, waiting("p", cpu="500m", memory="4Gi")],
        scaleUp={"expanders": ["HIGHEST_PRIORITY"]},
    )
    assert rounds.run_for(900) == [("b", 1)]
    assert rounds.run_for(120) == [("a", 1)]
    rounds.run_for(60)
    assert (rounds.pending, len(rounds.nodes("b"))) == ([], 1)
    rounds.run_for(1200)
    assert (len(rounds.nodes("a")), rounds.nodes("b")) == (1, [])


@pytest.mark.parametrize(
    ("present", "remaining"),
    nightly_but([((3, 3, 1), 13)], [((3, 3, 1), 13), ((5, 1, 1), 13), ((2, 2, 2), 14)]),
    ids=["one zone behind", "two zones behind", "even"],
)
def test_spread_pods_get_as_many_nodes_as_they_need_however_uneven_the_zones_are(
    present: tuple[int, int, int], remaining: int
) -> None:
    zones = dict(zip("ABC", present, strict=True))
    machines = [
        node(f"{zone}-{n}".lower(), cpu="4", memory="32Gi", zone=zone) for zone in zones for n in range(zones[zone])
    ]
    groups = [
        node_group(
            f"in-{zone}".lower(),
            0,
            100,
            target=count,
            nodes=[f"{zone}-{n}".lower() for n in range(count)],
            template=node("x", cpu="4", memory="32Gi", zone=zone),
        )
        for zone, count in zones.items()
    ]
    owner = replica_set("foo", 20)
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": owner["spec"]["selector"],
    }
    pods = pods_of(owner, len(machines) + remaining, cpu="3", memory="30Gi", spread=[spread])
    for item, machine in zip(pods, machines, strict=False):
        item["spec"]["nodeName"] = machine["metadata"]["name"]
        item["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    rounds = Rounds([*machines, *groups, owner, *pods])
    grown = rounds.run_for(600)
    assert sum(count for _, count in grown) == remaining
    assert rounds.pending == []
