"""How much limits leave to each node group while a plan uses them, and the reasons for refusals."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.kubernetes import Json, node, node_group, snapshot_of
from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.model.settings import ResourceLimit, ScaleUpSettings
from trimtab.planner.model.values import LabelRequirement
from trimtab.planner.placement.group_templates import group_templates
from trimtab.planner.placement.limits import LimitInputs, Limits
from trimtab.planner.scale_up.balance import split, split_within
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1.reason_pb2 import NodeGroupReason
from trimtab.v1.snapshot_pb2 import LabelOperator, NodeGroupHealth

NOW_S = 1_800_000_000
Why = NodeGroupReason
GIB = 1 << 30


def group(name: str, target: int = 0, most: int = 10, **more: Any) -> Json:
    """Return a group of unregistered nodes of 4 cores and 16 GiB."""
    template = more.pop("template", {})
    return node_group(name, max_size=most, target=target, nodes=[], template=node("t", **template), **more)


def selecting(key: str, *values: str) -> tuple[LabelRequirement, ...]:
    return (LabelRequirement(key, LabelOperator.IN, values),)


def limits_of(
    *objects: Json, limits: tuple[ResourceLimit, ...] = (), most: int = 1000, health: Mapping[str, int] | None = None,
    until_s: int = 0,
) -> Limits:  # fmt: skip
    """Return the limits of a cluster."""
    message = snapshot_of(list(objects))
    for row in message.node_groups:
        row.health = (health or {}).get(row.id, 0)
        if until_s:
            row.backoff_until.seconds = until_s
    snapshot = canonicalize(message)
    leaving = being_deleted(snapshot, NOW_S * 10**9)
    templates = group_templates(snapshot, ScaleUpSettings(), leaving, NOW_S * 10**9)
    return Limits(LimitInputs(snapshot, templates, leaving, NOW_S * 10**9), limits, most)


def said(limits: Limits) -> list[tuple[int, int]]:
    return list(zip(limits.may_add.tolist(), limits.reasons.tolist(), strict=True))


def test_a_group_grows_to_its_maximum() -> None:
    limits = limits_of(group("a", 3), group("b", 10))
    assert said(limits) == [(7, 0), (0, Why.MAX_SIZE_REACHED)]
    limits.count_nodes(0, 7)
    assert said(limits)[0] == (0, Why.MAX_SIZE_REACHED)


def test_a_plan_adds_no_more_nodes_than_one_may() -> None:
    limits = limits_of(group("a"), group("b"), most=5)
    limits.count_nodes(0, 3)
    assert said(limits) == [(2, 0), (2, 0)]
    limits.count_nodes(1, 2)
    assert said(limits) == [(0, Why.MAX_NEW_NODES_REACHED)] * 2


UNABLE: dict[str, tuple[Json, dict[str, Any], int]] = {
    "unhealthy": (group("a"), {"health": {"a": NodeGroupHealth.UNHEALTHY}}, Why.UNHEALTHY),
    "healthy": (group("a"), {"health": {"a": NodeGroupHealth.HEALTHY}}, 0),
    "in back-off": (group("a"), {"health": {"a": NodeGroupHealth.BACKED_OFF}, "until_s": NOW_S + 1}, Why.BACKED_OFF),
    "in back-off without end": (group("a"), {"health": {"a": NodeGroupHealth.BACKED_OFF}}, Why.BACKED_OFF),
    "after its back-off": (group("a"), {"health": {"a": NodeGroupHealth.BACKED_OFF}, "until_s": NOW_S}, 0),
    "above its maximum": (group("a", 11), {}, Why.NODE_GROUP_INVALID),
    "without template and node": (node_group("a", nodes=[], target=0), {}, Why.NO_TEMPLATE),
}


@pytest.mark.parametrize("name", UNABLE)
def test_a_group_that_cannot_grow_says_why(name: str) -> None:
    built, more, why = UNABLE[name]
    limits = limits_of(built, **more)
    assert limits.reasons[0] == why
    assert (limits.may_add[0] > 0) == (why == 0)


def zoned(name: str, zone: str, target: int = 0) -> Json:
    return group(name, target, template={"labels": {"zone": zone}})


BUSY = [node(f"n{i}", "4", labels={"zone": "u"}) for i in range(3)]
QUOTAS: dict[str, tuple[list[Json], ResourceLimit, list[int]]] = {
    "cores of the cluster": (BUSY, ResourceLimit("cpu", maximum=32_000), [5, 5]),
    "a part of a node is none": (BUSY, ResourceLimit("cpu", maximum=31_999), [4, 4]),
    "memory of the cluster": (BUSY, ResourceLimit("memory", maximum=(3 + 6) * 16 * GIB), [6, 6]),
    "nodes of the cluster": (BUSY, ResourceLimit("nodes", maximum=7), [4, 4]),
    "nodes of a zone": (BUSY, ResourceLimit("nodes", maximum=5, nodes=selecting("zone", "u")), [2, 10]),
    "nodes that a plan adds in a zone": (
        BUSY, ResourceLimit("nodes", maximum_added=1, nodes=selecting("zone", "v")), [10, 1]
    ),
    "both": (BUSY, ResourceLimit("nodes", maximum=4, maximum_added=3, nodes=selecting("zone", "u")), [1, 10]),
    "exceeded already": (BUSY, ResourceLimit("nodes", maximum=2), [0, 0]),
    "a resource that no node has": (BUSY, ResourceLimit("nvidia.com/gpu", maximum=0), [10, 10]),
    "a minimum is none of it": (BUSY, ResourceLimit("cpu", minimum=99_000), [10, 10]),
    "nodes that are being deleted do not count": (
        [*BUSY, node("gone", "4", taints=[f"ToBeDeletedByClusterAutoscaler={NOW_S - 9}:NoSchedule"])],
        ResourceLimit("nodes", maximum=7), [4, 4],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", QUOTAS)
def test_a_limit_leaves_as_many_nodes_as_fit_under_it(name: str) -> None:
    objects, limit, may_add = QUOTAS[name]
    limits = limits_of(*objects, zoned("a", "u"), zoned("b", "v"), limits=(limit,))
    assert limits.may_add.tolist() == may_add
    for at, room in enumerate(may_add):
        assert (limits.reasons[at] == Why.RESOURCE_LIMIT_REACHED) == (room == 0)
        assert limits.binding(at) == ("nodes (3 of 2 used)" if room == 0 else None)


def test_requested_nodes_that_have_not_registered_count() -> None:
    limit = ResourceLimit("cpu", maximum=40_000)
    assert limits_of(zoned("a", "u", target=4), limits=(limit,)).may_add.tolist() == [6]
    there = [node("x", "4"), node_group("a", nodes=["x"], target=1, template=node("t"))]
    assert limits_of(*there, limits=(limit,)).may_add.tolist() == [9]


def test_what_a_plan_takes_of_a_limit_is_gone_for_all() -> None:
    limits = limits_of(zoned("a", "u"), zoned("b", "u"), limits=(ResourceLimit("nodes", maximum=8),))
    limits.count_nodes(1, 5)
    assert limits.may_add.tolist() == [3, 3]
    assert limits.added.tolist() == [0, 5]
    with pytest.raises(ValueError, match="4 nodes of group 0"):
        limits.count_nodes(0, 4)


WHOLE: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "no limit": ({}, (4, 0)),
    "a plan may add fewer": ({"most": 3}, (0, Why.MAX_NEW_NODES_REACHED)),
    "a limit leaves fewer": ({"limits": (ResourceLimit("nodes", maximum=3),)}, (0, Why.NOT_WHOLE)),
    "a limit leaves none": ({"limits": (ResourceLimit("nodes", maximum=0),)}, (0, Why.RESOURCE_LIMIT_REACHED)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_group_that_grows_whole_or_not_at_all_gets_all_or_nothing(name: str) -> None:
    more, wanted = WHOLE[name]
    limits = limits_of(group("a", 0, 4, zero_or_max=True), **more)
    assert said(limits) == [wanted]
    with pytest.raises(ValueError, match="nodes of group 0"):
        limits.count_nodes(0, 1)


def test_no_groups_have_no_room() -> None:
    assert limits_of(node("x"), limits=(ResourceLimit("nodes", maximum=8),)).may_add.tolist() == []


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 8), st.sampled_from("uv")), min_size=1, max_size=4),
    st.integers(0, 12), st.integers(0, 12), st.integers(0, 40),
)  # fmt: skip
def test_groups_that_share_limits_take_what_is_there_one_after_the_other(
    rows: list[tuple[int, int, str]], in_zone: int, in_all: int, count: int
) -> None:
    objects = [
        group(f"g{i}", size, size + more, template={"labels": {"zone": zone}})
        for i, (size, more, zone) in enumerate(rows)
    ]
    quotas = (
        ResourceLimit("nodes", maximum_added=in_zone, nodes=selecting("zone", "u")),
        ResourceLimit("nodes", maximum_added=in_all),
    )
    limits = limits_of(*objects, limits=quotas)
    size = np.array([row[0] for row in rows])
    every = np.arange(len(rows))
    found = split_within(limits, every, size, count)
    assert limits.admit(found)
    # One node at a time goes to the next group if limits allow it; otherwise the group is dropped.
    most = size + limits.may_add
    given_out = np.zeros(len(rows), np.int64)
    while True:
        following = split(size, most, int(given_out.sum()) + 1) if given_out.sum() < count else given_out
        if (following == given_out).all():
            break
        if limits.admit(following):
            given_out = following
        else:
            shut = following > given_out
            most[shut] = (size + given_out)[shut]
    assert found.tolist() == given_out.tolist()


@given(
    sizes=st.lists(st.tuples(st.integers(0, 3), st.integers(3, 9)), min_size=1, max_size=5),
    cores=st.integers(0, 60),
    most=st.integers(0, 12),
)
def test_reasons_when_full_are_those_of_each_group_after_all_its_nodes(
    sizes: list[tuple[int, int]], cores: int, most: int
) -> None:
    groups = [group(f"g{at}", target, largest) for at, (target, largest) in enumerate(sizes)]
    limits = limits_of(*groups, limits=(ResourceLimit("cpu", maximum=cores * 1000),), most=most)
    then = limits.reasons_when_full().tolist()
    for at in range(len(groups)):
        after = limits.copy()
        after.count_nodes(at, int(limits.may_add[at]))
        assert then[at] == after.reasons[at]
