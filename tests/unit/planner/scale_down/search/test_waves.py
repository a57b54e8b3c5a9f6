"""Waves: nodes that only disruption budgets keep now go later and stay in the plan meanwhile; all fit together."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.drain_sets import APP, WEB, web
from tests.builders.examples import examples
from tests.builders.kubernetes import Json, anti_affinity, labelled, node, node_group, pdb, pod, spread
from tests.builders.scale_down import NOW_S, Outcome, even, plan
from trimtab.v1 import reason_pb2, snapshot_pb2

NO_PLACE = reason_pb2.UnremovableReason.NO_PLACE_TO_MOVE_PODS
NOW: Json = {"unneededTime": "0s"}
FOUR = {"n1": 1, "n2": 1, "n3": 1, "n4": 1}


def cluster(allowed: int, pods: dict[str, int], *, healthy: int = 0, cpu: str = "100m") -> list[Json]:
    """Return nodes with pods under one budget, and a large node outside the group. healthy : what the budget allows
    with all pods healthy, if that is more."""
    total = sum(pods.values()) + healthy
    budget = pdb("budget", allowed, labels=APP)
    budget["status"] |= {"expectedPods": total, "desiredHealthy": total - max(healthy, allowed)}
    return [
        WEB, *(node(name) for name in pods), node("roomy", "64"), budget,
        node_group("g", nodes=list(pods), target=len(pods)),
        *(web(f"{name}-{i}", cpu, name) for name, count in pods.items() for i in range(count)),
    ]  # fmt: skip


def waves(found: Outcome) -> dict[str, int]:
    """Return the wave of each unneeded node."""
    return {entry.node: entry.wave for entry in found.going}


def test_nodes_that_a_budget_does_not_allow_together_go_in_waves_and_only_the_first_goes_now() -> None:
    found = plan(cluster(2, FOUR | {"n5": 1}), settings=NOW)
    assert sorted(waves(found).values()) == [1, 1, 2, 2, 3]
    assert set(found.decision.drain) == {name for name, wave in waves(found).items() if wave == 1}
    later = {name for name, wave in waves(found).items() if wave > 1}
    assert {name: found.not_now[name] for name in later} == dict.fromkeys(later, "LATER_WAVE")
    details = {one.detail for one in found.going if one.wave > 1}
    assert details == {"goes in a later wave, when disruption budgets allow evictions again"}


def test_no_more_waves_are_planned_than_the_setting_says() -> None:
    found = plan(cluster(1, FOUR), settings={"maxWaves": 3})
    assert sorted(waves(found).values()) == [1, 2, 3]
    (blocked,) = set(FOUR) - waves(found).keys()
    assert found.reasons[blocked] == "BLOCKED_BY_POD"
    assert found.blocking[blocked][1] == "NOT_ENOUGH_PDB"


@pytest.mark.parametrize("settings", [{"maxWaves": 1}, {"searchEffort": "FIRST"}])
def test_one_wave_is_planned_where_settings_say_so(settings: Json) -> None:
    assert list(waves(plan(cluster(1, FOUR), settings=settings)).values()) == [1]


def test_a_wave_uses_what_the_budget_allows_with_all_pods_healthy() -> None:
    found = plan(cluster(1, FOUR, healthy=3))
    assert sorted(waves(found).values()) == [1, 2, 2, 2]


def test_a_node_that_has_received_pods_is_in_no_later_wave() -> None:
    # n1 to n3 fill what one of them has: there is no other node.
    objects = [one for one in cluster(1, {"n1": 1, "n2": 1, "n3": 1}, cpu="900m") if one["metadata"]["name"] != "roomy"]
    found = plan(objects)
    assert set(found.destinations.values()).isdisjoint(found.unneeded)
    assert len(found.unneeded) == 2


def test_a_repeated_plan_keeps_waves_times_and_places_without_a_search() -> None:
    first = plan(cluster(2, FOUR | {"n5": 1}))
    second = plan(cluster(2, FOUR | {"n5": 1}), state=first.state, now_s=NOW_S + 10)
    assert waves(second) == waves(first)
    assert second.destinations == first.destinations
    assert second.counts["searched_places"] == 0
    assert {one.since.seconds for one in second.going} == {NOW_S}


def test_the_next_wave_is_the_first_once_its_nodes_may_go() -> None:
    first = plan(cluster(2, FOUR), settings=NOW)
    left = [name for name, wave in waves(first).items() if wave == 2]
    objects = cluster(2, dict.fromkeys(left, 1))
    found = plan(objects, state=first.state, settings={"unneededTime": "60s"}, now_s=NOW_S + 60)
    assert waves(found) == dict.fromkeys(left, 1)
    assert list(found.decision.drain) == left, "unneeded since the first plan"


def test_a_node_of_the_plan_stays_in_it_while_evictions_have_used_up_the_budget() -> None:
    first = plan(cluster(2, FOUR), settings=NOW)
    left = [name for name, wave in waves(first).items() if wave == 2]
    during = plan(cluster(0, dict.fromkeys(left, 1), healthy=2), settings=NOW, state=first.state, now_s=NOW_S + 10)
    assert set(waves(during)) == set(left)
    assert min(waves(during).values()) > 1
    assert list(during.decision.drain) == []
    assert {one.since.seconds for one in during.going} == {NOW_S}
    after = plan(cluster(2, dict.fromkeys(left, 1)), settings=NOW, state=during.state, now_s=NOW_S + 20)
    assert waves(after) == dict.fromkeys(left, 1)


def test_a_node_that_was_in_no_plan_does_not_enter_one_while_a_budget_is_used_up() -> None:
    found = plan(cluster(0, {"n1": 1}, healthy=2))
    assert found.unneeded == []
    assert found.blocking["n1"] == ("default/n1-0", "NOT_ENOUGH_PDB")


def test_a_node_leaves_the_plan_if_its_budget_will_never_allow_an_eviction() -> None:
    first = plan(cluster(1, {"n1": 1, "n2": 1}))
    assert len(first.unneeded) == 2
    assert plan(cluster(0, {"n1": 1, "n2": 1}), state=first.state, now_s=NOW_S + 10).unneeded == []


def more_on(name: str) -> Json:
    """Return a pod that fills a node above the threshold."""
    return pod("more", "3", node=name, owner=WEB, labels={"app": "other"})


def filled(first: Outcome, *, moving: bool) -> Outcome:
    """Plan again with a node of a later wave filled above the threshold; moving : another node is being deleted."""
    (last,) = [name for name, wave in waves(first).items() if wave == 2]
    (gone,) = [name for name, wave in waves(first).items() if wave == 1]
    objects = [*cluster(1, {gone: 1, last: 1}), more_on(last)]
    actuation = snapshot_pb2.ActuationStatus()
    if moving:
        actuation.deletions.add(node=gone, node_group="g", drain=True)
    return plan(objects, state=first.state, now_s=NOW_S + 10, actuation=actuation)


def test_a_node_of_the_plan_stays_a_candidate_though_moved_pods_filled_it_until_it_leaves_the_plan() -> None:
    first = plan(cluster(1, {"n1": 1, "n2": 1}))
    (last,) = [name for name, wave in waves(first).items() if wave == 2]
    during = filled(first, moving=True)
    assert during.unneeded == [last]
    assert during.going[0].utilization > 0.5
    objects = [*cluster(1, {last: 1}), more_on(last)]
    after = plan(objects, state=during.state, now_s=NOW_S + 20)
    assert after.unneeded == [last], "although nothing is moving any more"
    assert plan(objects, now_s=NOW_S + 20).reasons[last] == "NOT_UNDERUTILIZED"


def test_a_node_of_the_plan_that_other_pods_fill_leaves_it() -> None:
    first = plan(cluster(1, {"n1": 1, "n2": 1}))
    (last,) = [name for name, wave in waves(first).items() if wave == 2]
    assert filled(first, moving=False).reasons[last] == "NOT_UNDERUTILIZED"


def test_all_waves_together_stay_above_the_minimum_of_their_group() -> None:
    objects = cluster(1, FOUR)
    objects = [one for one in objects if one["kind"] != "NodeGroup"]
    found = plan([*objects, node_group("g", nodes=list(FOUR), target=4, min_size=2)])
    assert sorted(waves(found).values()) == [1, 2]


def test_the_clock_of_a_later_wave_goes_on_from_the_time_in_the_state() -> None:
    first = plan(cluster(1, FOUR))
    assert len(first.state.later_waves.node) == 4 * 3
    again = plan(cluster(1, FOUR), state=first.state, now_s=NOW_S + 300)
    assert {one.since.seconds for one in again.going} == {NOW_S}


def test_a_node_kept_because_pods_would_not_fit_together_is_reported_with_its_pod() -> None:
    # The pods of n1 and n2 repel each other, and only one other node is left: each fits alone.
    repels = {"affinity": anti_affinity(labelled(**APP))}
    objects = [one for one in cluster(1, {"n1": 1, "n2": 1}) if one["kind"] != "Pod"]
    found = plan([*objects, *(web(f"p{i}", "100m", f"n{i}", **repels) for i in (1, 2))])
    assert waves(found) == {"n1": 1}
    assert found.reasons["n2"] == "NO_PLACE_TO_MOVE_PODS"
    assert found.blocking["n2"] == ("default/p2", "NO_PLACE")


def test_timers_of_later_waves_continue_without_the_opaque_part_of_the_state() -> None:
    first = plan(cluster(1, FOUR))
    first.state.ClearField("opaque")
    again = plan(cluster(1, FOUR), state=first.state, now_s=NOW_S + 300)
    assert sorted(waves(again).values()) == [1, 2, 3, 4]
    assert {one.since.seconds for one in again.going} == {NOW_S}


def test_a_state_whose_waves_do_not_match_its_nodes_is_not_used() -> None:
    first = plan(cluster(1, FOUR))
    first.state.wave = first.state.wave[4:]
    again = plan(cluster(1, FOUR), state=first.state, now_s=NOW_S + 300)
    assert any("could not be read" in note for note in again.notes)
    assert {one.since.seconds for one in again.going} == {NOW_S + 300}


def random_cluster(random: Random) -> list[Json]:
    """Draw nodes with small pods of two controllers with budgets, some of which repel or spread their pods."""
    names = [f"n{i:02}" for i in range(random.randint(4, 12))]
    apps = {"x": random.randint(1, 3), "y": random.randint(1, 4)}
    rules: dict[str, Json] = {}
    for app in apps:
        hostname = {"topology_key": "kubernetes.io/hostname"}
        rules[app] = random.choice([
            {}, {}, {"affinity": anti_affinity(labelled(app=app))},
            {"spread": [spread(labelled(app=app), max_skew=random.randint(1, 3), **hostname)]},
            {"spread": [spread(labelled(app=app), max_skew=random.randint(1, 3))]},
        ])  # fmt: skip
    objects: list[Json] = [WEB, node_group("g", nodes=names[:-1], target=len(names) - 1)]
    for app, allowed in apps.items():
        objects.append(pdb(app, allowed, labels={"app": app}))
    for i, name in enumerate(names):
        objects.append(node(name, zone="abc"[i % 3]))
        repels = {app for app in apps if "affinity" in rules[app]}
        for k in range(random.randint(0, 3)):
            app = random.choice(sorted(apps))
            if app in repels and k:
                continue
            cpu = f"{random.randrange(100, 500, 50)}m"
            objects.append(pod(f"p{i:02}-{k}", cpu, node=name, owner=WEB, labels={"app": app}, **rules[app]))
    return objects


@given(st.integers(0, 2**48), st.sampled_from([{}, even(1), {"candidateOrders": ["NAME"]}]))
@examples(120)
def test_the_waves_of_a_random_cluster_are_proven_and_their_repetition_too(seed: int, settings: Json) -> None:
    """`plan` verifies every wave."""
    random = Random(seed)
    objects = random_cluster(random)
    first = plan(objects, settings=settings)
    second = plan(objects, settings=settings, state=first.state, now_s=NOW_S + 10)
    assert waves(second) == waves(first)
    stuck = [one for one in first.staying if one.reason == NO_PLACE]
    assert all(one.blocking_pod for one in stuck)
    one = plan(objects, settings={**settings, "maxWaves": 1})
    assert [name for name, wave in waves(first).items() if wave == 1] == one.unneeded
