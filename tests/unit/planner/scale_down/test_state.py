"""The state of scale-down in terms of another snapshot: what vanished takes only its own marks with it."""

from dataclasses import replace

import numpy as np
import pytest

from tests.builders.slack import BOTH, NOW_S, asking, cluster, decide, dependent_count, five_nodes
from tests.builders.snapshots import int32, write
from trimtab.planner.placement.hints import LAYOUT_VERSION, pod_groups
from trimtab.planner.scale_down.state import recall
from trimtab.planner.snapshot.caches import UNCACHED
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.opaque_state_pb2 import OpaqueState


def dependent(fewer: int, kept: list[str], unneeded: tuple[str, ...] = ("n00", "n01", "n02")) -> list[str]:
    """Return the unneeded nodes that count as dependent on slack if only some nodes are left."""
    names = sorted({*kept, "z"})
    state = pb.ScaleDownState(strings=["", *sorted(set(unneeded))])
    state.unneeded.node = int32([list(state.strings).index(name) for name in unneeded])
    state.unneeded.time_ns = np.ones(len(unneeded), np.int64).tobytes()
    state.opaque = OpaqueState(layout_version=LAYOUT_VERSION, fewer_placeholders=fewer).SerializeToString()
    pods = pod_groups(canonicalize(write(cluster(1))), (), UNCACHED)
    previous, notes = recall(state, names, pods, NOW_S * 10**9)
    assert notes == ()
    last = previous.unneeded[len(previous.unneeded) - previous.slack_dependent_count :]
    return [names[node] for node in last.tolist()]


@pytest.mark.parametrize(
    ("fewer", "kept", "expected"),
    [
        pytest.param(1, ["n00", "n01", "n02"], ["n02"], id="nothing vanished"),
        pytest.param(1, ["n00", "n01"], [], id="the dependent one vanished"),
        pytest.param(1, ["n01", "n02"], ["n02"], id="another one vanished"),
        pytest.param(2, ["n00", "n02"], ["n02"], id="one of two dependent ones vanished"),
        pytest.param(2, ["n00"], [], id="both dependent ones vanished"),
        pytest.param(9, ["n00", "n02"], ["n00", "n02"], id="more than there are nodes"),
        pytest.param(-3, ["n00"], [], id="a negative count"),
    ],
)
def test_only_the_nodes_that_depended_on_slack_still_do_after_some_vanished(
    fewer: int, kept: list[str], expected: list[str]
) -> None:
    assert dependent(fewer, kept) == expected


def test_a_node_given_twice_depends_on_slack_only_if_its_first_entry_does() -> None:
    assert dependent(1, ["n00", "n01"], ("n00", "n01", "n00")) == []


def test_r3_after_the_node_that_slack_spared_is_gone_the_others_go_as_any_node_does() -> None:
    given = five_nodes()
    state = decide(given, asking(0.3), decisions=BOTH).state
    assert dependent_count(state) == 1
    first, spared = (state.scale_down.strings[at] for at in np.frombuffer(state.scale_down.unneeded.node, "<i4"))
    pods = {key: row for key, row in given.pods.items() if row.node != spared}
    nodes = {name: row for name, row in given.nodes.items() if name != spared}
    again = decide(replace(given, pods=pods, nodes=nodes), asking(0.3), state, NOW_S + 10, BOTH)
    assert first in [one.node for one in again.scale_down.unneeded]
    assert dependent_count(again.state) < len(again.scale_down.unneeded)
