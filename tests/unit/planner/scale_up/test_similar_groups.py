"""Similar groups of scale-up: by their new nodes with DaemonSets."""

from typing import Any

import pytest

from tests.builders.kubernetes import Json, daemon_set, node, node_group, pod, snapshot_of
from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.model.settings import ScaleUpSettings, SimilaritySettings
from trimtab.planner.placement.group_templates import group_templates
from trimtab.planner.scale_up.context import similar_groups
from trimtab.planner.snapshot.decode import canonicalize

NOW_NS = 1_800_000_000 * 10**9
MIRROR = {"kubernetes.io/config.mirror": "x"}


def kinds(*objects: Json, prefer_template: bool = True, **more: Any) -> list[int]:
    """Return the kinds of all groups."""
    snapshot = canonicalize(snapshot_of(list(objects)))
    leaving = being_deleted(snapshot, NOW_NS)
    settings = ScaleUpSettings(prefer_template=prefer_template)
    templates = group_templates(snapshot, settings, leaving, NOW_NS)
    return similar_groups(snapshot, templates, SimilaritySettings(**more)).kinds.tolist()


def group(name: str, **more: Any) -> Json:
    """Return a group with its template."""
    zero_or_max = more.pop("zero_or_max", None)
    return node_group(name, nodes=[], template=node("t", **more), zero_or_max=zero_or_max)


CASES: dict[str, tuple[list[Json], dict[str, Any], list[int]]] = {
    "in three zones": ([group(name, zone=name) for name in "abc"], {}, [0, 0, 0]),
    "of another size": ([group("a"), group("b", cpu="8")], {}, [0, 1]),
    "with another label": ([group("a"), group("b", labels={"team": "x"})], {}, [0, 1]),
    "with an ignored label": (
        [group("a"), group("b", labels={"team": "x"})],
        {"ignored_labels": frozenset({"team"})},
        [0, 0],
    ),
    "with a taint": ([group("a"), group("b", taints=["team=a:NoSchedule"])], {}, [0, 0]),
    "all or nothing": ([group("a"), group("b"), group("c", zero_or_max=True)], {}, [0, 0, -1]),
    "without template": ([group("a"), node_group("b", nodes=[]), group("c")], {}, [0, -1, 0]),
}


@pytest.mark.parametrize("name", CASES)
def test_groups_are_compared_by_their_templates(name: str) -> None:
    objects, more, wanted = CASES[name]
    assert kinds(*objects, **more) == wanted


def of_nodes(*pods: Json) -> list[Json]:
    """Return two groups of one node each, with pods."""
    groups = [node_group(name, nodes=[f"{name}0"]) for name in "ab"]
    return [node("a0"), node("b0"), *groups, *pods]


DS = daemon_set("agent")


def test_daemon_sets_and_static_pods_take_what_is_free() -> None:
    small, large = pod("d1", "100m", node="a0", owner=DS), pod("d2", "150m", node="b0", owner=DS)
    assert kinds(DS, *of_nodes(small, large), prefer_template=False) == [0, 0]
    greedy = pod("d2", "1", node="b0", owner=DS)
    assert kinds(DS, *of_nodes(small, greedy), prefer_template=False) == [0, 1]
    assert kinds(DS, *of_nodes(small, greedy), prefer_template=False, free_ratio=0.5) == [0, 0]
    proxies = [pod(f"kube-proxy-{name}", cpu, node=f"{name}0", annotations=MIRROR)
               for name, cpu in (("a", "100m"), ("b", "100m"))]  # fmt: skip
    assert kinds(*of_nodes(*proxies), prefer_template=False, allocatable_ratio=0.0) == [0, 0]
    assert kinds(*of_nodes(proxies[0]), prefer_template=False, allocatable_ratio=0.0) == [0, 0]
    assert kinds(*of_nodes(proxies[0]), prefer_template=False, free_ratio=0.01) == [0, 1]
