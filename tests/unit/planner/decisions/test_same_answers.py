"""Equal requests have equal answers, of all decisions: whatever was kept of earlier ones, whether the snapshot was sent
whole or by deltas, in whatever order its rows stood.

The only proof of that for random clusters. Each loop plans twice with everything kept, and once with nothing kept, from
the whole cluster written in another order, with every text under several indices. It compares bytes, what is kept with
what would be built, and what fits.
Between loops the cluster changes or only time passes, and the state goes on.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.caches import KeptValues, NotKeptError, look, not_there
from tests.builders.doubled_texts import doubled
from tests.builders.examples import examples
from tests.builders.random_clusters import CLUSTERS, changes
from tests.builders.random_gangs import gang_cluster
from tests.builders.random_growth import growth_settings
from tests.builders.rows import NodeRow, PodRow
from tests.builders.slack import cluster as slack_cluster
from tests.builders.slack import node as slack_node
from tests.builders.slack import spec as slack_spec
from tests.builders.snapshots import Cluster, Group, write, write_delta
from trimtab.planner.decisions.fit import check_fit
from trimtab.planner.decisions.plan import plan
from trimtab.planner.decisions.table import TABLE
from trimtab.planner.model.values import (
    AffinityTerm,
    LabelRequirement,
    Owner,
    PodGroup,
    PodRequirements,
    SlackRequest,
    TaintSpec,
)
from trimtab.planner.round.round import Work
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.snapshot_pb2 import LabelOperator, TaintEffect

NOW_S = 1_700_000_020
"""Twenty seconds after pods of random clusters were created or deleted."""
Json = dict[str, Any]
S = pb.PodCostStrategy


class World(NamedTuple):
    """Clusters of one kind: the first of a line, the one after another, and settings for them."""

    first: st.SearchStrategy[Cluster]
    following: Callable[[Cluster], st.SearchStrategy[Cluster]]
    settings: st.SearchStrategy[pb.PlanSettings]


def settings_of(**parts: st.SearchStrategy[Json]) -> st.SearchStrategy[pb.PlanSettings]:
    return st.fixed_dictionaries(parts).map(lambda given: ParseDict(given, pb.PlanSettings()))


DRAINS = st.fixed_dictionaries(
    {
        "utilizationThreshold": st.sampled_from([0.5, 1.0]),
        "unneededTime": st.sampled_from(["0s", "30s"]),
        "ignoreDaemonsetsUtilization": st.booleans(),
        "skipNodesWithSystemPods": st.booleans(),
    }
)
NUMBER, ZONE = "example.com/number", "zone"
TERMS: list[list[Json]] = [
    [
        {"strategy": "BALANCE_DOMAINS", "topologyKey": ZONE},
        {"strategy": "YOUNGEST", "weight": 0.1},
        {"strategy": "UNTOLERATED_TAINTS"},
        {"strategy": "NODE_COST"},
        {"strategy": "IDLE", "annotation": NUMBER},
    ],
    [{"strategy": "ANTI_AFFINITY"}, {"strategy": "YOUNGEST", "weight": 0.1}],
    [{"strategy": "NODE_DRAIN"}, {"strategy": "YOUNGEST", "weight": 0.1}],
    [{"strategy": "OLDEST", "threshold": 100.0}],
]
APPS = ("a", "ab", "b")
SELECTORS: list[Json] = [*({"selector": {"matchLabels": {"app": app}}} for app in APPS), {}]
COSTS = st.tuples(*[st.sampled_from(TERMS)] * len(SELECTORS)).map(
    lambda drawn: {"targets": [one | {"strategies": terms} for one, terms in zip(SELECTORS, drawn, strict=True)]}
)
"""Other strategies for each workload, and for all others."""
SIMULATED = st.fixed_dictionaries({"topologySpreadTimeout": st.booleans()})


# Pods of three workloads that are ranked: by node, age, number, readiness, gang, and kept apart or not.
def apart(app: str, key: str) -> AffinityTerm:
    return AffinityTerm((LabelRequirement("app", LabelOperator.IN, (app,)),), (), None, key)


AFFINITY = {"a": (apart("a", "kubernetes.io/hostname"),), "ab": (apart("b", ZONE),), "b": ()}
RANKED_PODS = st.dictionaries(
    st.tuples(st.sampled_from(APPS), st.sampled_from(["0", "00", "b-0", "1", "22"])),
    st.fixed_dictionaries(
        {
            "node": st.sampled_from(["n0", "n1", "n2", ""]),
            "created_s": st.integers(1, 4),
            "numbers": st.sampled_from([(), ((NUMBER, 1.0),), ((NUMBER, 2.0),), (("other", 2.0),)]),
            "flags": st.sampled_from([0, 1]),
            "pod_group": st.sampled_from(["", "", "g", "h"]),
        }
    ),
    max_size=9,
)
SOFT = (TaintSpec("soft", "1", TaintEffect.PREFER_NO_SCHEDULE),)
RANKED_NODES = st.fixed_dictionaries(
    dict.fromkeys(
        ("n0", "n1", "n2"),
        st.tuples(st.sampled_from(["x", "y"]), st.sampled_from([(), SOFT]), st.sampled_from(["g", "g", "g", ""])),
    )
)


def ranked(
    pods: Mapping[tuple[str, str], Json],
    desired: Mapping[str, int],
    minima: Mapping[str, int],
    keeps_apart: bool,
    nodes: Mapping[str, tuple[str, tuple[TaintSpec, ...], str]],
    price: float | None,
) -> Cluster:
    rows = {
        ("default", f"{app}-{name}"): PodRow(
            spec=PodRequirements(requests=(("cpu", 1000),), pod_anti_affinity=AFFINITY[app] if keeps_apart else ()),
            labels={"app": app},
            owner=app,
            phase=2 if about["node"] else 1,
            **about,
        )
        for (app, name), about in pods.items()
    }
    return Cluster(
        pods=rows,
        owners={app: Owner(app, "ReplicaSet", app, "default", desired.get(app, 2), 2, "apps/v1") for app in APPS},
        pod_groups={
            ("default", name): PodGroup("default", name, f"PodGroup/default/{name}", min_count=least)
            for name, least in minima.items()
        },
        nodes={
            name: NodeRow(labels={ZONE: zone, "kubernetes.io/hostname": name}, taints=taints, group=group)
            for name, (zone, taints, group) in nodes.items()
        },
        groups={"g": Group(0, 9, 2, NodeRow(), price)},
    )


RANKED = st.builds(
    ranked,
    RANKED_PODS,
    st.dictionaries(st.sampled_from(APPS), st.integers(0, 3)),
    st.dictionaries(st.sampled_from("gh"), st.integers(0, 3)),
    st.booleans(),
    RANKED_NODES,
    st.sampled_from([1.0, 2.0, None]),
)


# Room that is kept for objects of many kinds.
WEB = (LabelRequirement("app", LabelOperator.IN, ("web",)),)
APART = AffinityTerm(WEB, ("default",), None, "kubernetes.io/hostname")
SPECS = (
    slack_spec(500),
    slack_spec(1500, 3),
    slack_spec(200, node_selector=((ZONE, "a"),)),
    slack_spec(300, pod_anti_affinity=(APART,)),
    slack_spec(99_000),
)


def slack_object(random: Random, number: int) -> SlackRequest:
    """Return a workload or a buffer, sometimes with a problem."""
    labels: tuple[tuple[str, str], ...] = random.choice(((), (("app", "web"),)))
    if random.random() < 0.5:
        count = random.choice(("0", "1", "3", "50%", "many"))
        return SlackRequest(f"Deployment/default/w{number}", "", "default", random.choice(SPECS), labels, 4, count)
    asked: Json = random.choice(({"replicas": 2}, {"percentage": 50}, {"replicas": 3, "percentage": 10}))
    return SlackRequest(
        f"CapacityBuffer/default/b{number}", "", "apart", random.choice(SPECS), labels, random.choice((4, -1)), **asked
    )


def room(random: Random) -> Cluster:
    """Return a cluster in which room is kept."""
    pods = {f"p{i}": random.choice(("", f"n{random.randrange(3):02}")) for i in range(random.randrange(12))}
    return replace(slack_cluster(3, pods), slack=tuple(slack_object(random, i) for i in range(random.randrange(5))))


def other_room(random: Random, before: Cluster) -> Cluster:
    """Return the cluster with other pods, a node more or less, other objects, other pods of theirs, or other names."""
    what = random.choice(("pods", "node", "objects", "specs", "names"))
    if what == "pods":
        return replace(before, pods=room(random).pods)
    if what == "objects":
        return replace(before, slack=room(random).slack)
    if what == "specs":
        return replace(before, slack=tuple(one._replace(spec=random.choice(SPECS[:4])) for one in before.slack))
    if what == "names":
        return replace(
            before,
            nodes={f"{name}x": row for name, row in before.nodes.items()},
            pods={key: row._replace(node=row.node and f"{row.node}x") for key, row in before.pods.items()},
        )
    name = f"m{random.randrange(3)}"
    nodes = {one: row for one, row in before.nodes.items() if one != name}
    return replace(before, nodes=nodes if name in before.nodes else nodes | {name: slack_node(name)})


POOL = {"name": "a", "nodes": {"matchLabels": {"pool": "a"}}, "extraCapacityMinRate": 0.3}
KEEPS = st.fixed_dictionaries(
    {
        "extraCapacityMinRate": st.sampled_from([0.0, 0.2, 1.5]),
        "strategy": st.sampled_from(["EQUAL", "LARGEST_POD"]),
        "capacityBufferReading": st.sampled_from(["LARGER", "SMALLER"]),
        "pools": st.sampled_from([[], [], [POOL]]),
    }
)
RANDOMS = st.randoms(use_true_random=False)
GANGS = st.integers(0, 2**48).map(lambda seed: gang_cluster(seed, 8))
WORLDS = {
    "everything of the contract": World(
        CLUSTERS, changes, settings_of(scaleDown=DRAINS, podCosts=COSTS, simulation=SIMULATED)
    ),
    "groups that grow, and gangs": World(
        GANGS, lambda before: changes(before, GANGS), st.integers(0, 2**48).map(growth_settings)
    ),
    "ranked pods": World(RANKED, lambda before: changes(before, RANKED), settings_of(scaleDown=DRAINS, podCosts=COSTS)),
    "kept room": World(
        RANDOMS.map(room),
        lambda before: RANDOMS.map(lambda random: other_room(random, before)),
        settings_of(slack=KEEPS, scaleDown=DRAINS),
    ),
}
ALL = [decision.code for decision in TABLE]
FEWER = ([pb.Decision.POD_COSTS], [pb.Decision.SCALE_DOWN], [one for one in ALL if one != pb.Decision.SCALE_DOWN])
SOME = st.sampled_from([ALL, ALL, ALL, *FEWER])
LATER_S = st.sampled_from([0, 1, 10, 31, 299, 3_600, -5])
OFTEN = st.sampled_from([True, True, False])


def written(answer: pb.PlanResponse) -> bytes:
    return answer.SerializeToString(deterministic=True)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@given(data=st.data())
@examples(60, 6)
def test_no_answer_depends_on_what_is_kept_or_how_the_cluster_was_sent(world: World, data: st.DataObject) -> None:
    cluster, settings, now_s, state = data.draw(world.first), data.draw(world.settings), NOW_S, None
    kept = CachedSnapshot(canonicalize(write(cluster)))
    for loop in range(1, 5):
        request = pb.PlanRequest(decisions=data.draw(SOME), settings=settings, seed=loop)
        request.now.seconds = now_s
        fresh = canonicalize(doubled(write(cluster, loop), Random(loop)))
        assert fresh.version == kept.snapshot.version
        built = KeptValues()
        afresh = plan(fresh, request, state, Work(cache=built))
        assert not any(one.failed for one in afresh.diagnostics.decisions), afresh.summary.notes
        told = {one.decision: one for one in afresh.diagnostics.decisions}
        for one in (one for one in TABLE if one.code in request.decisions):
            summary = one.summarize(getattr(afresh, one.field))
            assert told[one.code].result == summary.result
            assert summary.counts.items() <= dict(told[one.code].counts).items()
        work = Work(cache=kept)
        assert written(plan(kept.snapshot, request, state, work)) == written(afresh)
        assert plan(kept.snapshot, request, state, work) == afresh
        for key, one in built.values.items():
            with suppress(NotKeptError):
                assert look(kept.get(key, kept.snapshot, not_there)) == look(one), key
        assert list(check_fit(kept.snapshot, request, work)) == list(check_fit(fresh, request, Work()))
        state, now_s = afresh.state, now_s + data.draw(LATER_S)
        if data.draw(OFTEN):
            following = data.draw(world.following(cluster))
            delta = write_delta(cluster, following, loop)
            kept, cluster = CachedSnapshot(apply_delta(kept.snapshot, delta, kept), kept), following
        if not data.draw(OFTEN):
            settings = data.draw(world.settings)
