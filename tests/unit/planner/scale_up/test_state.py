"""The places of pending pods are remembered, on existing and on upcoming nodes."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, Eviction, Group, int32, write
from trimtab.planner.placement.hints import LAYOUT_VERSION, PodGroups, pod_groups
from trimtab.planner.scale_up.context import recall, remember
from trimtab.planner.simulation.build import Simulation, build_simulation
from trimtab.planner.simulation.growth import Growth, growth_rows
from trimtab.planner.simulation.kernels import open_from_template, place, remove
from trimtab.planner.simulation.virtual_rows import GroupTemplate, NodeTemplate, VirtualRows, evicted_pods
from trimtab.planner.snapshot.caches import UNCACHED
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2
from trimtab.v1.opaque_state_pb2 import OpaqueState

TEMPLATE = GroupTemplate(NodeTemplate(allocatable=(("cpu", 4000), ("memory", 2**33), ("pods", 9))))
BLANKS = 4


class Given(NamedTuple):
    """A cluster in which groups grow."""

    simulation: Simulation
    growth: Growth
    groups: PodGroups

    def pod(self, name: str) -> int:
        """Return the index of a pod, virtual ones by "virtual-" and their position."""
        if name.startswith("virtual-"):
            return self.simulation.pod_count + int(name.removeprefix("virtual-"))
        names = self.simulation.snapshot.pods.name
        return next(row for row in range(self.simulation.pod_count) if names.get(row) == name)

    def node(self, name: str) -> int:
        """Return the index of a node, virtual ones included."""
        virtual = (one for nodes in self.simulation.virtual.nodes for one in nodes.names)
        return [*self.simulation.snapshot.nodes.name, *virtual].index(name)

    def move(self, pod: str, node: str) -> None:
        remove(self.simulation.state, self.pod(pod))
        assert place(self.simulation.state, self.pod(pod), self.node(node)) == 0

    def remember(self, *pods: str, added: tuple[int, ...] = ()) -> plan_pb2.ScaleUpState:
        rows = np.array([self.pod(name) for name in pods], np.int32)
        return remember(self.simulation, self.growth, self.groups, rows, np.array(added, np.int32))

    def recall(self, state: plan_pb2.ScaleUpState | None) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the remembered places of pods, by names."""
        hint, notes = recall(state, self.simulation.snapshot, self.growth, self.groups)
        virtual = (one for nodes in self.simulation.virtual.nodes for one in nodes.names)
        names = [*self.simulation.snapshot.nodes.name, *virtual]
        assert len(hint) == len(self.groups.digests)
        assert hint.max(initial=-1) < len(names)
        count = self.simulation.pod_count
        of = {row: self.simulation.snapshot.pods.name.get(row) for row in range(count)}
        return {of.get(p, f"virtual-{p - count}"): names[n] for p, n in enumerate(hint.tolist()) if n >= 0}, notes


def cluster(nodes: str = "ab", pods: str = "xyz", upcoming: tuple[int, int] = (2, 1), **more: str) -> Given:
    """Return nodes and pods by letter; `x="a"` puts a pod on a node; groups "g" and "h"; pod "e" was just evicted."""
    rows = Cluster(
        nodes={name: NodeRow() for name in nodes},
        pods={("default", name): PodRow(uid=f"uid-{name}", node=more.get(name, ""), phase=1) for name in pods},
        groups={"g": Group(), "h": Group()},
        evictions={("default", "e"): Eviction("uid-e", PodRow().spec, (), "", 10**9)},
    )
    snapshot = canonicalize(write(rows))
    rows_of_growth = growth_rows([TEMPLATE, TEMPLATE], upcoming, BLANKS, snapshot)
    virtual = VirtualRows(evicted_pods(snapshot, snapshot.recent_evictions), rows_of_growth.nodes)
    groups = pod_groups(snapshot, snapshot.recent_evictions, UNCACHED)
    return Given(build_simulation(snapshot, virtual), rows_of_growth.growth, groups)


def test_pods_are_remembered_on_nodes_that_are_and_that_are_to_come() -> None:
    given = cluster(z="b")
    given.move("x", "a")
    given.move("y", "g-upcoming-2")
    given.move("z", "h-upcoming-1")
    given.move("virtual-0", "b")
    state = given.remember("z", "x", "y", "virtual-0")
    expected = {"x": "a", "y": "g-upcoming-2", "z": "h-upcoming-1", "virtual-0": "b"}
    assert cluster(z="b").recall(state) == (expected, ())
    assert given.recall(state) == (expected, ())


def test_a_node_that_the_plan_adds_is_one_to_come_in_the_next_loop() -> None:
    given, (first, second) = cluster(), (0, 1)
    for at, group in enumerate((second, first, second)):
        open_from_template(given.simulation.state, given.growth.spare_nodes[at], given.growth.template_node[group])
    for pod, name in zip("xyz", given.growth.spare_names, strict=False):
        given.move(pod, name)
    state = given.remember("x", "y", "z", added=(second, first, second))
    later = cluster(upcoming=(3, 3)).recall(state)
    assert later == ({"x": "h-upcoming-2", "y": "g-upcoming-3", "z": "h-upcoming-3"}, ())
    assert cluster(upcoming=(3, 2)).recall(state)[0] == {"x": "h-upcoming-2", "y": "g-upcoming-3"}
    assert cluster(upcoming=(0, 0)).recall(state)[0] == {}


def test_pods_without_a_place_and_what_has_gone_are_forgotten() -> None:
    given = cluster()
    given.move("x", "a")
    given.move("y", "b")
    state = given.remember("x", "y", "z")
    assert cluster(nodes="b").recall(state)[0] == {"y": "b"}
    assert cluster(pods="x").recall(state)[0] == {"x": "a"}
    assert given.remember().opaque == b""


def test_a_pod_that_is_where_it_was_not_is_another() -> None:
    given = cluster(x="b")
    given.move("x", "a")
    state = given.remember("x")
    assert cluster(x="b").recall(state)[0] == {"x": "a"}
    assert cluster(x="a").recall(state)[0] == {}
    assert cluster().recall(state)[0] == {}


def test_no_state_says_nothing_and_one_of_another_layout_is_dropped_with_a_note() -> None:
    assert cluster().recall(None) == ({}, ())
    assert cluster().recall(plan_pb2.ScaleUpState()) == ({}, ())
    other = whole()
    other.opaque += OpaqueState(layout_version=LAYOUT_VERSION + 1).SerializeToString()
    hints, (note,) = cluster().recall(other)
    assert hints == {}
    assert f"dropped (its layout is {LAYOUT_VERSION + 1}, not {LAYOUT_VERSION}): waiting pods are placed anew" in note


def whole() -> plan_pb2.ScaleUpState:
    given = cluster(z="b")
    for pod, node in (("x", "a"), ("y", "g-upcoming-2"), ("z", "h-upcoming-1")):
        given.move(pod, node)
    return given.remember("x", "y", "z")


BROKEN = {
    "coming has 3 bytes": {"coming": b"abc"},
    "the columns of hints differ": {"coming": int32([0])},
    "is not a node's index": {"coming": int32([0, -1, 1])},
    "hints.destination refers to a missing string": {"hints.destination": int32([0, 1, 99])},
    "hints.source refers to a missing string": {"hints.source": int32([0, 99])},
    "hints.source names a node twice": {"hints.source": int32([0, 0])},
    "hints.offsets has 1 rows": {"hints.offsets": int32([0])},
    "hints.offsets": {"hints.offsets": int32([0, 5, 3])},
}


def set_column(state: plan_pb2.ScaleUpState, path: str, value: bytes) -> None:
    """Set a column of the opaque part of a state, in place."""
    opaque = OpaqueState.FromString(state.opaque)
    table, _, name = path.rpartition(".")
    setattr(getattr(opaque, table) if table else opaque, name, value)
    state.opaque = opaque.SerializeToString()


@pytest.mark.parametrize("problem", BROKEN)
def test_a_state_that_cannot_be_read_is_noted_and_counts_as_absent(problem: str) -> None:
    state = whole()
    for path, value in BROKEN[problem].items():
        set_column(state, path, value)
    hints, (note,) = cluster(z="b").recall(state)
    assert hints == {}
    assert problem in note


COLUMNS = ("coming", "hints.source", "hints.offsets", "hints.pod", "hints.destination")
WHOLE = whole()
LATER = cluster(z="b")


@given(st.sampled_from(COLUMNS), st.lists(st.integers(-3, 9) | st.integers(-(2**31), 2**31 - 1), max_size=5))
@settings(deadline=None)
def test_columns_of_any_content_are_read_or_noted(path: str, values: list[int]) -> None:
    state = plan_pb2.ScaleUpState()
    state.CopyFrom(WHOLE)
    set_column(state, path, int32(values))
    hints, notes = LATER.recall(state)
    assert len(notes) <= 1
    assert not (hints and notes)


@given(st.binary(max_size=64), st.integers(0, 2**16), st.integers(-1, 3))
@settings(deadline=None)
def test_an_opaque_part_of_any_bytes_and_layout_is_read_or_noted(noise: bytes, place: int, layout: int) -> None:
    state = plan_pb2.ScaleUpState()
    state.CopyFrom(WHOLE)
    at = place % (len(state.opaque) + 1)
    opaque = state.opaque[:at] + noise + state.opaque[at + len(noise) :]
    state.opaque = opaque + OpaqueState(layout_version=layout).SerializeToString()
    hints, notes = LATER.recall(state)
    assert len(notes) <= 1
    assert not (hints and notes)


def test_groups_without_growth_are_not_requested() -> None:
    given = cluster(z="b")
    snapshot = given.simulation.snapshot
    nowhere = growth_rows([], [], 0, snapshot).growth
    hint, notes = recall(WHOLE, snapshot, nowhere, given.groups)
    assert notes == ()
    assert {int(node) for node in hint} <= {-1, given.node("a")}
