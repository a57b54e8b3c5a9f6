"""Custom strategies: found by entry point, with the same rules as every strategy."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.builders.kubernetes import Json, node, pod, replica_set
from tests.builders.pod_costs import NUMBER, S, at, costs, decide, groups, own_ranks, reasons, target, term
from trimtab.planner.pod_costs.strategies import custom

WEB, DB = replica_set("web", 3), replica_set("db", 1)
WEB_KEY, DB_KEY = "ReplicaSet/default/web", "ReplicaSet/default/db"


class Disposable:
    """Ranks pods without the label "keep" first, and of those the youngest: the module's example."""

    threshold = 2.0**26
    after_each_removal = True

    def ranks(self, group: custom.CustomGroup) -> Sequence[float]:
        first = min(one.created_s for one in group.pods)
        return [0.0 if "keep" in one.labels else 1.0 + one.created_s - first for one in group.pods]


class Point:
    """An entry point."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self.load = load


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], None]]:
    """Install one strategy under the name "mine"."""
    custom.installed.cache_clear()

    def offer(strategy: Any) -> None:
        def find(group: str, name: str) -> list[Point]:
            assert group == "trimtab.pod_cost_strategies"
            return [Point(lambda: strategy)] if name == "mine" else []

        monkeypatch.setattr(custom, "entry_points", find)

    yield offer
    custom.installed.cache_clear()


def cluster() -> list[Json]:
    labels = ({"keep": "1"}, {}, {"app": "web"})
    pods = [
        pod(f"w{i}", node="n", owner=WEB, created=at(i), labels=labels[i], annotations={NUMBER: str(i)})
        for i in range(3)
    ]
    return [WEB, DB, node("n", labels={"disk": "ssd"}), *pods, pod("d0", node="n", owner=DB)]


def test_a_custom_strategy_ranks_as_any_other(install: Callable[[Any], None]) -> None:
    install(Disposable)
    answer = decide(cluster(), target(term(S.CUSTOM, name="mine")))
    group = groups(answer)[WEB_KEY]
    assert own_ranks(group) == {"w0": 0, "w1": 2, "w2": 3}
    assert costs(group) == {"w0": 0, "w1": -2, "w2": -3}
    assert (group.shares[0].name, group.ranked_after_each_removal) == ("mine", True)


def test_it_sees_pods_nodes_and_numbers(install: Callable[[Any], None]) -> None:
    seen: list[custom.CustomGroup] = []

    class Looks(Disposable):
        def ranks(self, group: custom.CustomGroup) -> Sequence[float]:
            seen.append(group)
            return [0.0] * len(group.pods)

    install(Looks())
    decide(cluster(), target(term(S.CUSTOM, name="mine"), term(S.IDLE, weight=0.0), owner_kinds=["ReplicaSet"]))
    web = next(group for group in seen if group.owner == WEB_KEY)
    one = web.pods[2]
    assert (one.namespace, one.name, one.node, one.ready) == ("default", "w2", "n", True)
    assert (dict(one.labels), one.node_labels["disk"], dict(one.numbers)) == ({"app": "web"}, "ssd", {NUMBER: 2.0})
    assert (web.now_s, one.created_s) == (1_800_000_000, 1_767_225_602)


@pytest.mark.parametrize(
    ("ranks", "detail"),
    [
        pytest.param([1.0], "returned 1 ranks for 3 pods", id="too few"),
        pytest.param([1.0, float("nan"), 1.0], "nan is not a rank", id="not a number"),
        pytest.param([1.0, -1.0, 1.0], "-1.0 is not a rank", id="negative"),
        pytest.param(["a", "b", "c"], "TypeError", id="texts"),
        pytest.param(None, "TypeError", id="nothing"),
    ],
)
def test_what_a_strategy_does_wrong_leaves_its_group_and_no_other(
    install: Callable[[Any], None], ranks: Any, detail: str
) -> None:
    class Fails(Disposable):
        def ranks(self, group: custom.CustomGroup) -> Any:
            return ranks if group.owner == WEB_KEY else [0.0]

    install(Fails())
    answer = decide(cluster(), target(term(S.CUSTOM, name="mine")))
    assert reasons(answer) == {WEB_KEY: "STRATEGY_FAILED", DB_KEY: ""}
    assert detail in groups(answer)[WEB_KEY].detail


def test_a_strategy_that_is_not_installed_or_cannot_be_loaded_is_named(install: Callable[[Any], None]) -> None:
    install(Disposable)
    answer = decide(cluster(), target(term(S.CUSTOM, name="other")))
    assert set(reasons(answer).values()) == {"STRATEGY_UNKNOWN"}
    assert "'other'" in groups(answer)[WEB_KEY].detail

    class Broken:
        def __init__(self) -> None:
            raise RuntimeError("no licence")

    custom.installed.cache_clear()
    install(Broken)
    assert set(reasons(decide(cluster(), target(term(S.CUSTOM, name="mine")))).values()) == {"STRATEGY_UNKNOWN"}
