"""ANTI_AFFINITY: ranks are those of the naive twin; groups that share terms take turns."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.kubernetes import Json, labelled, namespace, node, pod, pods_of, replica_set
from tests.builders.kubernetes import anti_affinity as anti_affinity_of
from tests.builders.pod_costs import S, decide, groups, own_ranks, target, term
from tests.reference.pod_costs import anti_affinity
from trimtab.planner.pod_costs.strategies import anti_affinity as strategy

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NODES = ({HOST: "n0", ZONE: "a"}, {HOST: "n1", ZONE: "a"}, {HOST: "n2", ZONE: "b"}, {HOST: "n3"})
AWAY = target(term(S.ANTI_AFFINITY))
TERMS = st.builds(
    anti_affinity.Term,
    st.sampled_from([(("app", "0"),), (("app", "1"),), (("tier", "x"),), (("app", "0"), ("tier", "x")), ()]),
    st.sampled_from([ZONE, HOST, "rack"]),
    st.sampled_from([100, 1, 7]),
)


def affinity(terms: tuple[anti_affinity.Term, ...]) -> Json:
    """Terms of weight 100 as required ones, others as preferred."""
    required, preferred = [], []
    for one in terms:
        written = {"topologyKey": one.key, "labelSelector": {"matchLabels": dict(one.labels)}}
        if one.weight == 100:
            required.append(written)
        else:
            preferred.append({"weight": one.weight, "podAffinityTerm": written})
    return {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    }


PORTIONS = (1, 1 << 20)
"""Pods of terms that are counted together."""


@given(
    st.sampled_from(PORTIONS),
    st.lists(st.lists(TERMS, max_size=2), min_size=2, max_size=2),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.booleans()), min_size=1, max_size=8),
)
@examples(60)
def test_a_pod_is_ranked_by_what_its_removal_takes_off_the_terms_that_are_violated(
    portion: int, terms: list[list[anti_affinity.Term]], placed: list[tuple[int, int, bool]]
) -> None:
    owners = [replica_set("0", 9), replica_set("1", 9)]
    objects: list[Json] = [*owners, *(node(f"n{i}", labels=labels) for i, labels in enumerate(NODES))]
    pods = []
    for i, (app, at, tiered) in enumerate(placed):
        labels = {"app": str(app)} | ({"tier": "x"} if tiered else {})
        wanted = tuple(terms[app])
        objects.append(pod(f"p{i}", node=f"n{at}", owner=owners[app], labels=labels, affinity=affinity(wanted)))
        pods.append(anti_affinity.PlacedPod(f"p{i}", tuple(labels.items()), tuple(NODES[at].items()), wanted))
    found: dict[str, float] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategy, "_AT_ONCE", portion)
        decision = decide(objects, AWAY)
    for group in groups(decision).values():
        assert group.ranked_after_each_removal
        found |= own_ranks(group)
    assert found == anti_affinity.ranks(pods)


def two_groups(other_term: tuple[anti_affinity.Term, ...] = (), **desired: int) -> list[Any]:
    """Return groups: "b" keeps away from pods of "a" and of itself; "c" is unrelated."""
    away = (anti_affinity.Term((("tier", "x"),), HOST, 5),)
    objects: list[Json] = [node("n0"), node("n1")]
    for name in "abc":
        owner = replica_set(name, desired.get(name, 2))
        terms = {"b": away, "c": other_term}.get(name, ())
        tier = {"tier": "x"} if name != "c" else {"tier": "y"}
        objects += [
            owner,
            *(pod(f"{name}{i}", node=f"n{i}", owner=owner, labels=tier, affinity=affinity(terms)) for i in (0, 1)),
        ]
    return objects


def waits(objects: list[Any]) -> dict[str, str]:
    return {owner[-1]: group.waits_for[-1:] for owner, group in groups(decide(objects, AWAY)).items()}


def test_of_groups_that_share_a_term_one_continues_and_others_are_not_held_up() -> None:
    assert waits(two_groups()) == {"a": "", "b": "a", "c": ""}


def test_the_turn_is_that_of_the_group_that_has_more_pods_than_it_wants() -> None:
    assert waits(two_groups(b=1)) == {"a": "b", "b": "", "c": ""}
    assert waits(two_groups(a=1, b=1)) == {"a": "", "b": "a", "c": ""}


@pytest.mark.parametrize("portion", PORTIONS)
def test_groups_are_linked_through_others(portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy, "_AT_ONCE", portion)
    assert waits(two_groups((anti_affinity.Term((("tier", "x"),), ZONE, 5),))) == {"a": "", "b": "a", "c": ""}
    assert waits(two_groups((anti_affinity.Term((("tier", "x"),), HOST, 5),), c=1)) == {"a": "c", "b": "c", "c": ""}


@pytest.mark.parametrize(
    ("scope", "rank"),
    [
        pytest.param({}, 100, id="its own namespace"),
        pytest.param({"namespaces": ["one"]}, 100, id="a namespace, which is its own"),
        pytest.param({"namespaces": ["two"]}, 200, id="another namespace"),
        pytest.param({"namespaces": ["one", "two"]}, 300, id="both"),
        pytest.param({"namespaces": ["gone"]}, 0, id="a namespace without pods"),
        pytest.param({"namespaceSelector": labelled(team="x")}, 200, id="namespaces with a label"),
        pytest.param({"namespaces": ["one"], "namespaceSelector": labelled(team="x")}, 300, id="these and that one"),
        pytest.param({"namespaceSelector": {}}, 300, id="all namespaces"),
    ],
)
def test_a_term_looks_in_the_namespaces_that_it_names_or_selects(scope: Json, rank: float) -> None:
    """Namespace "one" has the pod and one that it keeps away from; "two", of team "x", has two such pods."""
    owner, others = replica_set("shy", 1, namespace="one"), replica_set("others", 2, namespace="two")
    shy = pod("shy", node="n0", owner=owner, namespace="one", affinity=anti_affinity_of(labelled(app="loud"), **scope))
    labels = {"app": "loud"}
    loud = pods_of(others, 2, node="n0", labels=labels)
    near = pod("near", node="n0", namespace="one", labels=labels)
    spaces = [namespace("one"), namespace("two", {"team": "x"})]
    found = groups(decide([*spaces, node("n0", labels={HOST: "n0"}), owner, others, shy, near, *loud], AWAY))
    assert own_ranks(found["ReplicaSet/one/shy"]) == {"shy": rank}
    met = 100.0 if rank >= 200 else 0.0
    assert set(own_ranks(found["ReplicaSet/two/others"]).values()) == {met}
