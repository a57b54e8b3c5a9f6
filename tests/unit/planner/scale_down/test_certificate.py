"""The certificate rejects every kind of bad plan: a checker that accepts everything would prove nothing."""

from collections.abc import Callable

import pytest

from tests.builders.kubernetes import (
    Json,
    anti_affinity,
    labelled,
    node,
    node_group,
    pdb,
    persistent_volume_claim,
    pod,
    pod_affinity,
    replica_set,
    snapshot_of,
    spread,
    storage_class,
)
from tests.builders.places import move
from tests.builders.scale_down import NOW_S, even, plan, settings_of
from tests.certificates.scale_down import offences
from trimtab.places import each_place
from trimtab.v1 import plan_pb2, reason_pb2

Answer = plan_pb2.PlanResponse
Fate = plan_pb2.NodeFate
GROUP = node_group("g", nodes=["n1", "n2"], target=2)


def base() -> list[Json]:
    web = replica_set("web", 3)
    return [
        node("n1", zone="a"), node("n2", zone="a"), node("n3", zone="b"), node("n4", zone="b"), GROUP, web,
        pod("web-0", "1", node="n1", owner=web, labels={"app": "web"}),
        pod("web-1", "1", node="n2", owner=web, labels={"app": "web"}),
    ]  # fmt: skip


def plan_by_hand(**where: str) -> Answer:
    """Return a plan with both nodes long unneeded and pods on the test's nodes."""
    good = plan(*base()).answer
    assert [entry.node for entry in good.scale_down.unneeded] == ["n1", "n2"]
    move(good.scale_down.places, {f"default/{name.replace('_', '-')}": node for name, node in where.items()})
    return good


def faults(objects: list[Json], answer: Answer, settings: Json | None = None) -> str:
    return "\n".join(offences(snapshot_of(*objects), settings_of(settings), answer, NOW_S))


def on_n3(**of_both: object) -> list[Json]:
    """Return the base cluster with extended pods, and a plan that puts both on n3."""
    web = replica_set("web", 3)
    pods = [pod(f"web-{i}", "1", node=f"n{i + 1}", owner=web, labels={"app": "web"}, **of_both) for i in range(2)]
    return [*base()[:6], *pods]


BAD_PLACES = {
    "room": (on_n3(requests={"cpu": "3"}), "used"),
    "taint": ([*base()[:2], node("n3", zone="b", taints=["x=y:NoSchedule"]), *base()[3:]], "taint x"),
    "cordon": ([*base()[:2], node("n3", zone="b", unschedulable=True), *base()[3:]], "cordoned"),
    "selector": (on_n3(node_selector={"topology.kubernetes.io/zone": "a"}), "excludes the node"),
    "ports": (on_n3(host_ports=[80]), "host port 80"),
    "pod count": ([*base()[:2], node("n3", zone="b", pods="1"), *base()[3:]], "2 pods on a node for 1"),
    "anti-affinity": (on_n3(affinity=anti_affinity(labelled(app="web"))), "anti-affinity"),
    "affinity": (on_n3(affinity=pod_affinity(labelled(app="db"))), "no pod it has affinity to"),
    "spread": (
        on_n3(spread=[spread(labelled(app="web"), topology_key="kubernetes.io/hostname")]),
        "allowed skew 1",
    ),
    "missing claim": (
        [*on_n3(claims=["c"]), persistent_volume_claim("c", storage_class="s"), storage_class("s", wait=False)],
        "cannot be",
    ),
    "unknown claim": (on_n3(spec={"resourceClaims": [{"name": "c"}]}), "it names neither a ResourceClaim"),
}


@pytest.mark.parametrize("case", BAD_PLACES.values(), ids=BAD_PLACES.keys())
def test_a_place_that_the_scheduler_would_refuse_is_found(case: tuple[list[Json], str]) -> None:
    objects, expected = case
    assert expected in faults(objects, plan_by_hand(web_0="n3", web_1="n3"))


def test_a_plan_whose_pods_only_fit_beside_one_another_is_found() -> None:
    third = pod("web-2", node="n4", owner=replica_set("web", 3), labels={"app": "web"})
    objects = [*on_n3(affinity=pod_affinity(labelled(app="web"))), third]
    assert "in no order can ['default/web-1', 'default/web-0'] be placed" in faults(
        objects, plan_by_hand(web_0="n3", web_1="n3")
    )


def _forget_node(answer: Answer) -> None:
    del answer.nodes[2]


def _keep_unneeded(answer: Answer) -> None:
    answer.nodes[0].fate = Fate.STAYS


def _forget_reason(answer: Answer) -> None:
    answer.nodes[2].reason = reason_pb2.UnremovableReason.UNSPECIFIED


def _go_now(answer: Answer, row: int) -> None:
    answer.nodes[row].fate = Fate.GOES_NOW
    answer.nodes[row].ClearField("reason")


def _forget_pod(answer: Answer) -> None:
    move(answer.scale_down.places, {"default/web-0": ""})


def _to_unneeded(answer: Answer) -> None:
    move(answer.scale_down.places, {"default/web-0": "n2"})


def _to_nowhere(answer: Answer) -> None:
    move(answer.scale_down.places, {"default/web-0": "n9"})


def _other_assumption(answer: Answer) -> None:
    answer.scale_down.unneeded[0].assumption.pods_to_move_digest = "0" * 16


def _too_early(answer: Answer) -> None:
    _go_now(answer, 0)
    answer.scale_down.drain.append("n1")
    answer.scale_down.result = reason_pb2.ScaleDownResult.SCALE_DOWN_NODE_DELETE_STARTED


def _full_as_empty(answer: Answer) -> None:
    _too_early(answer)
    answer.scale_down.delete_empty.append(answer.scale_down.drain.pop())


def _unmarked(answer: Answer) -> None:
    answer.scale_down.drain.append("n1")


def _since_the_future(answer: Answer) -> None:
    answer.nodes[0].since.seconds = NOW_S + 1


BAD_PLANS: dict[str, tuple[Callable[[Answer], None], str]] = {
    "a node without a verdict": (_forget_node, "n3 has a verdict: False"),
    "a node that goes and stays": (_keep_unneeded, "marked so"),
    "a node without reason": (_forget_reason, "with the reason 0"),
    "a pod forgotten": (_forget_pod, "must move ['default/web-0']"),
    "a pod to a node that goes": (_to_unneeded, "does not stay"),
    "a pod to a node that is not there": (_to_nowhere, "does not stay"),
    "an assumption of other pods": (_other_assumption, "assumes other pods"),
    "a node before its time": (_too_early, "goes after 0 s"),
    "a full node as empty": (_full_as_empty, "is not empty"),
    "a drain that is not marked": (_unmarked, "marked so"),
    "a time in the future": (_since_the_future, "since the future"),
}


@pytest.mark.parametrize("case", BAD_PLANS.values(), ids=BAD_PLANS.keys())
def test_a_plan_that_contradicts_itself_is_found(case: tuple[Callable[[Answer], None], str]) -> None:
    spoil, expected = case
    answer = plan_by_hand()
    assert faults(base(), answer) == ""
    spoil(answer)
    assert expected in faults(base(), answer)


BAD_CLUSTERS = {
    "a budget": ([*base(), pdb(allowed=1)], None, "2 disruptions of 1"),
    "a group's minimum": (
        [*base()[:4], node_group("g", 1, nodes=["n1", "n2"], target=2), *base()[5:]],
        None,
        "below 1",
    ),
    "no group": ([*base()[:4], *base()[5:]], None, "may not be taken"),
    "a minimum of cores": (
        base(),
        {"planner": {"limits": [{"resource": "cpu", "minimum": "9000"}]}},
        "8000 of cpu stay",
    ),
    "a pod nobody creates again": ([*base()[:6], pod("web-0", node="n1"), base()[7]], None, "nothing creates it again"),
}


@pytest.mark.parametrize("case", BAD_CLUSTERS.values(), ids=BAD_CLUSTERS.keys())
def test_a_plan_that_ignores_a_limit_is_found(case: tuple[list[Json], Json | None, str]) -> None:
    objects, settings, expected = case
    assert expected in faults(objects, plan_by_hand(), settings)


def test_more_deletions_than_allowed_are_found() -> None:
    answer = plan(*base(), settings={"unneededTime": "0s"}).answer
    assert list(answer.scale_down.drain) == ["n1", "n2"]
    settings = {"unneededTime": "0s", "maxScaleDownParallelism": 1}
    assert "2 + 0 deletions" not in faults(base(), answer, {"unneededTime": "0s"})
    assert "0 + 2 + 0 deletions, 1 allowed" in faults(base(), answer, settings)
    assert "2 + 0 drains, 1 allowed" in faults(base(), answer, {"unneededTime": "0s", "maxDrainParallelism": 1})


def grown(ago_s: int) -> list[Json]:
    """Return the base cluster, its group scaled up `ago_s` before `NOW_S`, which is 08:00 on 2027-01-15."""
    minutes, seconds = divmod(8 * 3600 - ago_s, 60)
    status = {"lastScaleUpTime": f"2027-01-15T{minutes // 60:02}:{minutes % 60:02}:{seconds:02}Z"}
    return [*base()[:4], node_group("g", nodes=["n1", "n2"], target=2, status=status), *base()[5:]]


def test_a_node_that_goes_in_a_cool_down_is_found() -> None:
    answer = plan(*base(), settings={"unneededTime": "0s"}).answer
    assert "n1 goes in a cool-down of ['g']" in faults(grown(599), answer, {"unneededTime": "0s"})
    assert faults(grown(600), answer, {"unneededTime": "0s"}) == ""
    assert "result 3 in a cool-down" in faults(grown(1), answer, {"unneededTime": "0s"})
    assert faults(grown(1), answer, {"unneededTime": "0s", "delayAfterAdd": "0s"}) == ""


def test_a_candidate_of_a_group_in_cool_down_is_found() -> None:
    answer = plan_by_hand()
    assert "n1 goes in a cool-down of ['g']" in faults(grown(10), answer, {"delayTypeLocal": True})


def test_groups_and_zones_that_become_too_uneven_are_found() -> None:
    zones = {"a1": "u", "a2": "v", "a3": "u", "b1": "u", "b2": "v", "b3": "u"}
    objects = [
        *(node(name, zone=zone) for name, zone in zones.items()),
        node_group("a", nodes=["a1", "a2", "a3"]), node_group("b", nodes=["b1", "b2", "b3"]),
        replica_set("web", 9), *(pod(f"p-{name}", "3", node=name, owner=replica_set("web", 9))
                                 for name in ("b1", "b2", "b3")),
    ]  # fmt: skip
    settings: Json = {"unneededTime": "0s"}
    answer = plan(*objects, settings=settings).answer
    assert list(answer.scale_down.delete_empty) == ["a1", "a2", "a3"]
    assert faults(objects, answer, settings) == faults(objects, answer, settings | even(3)) == ""
    assert "group a falls to 0, one like it keeps 3" in faults(objects, answer, settings | even(2))
    found = faults(objects, answer, settings | even(1))
    assert "zone v falls to 1" not in found, "zones are within one of each other"
    other = [node(f"c{i}", zone="u") for i in range(3)]
    found = faults(
        [*objects, *other, node_group("c", nodes=["c0", "c1", "c2"])],
        answer,
        settings | even(1),
    )
    assert "zone v falls to 1, one like it keeps 5" in found


def in_waves(**of_pods: object) -> tuple[list[Json], Answer]:
    """Return the base cluster with a budget for one pod, and its plan in two waves."""
    web = replica_set("web", 3)
    pods = [pod(f"web-{i}", "1", node=f"n{i + 1}", owner=web, labels={"app": "web"}, **of_pods) for i in range(2)]
    objects = [*base()[:6], *pods, pdb(allowed=1, desired=2, expected=3)]
    answer = plan(*objects).answer
    assert [(one.node, one.wave) for one in answer.nodes if one.wave] == [("n1", 1), ("n2", 2)]
    return objects, answer


BAD_WAVES = {
    "two nodes in the first wave": ((1, 1), "2 disruptions of 1"),
    "two nodes in a later wave": ((2, 2), "2 of 1 in a wave"),
    "a wave too late": ((1, 11), "waves [1, 11], 1 to 10 are allowed"),
    "a node in no wave": ((1, 0), "waves [0, 1], 1 to 10 are allowed"),
}


@pytest.mark.parametrize("case", BAD_WAVES.values(), ids=BAD_WAVES.keys())
def test_waves_that_budgets_do_not_allow_are_found(case: tuple[tuple[int, int], str]) -> None:
    numbers, expected = case
    objects, answer = in_waves()
    assert faults(objects, answer) == ""
    for verdict, wave in zip(answer.nodes[:2], numbers, strict=True):
        verdict.wave = wave
    assert expected in faults(objects, answer)


def test_a_node_of_a_later_wave_that_goes_now_is_found() -> None:
    objects, answer = in_waves()
    _go_now(answer, 1)
    answer.scale_down.drain.append("n2")
    assert "n2 goes now, and is in wave 2" in faults(objects, answer)


def test_a_wave_whose_pods_only_fit_after_a_later_wave_is_found() -> None:
    # The pods repel each other in a zone, and change places.
    zones = {"n1": "a", "n2": "b", "n3": "a", "n4": "b"}
    objects, _ = in_waves()
    web = replica_set("web", 3)
    repels = anti_affinity(labelled(app="web"), topology_key="topology.kubernetes.io/zone")
    others = [one for one in objects if one["kind"] not in ("Node", "Pod")]
    pods = [pod(f"web-{i}", "1", node=f"n{i + 1}", owner=web, labels={"app": "web"}, affinity=repels) for i in range(2)]
    objects = [*(node(name, zone=zone) for name, zone in zones.items()), *others, *pods]
    answer = in_waves()[1]
    targets = dict(zip([entry.node for entry in answer.scale_down.unneeded], ("n4", "n3"), strict=True))
    move(answer.scale_down.places, {pod: targets[node] for pod, node, _ in each_place(answer.scale_down.places)})
    found = faults(objects, answer)
    assert "up to wave 1: default/web-0 on n4" in found
    answer.nodes[1].wave = 1
    assert "default/web-0 on n4" not in faults(objects, answer)
