"""Pods of classes that a simulation lacks join it, with the same answers as in a naive cluster."""

from random import Random

import pytest
from hypothesis import given

from tests.builders import random_rows
from tests.builders.columns import snapshot
from tests.builders.examples import examples
from tests.builders.fitting import HOST, equals, node
from tests.builders.random_rows import NAMESPACES
from tests.builders.refusals import masks
from tests.builders.rows import NodeRow, PodRow
from tests.builders.simulation_walks import (
    SEEDS,
    Split,
    Walk,
    assert_agree,
    assert_same,
    by_key,
    copied,
    naive,
    virtual_pods,
)
from trimtab.planner.model.values import AffinityTerm, PodRequirements, TaintSpec, TolerationSpec
from trimtab.planner.simulation.build import Simulation, build_simulation, to_keep, with_virtual
from trimtab.planner.simulation.kernels import place
from trimtab.planner.simulation.virtual_rows import VirtualPod
from trimtab.v1.snapshot_pb2 import PodPhase

MIB = 1 << 20


def is_built_again(made: Simulation, kept: Simulation) -> bool:
    return made.state.counters.presence.row is not kept.state.counters.presence.row


def whole(seed: int) -> Split:
    """Return a random cluster of running pods without volumes."""
    nodes, pods, namespaces = random_rows.rows(seed)
    alone = [p._replace(volumes=(), deletion_s=0, flags=0, phase=PodPhase.RUNNING, pinned="") for p in by_key(pods)]
    return Split(sorted(nodes, key=lambda one: one.name.encode()), [], alone, [], namespaces)


def joined(rows: Split) -> tuple[Simulation, Simulation]:
    kept = to_keep(build_simulation(snapshot(rows.nodes, rows.pods, rows.namespaces)))
    before = copied(kept.state)
    made = with_virtual(kept, virtual_pods(rows.later_pods, {}))
    assert_same(kept.state, before)
    return made, kept


def check_walk(rows: Split, random: Random) -> None:
    """Check that the simulation answers as the naive cluster does, before and after six random moves."""
    made, _ = joined(rows)
    twin = naive(rows)
    assert_agree(made, twin)
    walk = Walk(made, twin, random)
    for _ in range(6):
        walk.step()
    assert_agree(made, twin)


@given(SEEDS)
@examples(60)
def test_pods_that_ask_for_other_amounts_answer_as_the_naive_cluster_does(seed: int) -> None:
    rows, random = whole(seed), Random(seed + 31)
    asked = sorted({name for pod in rows.pods for name, _ in pod.spec.requests} | {"cpu", "weird"})
    later = []
    for pod in rows.pods:
        amounts = tuple((name, random.randint(1, 4)) for name in asked if random.random() < 0.5)
        later.append(pod._replace(name=f"z{pod.name}", node="", spec=pod.spec._replace(requests=amounts)))
    check_walk(rows._replace(later_pods=later), random)


@given(SEEDS)
@examples(80)
def test_plain_pods_answer_as_the_naive_cluster_does(seed: int) -> None:
    rows, random = whole(seed), Random(seed + 32)
    later = []
    for number in range(4):
        spec = random_rows.spec(random)
        nothing = PodRequirements(requests=spec.requests, tolerations=spec.tolerations)
        labels = {"app": random.choice(("x", "other"))} if random.random() < 0.4 else {}
        requirement = random.choice([pod.spec.node_affinity for pod in rows.pods])
        plain = nothing._replace(node_affinity=requirement)
        later.append(PodRow(f"z{number}", plain, random.choice((*NAMESPACES, "new")), labels))
    check_walk(rows._replace(later_pods=later), random)


def cluster() -> list[PodRow]:
    apart = PodRequirements(pod_anti_affinity=(AffinityTerm(equals(app="web"), (), (), HOST),))
    return [PodRow("web", apart, "a", {"app": "web"}, "n1")]


@pytest.mark.parametrize(
    ("pod", "again"),
    [
        pytest.param(VirtualPod("a", cluster()[0].spec, (("app", "web"),)), False, id="that equal others"),
        pytest.param(VirtualPod("a", PodRequirements(requests=(("cpu", 1),))), True, id="that ask for other amounts"),
        pytest.param(VirtualPod("b", PodRequirements()), True, id="of a namespace without pods"),
        pytest.param(VirtualPod("a", PodRequirements(), (("app", "web"),)), True, id="that a term selects"),
        pytest.param(VirtualPod("a", cluster()[0].spec), True, id="bound, of labels that no pod has"),
        pytest.param(
            VirtualPod("a", PodRequirements(node_selector=(("pool", "x"),))), True, id="of a new node selector"
        ),
        pytest.param(
            VirtualPod("a", PodRequirements(requests=(("x/gpu", 1),))), True, id="that asks for a new resource"
        ),
        pytest.param(VirtualPod("a", PodRequirements(), pinned=0), True, id="bound to a node"),
    ],
)
def test_a_simulation_is_built_again_only_for_pods(pod: VirtualPod, again: bool) -> None:
    kept = build_simulation(snapshot([node("n1"), node("n2", labels={"pool": "y"})], cluster()))
    made = with_virtual(kept, (pod,))
    assert is_built_again(made, kept) == again
    rows = Split([node("n1"), node("n2", labels={"pool": "y"})], [], cluster(), [], {})
    later = PodRow("z", pod.spec, pod.namespace, dict(pod.labels), pinned="n1" if pod.pinned == 0 else "")
    assert_agree(made, naive(rows._replace(later_pods=[later])))


@pytest.mark.parametrize("count", [0, 1])
def test_tolerations_that_no_pod_has_so_far_are_checked(count: int) -> None:
    tainted = [NodeRow(f"n{at}", {HOST: f"n{at}"}, taints=(TaintSpec("t", str(at), 1),)) for at in range(2)]
    pods = [PodRow("a", PodRequirements(tolerations=(TolerationSpec("t", 0, "0", 1),)))] * count
    kept = build_simulation(snapshot(tainted, pods))
    made = with_virtual(kept, (VirtualPod("default", PodRequirements(tolerations=(TolerationSpec("t", 0, "1", 1),))),))
    assert is_built_again(made, kept)
    assert (masks(made, count) == 0).tolist() == [False, True]


def test_classes_of_virtual_pods_are_known_to_pods_that_join_later() -> None:
    kept = build_simulation(snapshot([node("n1")], [PodRow("p", PodRequirements(), "a", node="n1")]))
    spec = PodRequirements(requests=(("cpu", 3000), ("memory", MIB)))
    first = with_virtual(kept, (VirtualPod("a", spec), VirtualPod("a", spec)))
    assert first.pods.size == kept.pods.size + 1
    assert place(first.state, 1, 0) == 0
    second = with_virtual(first, (VirtualPod("a", spec),))
    assert second.pods.size == first.pods.size
    assert masks(second, 3).tolist() == masks(second, 2).tolist() != [0]
