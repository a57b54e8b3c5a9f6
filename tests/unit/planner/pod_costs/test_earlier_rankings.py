"""After a delta only the groups that it touches are ranked again, with the same answer as ranking all."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders.differences import difference
from tests.builders.kubernetes import (
    Json,
    anti_affinity,
    labelled,
    node,
    node_group,
    pod,
    replica_set,
    snapshot_of,
)  # fmt: skip
from tests.builders.pod_costs import NUMBER, S, at, term
from trimtab.places import ranks_of
from trimtab.planner.decisions.plan import plan
from trimtab.planner.pod_costs import decision
from trimtab.planner.round.round import Work
from trimtab.planner.service.version_cache import CachedSnapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import snapshot_pb2

APPS = ("a", "ab", "b")
OWNERS = {app: replica_set(app, 2) for app in APPS}
NODES = [node("n0", zone="x"), node("n1", zone="y", taints=["soft=1:PreferNoSchedule"]), node("n2")]
GROUPS = [node_group("g", nodes=["n0", "n1"], price=1.0)]
NO_NUMBERS: Mapping[tuple[str, str], str] = {}
NO_TERMS: Mapping[str, Json] = {}
NO_WISHES: Mapping[str, int] = {}
APART = {
    "a": anti_affinity(labelled(app="a")),
    "ab": anti_affinity(labelled(app="b"), topology_key="topology.kubernetes.io/zone"),
}
"""Pods of "a" keep away from each other, those of "ab" from those of "b"."""
SETTINGS = pb.PlanSettings()
for _term in (
    term(S.BALANCE_DOMAINS), term(S.YOUNGEST, weight=0.1), term(S.UNTOLERATED_TAINTS), term(S.NODE_COST), term(S.IDLE)
):  # fmt: skip
    if not SETTINGS.pod_costs.targets:
        SETTINGS.pod_costs.targets.add()
    SETTINGS.pod_costs.targets[0].strategies.append(_term)


APART_FROM = pb.PlanSettings()
APART_FROM.pod_costs.targets.add().strategies.extend([term(S.ANTI_AFFINITY), term(S.YOUNGEST, weight=0.1)])
DRAINING = pb.PlanSettings()
DRAINING.pod_costs.targets.add().strategies.extend([term(S.NODE_DRAIN), term(S.YOUNGEST, weight=0.1)])
DRAINING.scale_down.unneeded_time.SetInParent()


def message(
    pods: Mapping[tuple[str, str], tuple[int, int]],
    numbers: Mapping[tuple[str, str], str] = NO_NUMBERS,
    cpu: str = "100m",
    affinity: Mapping[str, Json] = NO_TERMS,
    desired: Mapping[str, int] = NO_WISHES,
) -> snapshot_pb2.ClusterSnapshot:
    """Return a cluster with these pods: (app, name) to (node, second of creation); by default their numbers are 1, and
    two of each app are desired.
    """
    owners = [replica_set(app, desired.get(app, 2)) for app in APPS]
    objects: list[Json] = [*owners, *NODES, *GROUPS]
    for (app, name), (place, second) in pods.items():
        objects.append(
            pod(
                f"{app}-{name}",
                cpu,
                node=f"n{place}",
                owner=OWNERS[app],
                created=at(second),
                labels={"app": app},
                annotations={NUMBER: numbers.get((app, name), "1")},
                affinity=affinity.get(app),
            )
        )
    built: snapshot_pb2.ClusterSnapshot = snapshot_of(objects, numbers=[NUMBER])
    return built


def decide(kept: CachedSnapshot, asked_for: pb.PlanSettings = SETTINGS, drains: bool = False) -> pb.PodCostsDecision:
    """Return the answer of a plan with or without scale-down."""
    request = pb.PlanRequest(decisions=[pb.Decision.POD_COSTS], settings=asked_for)
    if drains:
        request.decisions.append(pb.Decision.SCALE_DOWN)
    request.now.seconds = 1_800_000_000
    return plan(kept.snapshot, request, None, Work(cache=kept)).pod_costs


def follow(kept: CachedSnapshot, before: Any, after: Any) -> CachedSnapshot:
    """Return the snapshot after a delta, as the service keeps it."""
    delta = difference(before, after)
    return CachedSnapshot(apply_delta(kept.snapshot, delta, kept), kept)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which ranked groups are added, in order."""
    found: list[str] = []
    rank = decision.rank_target

    def note(context: Any, target: Any) -> Any:
        found.extend(context.snapshot.owners[owner].name for owner in context.members.owners.tolist())
        return rank(context, target)

    monkeypatch.setattr(decision, "rank_target", note)
    return found


START = {(app, str(i)): (i % 2, i) for app in APPS for i in range(3)}


@pytest.mark.parametrize("number", ["2", "x"])
def test_a_number_that_alone_changes_has_its_group_ranked_again(asked: list[str], number: str) -> None:
    before, after = message(START), message(START, {("b", "1"): number})
    kept = CachedSnapshot(canonicalize(before))
    decide(kept)
    asked.clear()
    kept = follow(kept, before, after)
    answer = decide(kept)
    assert asked == ["b"]
    assert answer == decide(CachedSnapshot(canonicalize(after)))


@pytest.mark.parametrize(
    ("change", "ranked"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({("ab", "1"): (0, 1)}, ["ab"], id="another node"),
        pytest.param({("b", "1"): (1, 3)}, ["b"], id="another age"),
        pytest.param({("a", "9"): (1, 3)}, ["a"], id="one more, which moves all rows behind it"),
        pytest.param({("a", "1"): None, ("b", "2"): None}, ["a", "b"], id="two less"),
        pytest.param({("a", "1"): None, ("a", "7"): (1, 1)}, ["a"], id="one replaced"),
    ],
)
def test_only_groups_that_a_delta_touches_are_ranked_again(asked: list[str], change: Any, ranked: list[str]) -> None:
    before = message(START)
    kept = CachedSnapshot(canonicalize(before))
    decide(kept)
    assert sorted(asked) == ["a", "ab", "b"]
    asked.clear()
    after = message({key: place for key, place in (START | change).items() if place is not None})
    kept = follow(kept, before, after) if change else kept
    answer = decide(kept)
    assert sorted(asked) == ranked
    assert answer == decide(CachedSnapshot(canonicalize(after)))


GOING = {("a", "0"): (0, 1), ("b", "0"): (0, 2), **{("ab", str(i)): (1, i) for i in range(3)}}
"""Two pods on "n0", which goes; three on "n1", which stays."""


@pytest.mark.parametrize(
    ("change", "ranked"),
    [
        pytest.param({("a", "5"): (2, 4)}, ["a"], id="the same nodes go"),
        pytest.param({("b", "5"): (0, 4)}, ["a", "b"], id="a node stays, with a pod of another group on it"),
        pytest.param({("ab", "1"): None, ("ab", "2"): None}, ["ab"], id="another node goes as well"),
    ],
)
def test_groups_on_nodes_that_no_longer_go_are_ranked_again(asked: list[str], change: Any, ranked: list[str]) -> None:
    before = message(GOING, cpu="1")
    kept = CachedSnapshot(canonicalize(before))
    first = decide(kept, DRAINING, drains=True)
    assert {ranks_of(share.own_ranks)[0] for group in first.groups for share in group.shares[:1]} == {1000, 797}
    asked.clear()
    after = message({key: place for key, place in (GOING | change).items() if place is not None}, cpu="1")
    kept = follow(kept, before, after)
    answer = decide(kept, DRAINING, drains=True)
    assert sorted(asked) == ranked
    assert answer == decide(CachedSnapshot(canonicalize(after)), DRAINING, drains=True)


@pytest.mark.parametrize(
    ("change", "desired", "ranked", "waits"),
    [
        pytest.param({("a", "1"): (0, 1)}, {}, ["a"], {"b": "ab"}, id="a group with terms of its own"),
        pytest.param({("b", "1"): (0, 1)}, {}, ["ab", "b"], {"b": "ab"}, id="a group that another keeps away from"),
        pytest.param({}, {"ab": 3}, ["ab", "b"], {"ab": "b"}, id="no pod, but whose turn it is"),
        pytest.param({}, {"a": 3}, [], {"b": "ab"}, id="no turn"),
        pytest.param({("b", "1"): (2, 1)}, {"ab": 3}, ["ab", "b"], {"ab": "b"}, id="both"),
    ],
)
def test_groups_that_keep_away_from_changed_ones_are_ranked_again(
    asked: list[str], change: Any, desired: Any, ranked: list[str], waits: dict[str, str]
) -> None:
    before, after = message(START, affinity=APART), message(START | change, affinity=APART, desired=desired)
    kept = CachedSnapshot(canonicalize(before))
    assert turn_of(decide(kept, APART_FROM)) == {"b": "ab"}
    asked.clear()
    kept = follow(kept, before, after)
    answer = decide(kept, APART_FROM)
    assert sorted(asked) == ranked
    assert turn_of(answer) == waits
    assert answer == decide(CachedSnapshot(canonicalize(after)), APART_FROM)


def turn_of(answer: pb.PodCostsDecision) -> dict[str, str]:
    """Return which group waits for which."""
    names = {group.owner: group.waits_for for group in answer.groups if group.waits_for}
    return {owner.rpartition("/")[2]: other.rpartition("/")[2] for owner, other in names.items()}
