"""All counted predicates together agree with the naive ones, and so does how long a refusal holds. Kernels over all
kinds call what the kinds have, in their order, and nothing else.
"""

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given

from tests.builders.columns import snapshot
from tests.builders.examples import examples
from tests.builders.random_rows import rows
from tests.builders.simulation_walks import SEEDS, Walk
from tests.reference.predicates import compose as naive
from tests.reference.simulation.moves import Cluster
from trimtab.planner.compiled.kernel_cache import content_of
from trimtab.planner.predicates.counter_kind import HOOK_NAMES, CounterHooks
from trimtab.planner.predicates.kernels import compose
from trimtab.planner.predicates.order import KINDS, reasons_of
from trimtab.planner.simulation.build import build_simulation


@given(SEEDS)
@examples(100)
def test_reasons_and_their_duration_agree_with_the_naive_predicates(seed: int) -> None:
    nodes, pods, namespaces = rows(seed)
    simulation, cluster = build_simulation(snapshot(nodes, pods, namespaces)), Cluster(nodes, pods, namespaces)
    walk = Walk(simulation, cluster, Random(seed))
    for _ in range(6):
        walk.step()
    state = simulation.state
    for at, pod in enumerate(cluster.pods):
        if cluster.at[at]:
            continue
        pod_class = int(state.pod_class[at])
        for node, name in enumerate(cluster.nodes):
            mask = int(compose.because(state.counters, at, pod_class, node))
            assert set(reasons_of(mask)) == naive.because(cluster, pod, name), (pod, name)
            assert compose.refusal(state.counters, at, pod_class, node) == naive.refusal(cluster, pod, name)


COUNTERS: Any = SimpleNamespace(cheap="cheap", dear="dear")
NOTES: Any = SimpleNamespace(cheap="noted by cheap", dear="noted by dear")


def recording(calls: list[object], answer: object) -> Callable[..., Any]:
    """Return a hook that notes its arguments."""

    def hook(*arguments: object) -> object:
        calls.append(arguments)
        return answer

    return hook


def made(calls: list[object], **answers: tuple[object, object]) -> dict[str, Any]:
    """Return the functions over two kinds. answers : of a hook, by kind; None = the kind lacks the hook."""
    kinds = [
        CounterHooks(**{name: recording(calls, given[at]) for name, given in answers.items() if given[at] is not None})
        for at in range(2)
    ]
    return compose.composed(dict(zip(("cheap", "dear"), kinds, strict=True)))


def test_each_kind_counts_its_own_arrays_in_the_order_of_kinds() -> None:
    calls: list[object] = []
    made(calls, count=(0, 0))["count"](COUNTERS, 5, 6, -1)
    assert calls == [("cheap", 5, 6, -1), ("dear", 5, 6, -1)]


def test_the_most_lasting_refusal_is_found_first_and_among_equals_the_cheapest() -> None:
    calls: list[object] = []
    asked = made(calls, refuses_for_good=(None, False), refuses_for_now=(False, True), refuses_pod=(True, None))
    assert asked["refusal"](COUNTERS, 1, 2, 3) == compose.FOR_NOW
    assert calls == [("dear", 2, 3), ("cheap", 2, 3), ("dear", 2, 3)]


def test_a_pod_of_its_own_is_refused_alone_if_no_class_is() -> None:
    assert made([], refuses_pod=(None, True))["refusal"](COUNTERS, 1, 2, 3) == compose.THIS_POD


def test_masks_of_classes_and_of_pods_are_joined() -> None:
    assert made([], because=(1, 4), because_own=(None, 8))["because"](COUNTERS, 1, 2, 3) == 13


def test_every_kind_notes_the_moment_even_if_one_has_said_yes() -> None:
    calls: list[object] = []
    assert made(calls, may_pass_again=(True, False))["may_pass_again"](COUNTERS, NOTES, 7) is True
    assert calls == [("cheap", "noted by cheap", 7), ("dear", "noted by dear", 7)]


@pytest.mark.parametrize(
    ("name", "arguments", "neutral"),
    [
        ("count", (1, 2, 1), None),
        ("has_own", (1,), False),
        ("refusal", (1, 2, 3), compose.ADMITTED),
        ("because", (1, 2, 3), 0),
        ("may_need_others", (1,), False),
        ("is_refused_in_domains", (1, 2), False),
        ("may_pass_again", (NOTES, 1), False),
        ("may_fit_now", (NOTES, 1), False),
        ("chained_limit", ([], 1), -1),
        ("row_of_limit", (1,), -1),
        ("excludes_domain", (1, 2), False),
    ],
)
def test_a_hook_that_no_kind_has_is_neutral(name: str, arguments: tuple[object, ...], neutral: object) -> None:
    assert made([])[name](COUNTERS, *arguments) == neutral


def test_every_kind_lists_its_kernels_under_its_name() -> None:
    used = {name for kind in KINDS for name in HOOK_NAMES if getattr(compose.hooks_of(kind.field), name) is not None}
    assert used == set(HOOK_NAMES)


def test_cached_code_of_a_composed_kernel_depends_on_the_kernels_of_the_kinds() -> None:
    def kernel_with(limit: int) -> Callable[..., Any]:
        def hook(arrays: Any, pod_class: int, node: int) -> bool:
            return arrays[pod_class] > limit + node

        return hook

    digests = {
        limit: content_of(compose.composed({"cheap": CounterHooks(refuses_for_good=kernel_with(limit))})["refusal"])
        for limit in (1, 2)
    }
    again = content_of(compose.composed({"cheap": CounterHooks(refuses_for_good=kernel_with(1))})["refusal"])
    assert digests[1] == again != digests[2]
