"""The decision on whole clusters: the worked example, skipped groups, stable orders."""

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.kubernetes import Json, deployment, node, node_group, pod, pods_of, replica_set
from tests.builders.pod_costs import NUMBER, S, at, costs, decide, groups, own_ranks, reasons, target, term
from tests.reference.pod_costs import controller, ranks
from trimtab.v1 import plan_pb2 as pb

ZONES = ("a", "b", "c")
WEB = replica_set("web", 12)
WEB_KEY = "ReplicaSet/default/web"
BALANCE = target(term(S.BALANCE_DOMAINS))
OF_THE_POD_ALONE = (
    S.UNTOLERATED_TAINTS, S.PREFER_NO_SCHEDULE_NODES, S.YOUNGEST, S.OLDEST, S.NODE_COST, S.IDLE, S.ACCUMULATED_WORK
)  # fmt: skip
"""Strategies in which a pod's rank does not depend on other pods."""


def nodes() -> list[Json]:
    return [node(f"{zone}{i}", zone=zone) for zone in ZONES for i in (1, 2)]


def worked_example() -> list[Json]:
    """Return 12 pods in 3 zones of 2 nodes, P1 to P4 in the first zone, in order of creation."""
    places = [f"{ZONES[i // 4]}{1 + i % 2}" for i in range(12)]
    pods = [pod(f"p{i + 1}", node=place, owner=WEB, created=at(i)) for i, place in enumerate(places)]
    return [WEB, *nodes(), *pods]


def test_the_design_s_worked_example_comes_out_exactly() -> None:
    objects = worked_example()
    group = groups(decide(objects, BALANCE))[WEB_KEY]
    assert group.complete
    assert own_ranks(group) == {f"p{i + 1}": 1 + i % 4 for i in range(12)}
    highest = {name for name, cost in costs(group).items() if cost == min(costs(group).values())}
    assert highest == {"p4", "p8", "p12"}
    # One of P4, P8, P12 is removed; without a new ranking, one of the other two goes next.
    left = [one for one in objects if one["metadata"]["name"] != "p8"]
    again = groups(decide(left, BALANCE))[WEB_KEY]
    assert costs(again) == {name: cost for name, cost in costs(group).items() if name != "p8"}
    assert {"default/p4", "default/p12"} == set(again.pods[:2])
    assert list(again.pods) == [name for name in group.pods if name != "default/p8"]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), min_size=1, max_size=14))
@examples(40)
def test_removing_always_the_highest_rank_keeps_the_skew_within_one(where: list[tuple[int, int]]) -> None:
    pods = [
        pod(f"p{i:02}", node=f"{ZONES[zone]}1", owner=WEB, created=at(second)) for i, (zone, second) in enumerate(where)
    ]
    group = groups(decide([WEB, *nodes(), *pods], BALANCE))[WEB_KEY]
    zone_of = {f"default/p{i:02}": zone for i, (zone, _) in enumerate(where)}
    count = Counter({zone: 0 for zone in zone_of.values()}) | Counter(zone_of.values())
    skew = max(count.values()) - min(count.values())
    for name in group.pods:
        count[zone_of[name]] -= 1
        now = max(count.values()) - min(count.values())
        assert now <= max(skew, 1)
        skew = now


@pytest.mark.parametrize("strategy", [S.BALANCE_DOMAINS, *OF_THE_POD_ALONE])
def test_ranks_that_need_no_recomputation_stay_as_pods_are_removed(strategy: Any) -> None:
    objects = priced(worked_example())
    before = groups(decide(objects, target(term(strategy))))[WEB_KEY]
    for name in [one.partition("/")[2] for one in before.pods[:11]]:
        objects = [one for one in objects if one["metadata"]["name"] != name]
        after = groups(decide(objects, target(term(strategy))))[WEB_KEY]
        kept = {pod: cost for pod, cost in costs(before).items() if pod in costs(after)}
        assert costs(after) == kept


def priced(objects: list[Json]) -> list[Json]:
    """Return the same with prices and numbers."""
    for i, one in enumerate(one for one in objects if one["kind"] == "Pod"):
        one["metadata"]["annotations"] = {NUMBER: str(i * 7 % 5)}
    cheap, dear = ["a1", "b1", "c1"], ["a2", "b2", "c2"]
    return [*objects, node_group("cheap", nodes=cheap, price=0.1), node_group("dear", nodes=dear, price=2.5)]


@pytest.mark.parametrize("strategy", OF_THE_POD_ALONE)
def test_a_pod_that_is_replaced_costs_one_write(strategy: Any) -> None:
    objects = priced(worked_example())
    before = groups(decide(objects, target(term(strategy))))[WEB_KEY]
    new = pod("p13", node="a2", owner=WEB, created=at(99), annotations={NUMBER: "3"})
    changed = [new, *(one for one in objects if one["metadata"]["name"] != "p2")]
    after = groups(decide(changed, target(term(strategy))))[WEB_KEY]
    assert {name for name, cost in costs(after).items() if costs(before).get(name) != cost} <= {"p13"}


def test_nothing_is_ranked_unless_a_target_selects_it() -> None:
    assert not decide(worked_example()).pod_costs.groups


def selected(**fields: Any) -> dict[str, str]:
    other = replica_set("db", 2, namespace="data")
    objects = [WEB, other, *nodes(), *pods_of(WEB, 2, node="a1"), *pods_of(other, 2, node="a1", labels={"tier": "db"})]
    return reasons(decide(objects, target(term(S.YOUNGEST), **fields)))


DB_KEY = "ReplicaSet/data/db"


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        pytest.param({}, {DB_KEY, WEB_KEY}, id="every controlled pod"),
        pytest.param({"namespaces": ["data"]}, {DB_KEY}, id="a namespace"),
        pytest.param({"owner_kinds": ["Job"]}, set(), id="no such kind"),
        pytest.param({"owner_kinds": ["Job", "ReplicaSet"]}, {DB_KEY, WEB_KEY}, id="a kind"),
        pytest.param({"selector": pb.Selector(match_labels={"tier": "db"})}, {DB_KEY}, id="labels"),
        pytest.param({"selector": pb.Selector(match_labels={"x": "y"})}, set(), id="labels that no pod has"),
    ],
)
def test_a_target_selects_by_namespace_kind_and_labels(fields: dict[str, Any], wanted: set[str]) -> None:
    assert set(selected(**fields)) == wanted


def test_pods_of_a_deployment_are_selected_by_its_kind_too() -> None:
    above = deployment("web", 2)
    owner = replica_set("web-1", 2, owner=above)
    objects = [above, owner, *nodes(), *pods_of(owner, 2, node="a1")]
    assert set(reasons(decide(objects, target(term(S.YOUNGEST), owner_kinds=["Deployment"])))) == {
        "ReplicaSet/default/web-1"
    }


def test_of_several_targets_the_first_that_selects_a_pod_counts() -> None:
    objects = [WEB, *nodes(), *pods_of(WEB, 2, node="a1")]
    answer = decide(objects, target(term(S.OLDEST), namespaces=["x"]), target(term(S.OLDEST)), target(term(S.YOUNGEST)))
    group = groups(answer)[WEB_KEY]
    assert (group.target, [one.strategy for one in group.shares]) == (1, [S.OLDEST])


def test_a_group_of_which_targets_select_parts_is_left_alone_and_others_continue() -> None:
    other = replica_set("db", 1)
    objects = [
        *(WEB, other, *nodes(), *pods_of(other, 1, node="a1")),
        pod("w1", node="a1", owner=WEB, labels={"part": "1"}),
        pod("w2", node="a1", owner=WEB, labels={"part": "2"}),
    ]
    one, two = (pb.Selector(match_labels={"part": part}) for part in "12")
    some = target(term(S.YOUNGEST), selector=one)
    assert reasons(decide(objects, some)) == {WEB_KEY: "SEVERAL_TARGETS"}
    both = decide(objects, some, target(term(S.YOUNGEST), selector=two), target(term(S.OLDEST)))
    assert reasons(both) == {WEB_KEY: "SEVERAL_TARGETS", "ReplicaSet/default/db": ""}
    assert "targets[0]" in groups(both)[WEB_KEY].detail
    assert not groups(both)[WEB_KEY].costs


def test_pods_that_two_controllers_claim_are_found_and_both_are_left_alone() -> None:
    one, two = replica_set("one", 2), replica_set("two", 1)
    for owner in (one, two):
        owner["spec"]["selector"] = {"matchLabels": {"app": "shared"}}
    free = replica_set("free", 1)
    objects = [*(one, two, free, *nodes()), *pods_of(one, 2, node="a1"), *pods_of(free, 1, node="a1")]
    two_pods = [pod("t", node="a1", owner=two, labels={"app": "shared"})]
    answer = decide([*objects, *two_pods], target(term(S.YOUNGEST)))
    assert reasons(answer) == {
        "ReplicaSet/default/free": "",
        "ReplicaSet/default/one": "SEVERAL_CONTROLLERS",
        "ReplicaSet/default/two": "SEVERAL_CONTROLLERS",
    }
    assert "ReplicaSet/default/two" in groups(answer)["ReplicaSet/default/one"].detail
    # A controller of another namespace, one with no desired pods, and an owning Deployment claim nothing.
    two["metadata"]["namespace"] = "elsewhere"
    assert reasons(decide(objects, target(term(S.YOUNGEST))))["ReplicaSet/default/one"] == ""
    two["metadata"]["namespace"], two["spec"]["replicas"] = "default", 0
    assert reasons(decide(objects, target(term(S.YOUNGEST))))["ReplicaSet/default/one"] == ""


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "app", "operator": "In", "values": ["one", "x"]},
        {"key": "app", "operator": "Exists"},
        {"key": "tier", "operator": "DoesNotExist"},
    ],
)
def test_selectors_with_expressions_overlap_too(expression: Json) -> None:
    one, two = replica_set("one", 2), replica_set("two", 1)
    two["spec"]["selector"] = {"matchExpressions": [expression]}
    objects = [one, two, *nodes(), *pods_of(one, 2, node="a1")]
    assert reasons(decide(objects, target(term(S.YOUNGEST)))) == {"ReplicaSet/default/one": "SEVERAL_CONTROLLERS"}


@pytest.mark.parametrize(
    ("revisions", "wanted"),
    [
        pytest.param(("1", "2"), {"old": "ROLLING_UPDATE", "new": ""}, id="the new one is ranked"),
        pytest.param(("", ""), dict.fromkeys(("old", "new"), "ROLLING_UPDATE"), id="it is not known which is new"),
        pytest.param(("2", "2"), dict.fromkeys(("old", "new"), "ROLLING_UPDATE"), id="both are new"),
    ],
)
def test_during_a_rolling_update_the_old_one_is_left_to_the_controller(
    revisions: tuple[str, str], wanted: dict[str, str]
) -> None:
    above = deployment("web", 4)
    owners = [replica_set(name, 2, owner=above) for name in ("old", "new")]
    for owner, revision in zip(owners, revisions, strict=True):
        owner["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": revision}
    pods = [one for owner in owners for one in pods_of(owner, 2, node="a1")]
    found = reasons(decide([above, *owners, *nodes(), *pods], target(term(S.YOUNGEST))))
    assert {owner.rpartition("/")[2]: reason for owner, reason in found.items()} == wanted


def test_a_rolling_update_is_over_when_the_old_one_has_no_pods_and_wants_none() -> None:
    above = deployment("web", 2)
    old, new = replica_set("old", 0, owner=above), replica_set("new", 2, owner=above)
    objects = [above, old, new, *nodes(), *pods_of(new, 2, node="a1")]
    assert reasons(decide(objects, target(term(S.YOUNGEST)))) == {"ReplicaSet/default/new": ""}
    # Its last pod is being deleted: the controller no longer counts it.
    going = pod("going", node="a1", owner=old, deletion="2026-02-01T00:00:00Z")
    assert reasons(decide([*objects, going], target(term(S.YOUNGEST)))) == {"ReplicaSet/default/new": ""}


STRATEGIES = (
    S.BALANCE_DOMAINS, S.UNTOLERATED_TAINTS, S.PREFER_NO_SCHEDULE_NODES, S.YOUNGEST, S.OLDEST, S.NODE_COST, S.IDLE,
    S.ACCUMULATED_WORK,
)  # fmt: skip
WEIGHTS = st.sampled_from([None, 0.0, 0.5, 1.0, 3.0, 40.0, 1e300])
TERMS = st.lists(
    st.tuples(st.sampled_from(STRATEGIES), WEIGHTS, st.sampled_from([None, 1.0, 2.0, 7.5, 1e6])),
    min_size=1,
    max_size=4,
).map(lambda found: [term(code, weight=weight, threshold=limit) for code, weight, limit in found])
TAINTS = ((), ("dead=x:NoSchedule",), ("soft=x:PreferNoSchedule", "dead=x:NoExecute"))
PLACES = st.tuples(st.sampled_from([None, *ZONES]), st.integers(0, 2), st.sampled_from([None, 0.1, 2.5]))
PODS = st.tuples(
    st.integers(0, 5),
    st.integers(0, 7),
    st.sampled_from([None, "0", "2.5", "-3", "1e3", "x", "nan"]),
    st.booleans(),
)


def drawn(places: list[Any], pods: list[Any]) -> tuple[list[Json], list[ranks.Pod]]:
    """Return the objects of a drawn cluster, and its pods as the twin's input."""
    objects: list[Json] = [WEB]
    described: list[ranks.Pod] = []
    for i, (zone, taints, price) in enumerate(places):
        objects.append(node(f"n{i}", zone=zone or "", taints=TAINTS[taints]))
        objects.append(node_group(f"g{i}", nodes=[f"n{i}"], price=price))
    for i, (place, second, number, tolerates) in enumerate(pods):
        has_node = place < len(places)
        zone, taints, price = places[place] if has_node else (None, 0, None)
        tolerations = [{"operator": "Exists", "key": "dead"}] if tolerates else []
        annotations = {} if number is None else {NUMBER: number}
        objects.append(
            pod(
                f"p{i}",
                node=f"n{place}" if has_node else "",
                owner=WEB,
                created=at(second),
                annotations=annotations,
                tolerations=tolerations,
            )
        )
        effects = {"N": 1, "P": 2}
        open_taints = [one for one in TAINTS[taints] if not (tolerates and one.startswith("dead"))]
        described.append(
            {
                "name": f"p{i}",
                "node": has_node,
                "created_s": 1_767_225_600 + second,
                "zone": zone,
                "taints": [effects[one.partition(":")[2][0]] for one in open_taints],
                "price": price,
                "number": None if number is None else (math.nan if number in ("x", "nan") else float(number)),
            }
        )
    return objects, described


@given(TERMS, st.lists(PLACES, min_size=1, max_size=4), st.lists(PODS, min_size=1, max_size=9))
@examples(150)
def test_ranks_and_costs_are_those_of_the_naive_twin(
    terms: list[pb.PodCostTerm], places: list[Any], pods: list[Any]
) -> None:
    """The draws include weights of 0, equal ranks, thresholds, groups of one pod and sums that overflow."""
    objects, described = drawn(places, pods)
    # The controller removes pods on no node first: where others are, these count as gone.
    described = [one for one in described if one["node"]] or described
    answer = decide(objects, target(*terms))
    group = groups(answer)[WEB_KEY]
    problems = [ranks.problem(described, one) for one in terms]
    wanted = next((found for found in problems if found), set())
    assert group.complete == (not wanted)
    if wanted:
        assert group.reason in wanted
        assert not group.costs
        assert not group.pods
        return
    own = [ranks.own_ranks(described, one) for one in terms]
    names = [one["name"] for one in described]
    for share, values in enumerate(own):
        assert own_ranks(group, share) == dict(zip(names, values, strict=True))
    exact = dict(zip(names, ranks.exact_costs(own, terms), strict=True))
    found = costs(group)
    assert found.keys() == exact.keys()
    assert all(abs(found[name] - exact[name]) <= 1 for name in names)
    assert all(-(2**31) < cost <= 0 for cost in found.values())
    assert list(group.pods) == sorted(group.pods, key=lambda name: (found[name.partition("/")[2]], name))


PHASES = ("Running", "Running", "Pending")


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 9), st.sampled_from(PHASES), st.booleans(), st.booleans()),
        min_size=1,
        max_size=9,
    ),
    st.integers(1, 9),
)
@examples(80)
def test_the_real_controller_keeps_the_pods_that_we_would_keep(pods: list[Any], count: int) -> None:
    """Pending, unready and terminating pods follow its own rules; among the others costs decide."""
    objects: list[Json] = [WEB, *nodes()]
    seen: list[controller.ControlledPod] = []
    for i, (place, second, phase, ready, terminating) in enumerate(pods):
        where = f"{ZONES[place % 3]}{1 + place // 3}"
        deletion = at(second) if terminating else None
        objects.append(
            pod(f"p{i}", node=where, owner=WEB, created=at(second), phase=phase, ready=ready, deletion=deletion)
        )
        if not terminating:
            one = controller.ControlledPod(f"p{i}", where, phase, ready, 0, 1 + second, 0, 1 + second, f"u{i}")
            seen.append(one)
    if not seen:
        assert not decide(objects, BALANCE).pod_costs.groups
        return
    group = groups(decide(objects, BALANCE))[WEB_KEY]
    found = costs(group)
    is_last = {one.name: (one.phase == "Pending", one.phase != "Pending" and not one.ready) for one in seen}
    assert found.keys() == {name for name, one in is_last.items() if one == min(is_last.values())}
    gone = controller.deleted([one._replace(cost=found.get(one.name, 0)) for one in seen], count, 100)
    place = {name.partition("/")[2]: i for i, name in enumerate(group.pods)}
    for victim in gone:
        for left in is_last.keys() - set(gone):
            assert is_last[victim] >= is_last[left]
            if victim in found and left in found:
                assert found[victim] <= found[left]
                assert found[victim] == found[left] or place[victim] < place[left]


@pytest.mark.parametrize(
    ("change", "reason", "detail"),
    [
        pytest.param({"node": "elsewhere"}, "POD_WITHOUT_NODE", "default/odd", id="an unknown node"),
        pytest.param({"node": "bare"}, "TOPOLOGY_KEY_MISSING", "node bare", id="a node without the label"),
        pytest.param({"annotations": {NUMBER: "many"}}, "ANNOTATION_INVALID", "default/odd", id="no number"),
        pytest.param({"annotations": {}}, "ANNOTATION_MISSING", NUMBER, id="no annotation"),
        pytest.param({"node": "free"}, "PRICE_UNKNOWN", "node free", id="no price"),
        pytest.param({"created": None}, "AGE_UNKNOWN", "default/odd", id="no age"),
    ],
)
def test_one_pod_that_cannot_be_ranked_leaves_its_whole_group_and_no_other(
    change: Json, reason: str, detail: str
) -> None:
    db = replica_set("db", 2)
    well: Json = {"annotations": {NUMBER: "1"}, "node": "a1"}
    objects = [
        *(WEB, db, *nodes(), node("bare"), node("free", zone="a")),
        *(node_group("g", nodes=["a1", "bare"], price=1.0), node_group("h", nodes=["free"])),
        *pods_of(WEB, 2, **well),
        *pods_of(db, 2, **well),
        pod("odd", owner=WEB, **well | change),
    ]
    terms = [term(code) for code in (S.BALANCE_DOMAINS, S.YOUNGEST, S.IDLE, S.NODE_COST)]
    answer = decide(objects, target(*terms))
    assert reasons(answer) == {WEB_KEY: reason, "ReplicaSet/default/db": ""}
    group = groups(answer)[WEB_KEY]
    assert detail in group.detail
    assert group == pb.PodCostGroup(owner=WEB_KEY, reason=group.reason, detail=group.detail)


@pytest.mark.parametrize("state", [{}, {"node": "a1", "phase": "Pending"}, {"node": "a1", "ready": False}])
def test_pods_that_are_removed_before_costs_count_are_as_good_as_gone(state: Json) -> None:
    ready = pods_of(WEB, 3, node="a1", ready=True)
    answer = decide([WEB, *nodes(), *ready, pod("odd", owner=WEB, **state)], BALANCE)
    assert answer.pod_costs == decide([WEB, *nodes(), *ready], BALANCE).pod_costs
    assert "1 pod gets no deletion cost" in " ".join(answer.summary.notes)


def test_a_pod_whose_controller_is_not_listed_is_noted() -> None:
    answer = decide([*nodes(), pod("p", node="a1", owner=WEB)], BALANCE)
    assert not answer.pod_costs.groups
    assert "1 pod of controllers that the snapshot does not list" in " ".join(answer.summary.notes)


def test_groups_are_sorted_by_owner_whether_they_are_ranked_or_not() -> None:
    owners = [replica_set(name, 2) for name in ("d", "a", "c", "b")]
    pods = [one for owner in owners for one in pods_of(owner, 2, node="a1")]
    answer = decide([*owners, *nodes(), *pods, WEB, pod("odd", owner=WEB)], BALANCE)
    assert [group.owner[-1] for group in answer.pod_costs.groups] == ["a", "b", "c", "d", "b"]  # the last is "web"
