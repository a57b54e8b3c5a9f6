"""The state of scale-up between loops, and its encoding: the places of pods that waited.

A pod keeps its place as long as it exists; otherwise the pods of requested nodes would spread over other ones
meanwhile. All of it is opaque: a state of another layout, or an unreadable one, counts as absent and gives a note.
"""

from functools import partial

import numpy as np

from trimtab.planner.placement.hints import (
    LAYOUT_VERSION,
    Moves,
    PodGroups,
    UnreadableStateError,
    check_lengths,
    column,
    numbers_of,
    open_opaque,
    read_hints,
    translated,
    write_hints,
)
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import Growth
from trimtab.planner.snapshot.columns import Int32, Snapshot
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.opaque_state_pb2 import OpaqueState


def recall(
    state: pb.ScaleUpState | None, snapshot: Snapshot, growth: Growth, pods: PodGroups
) -> tuple[Int32, tuple[str, ...]]:
    """Return the place of each pod, as nodes of the simulation, -1 = not known, and notes. int32[P'].

    The n-th upcoming node of a group corresponds to the n-th of the last loop; those that have registered meanwhile are
    forgotten.
    """
    nothing = np.full(len(pods.digests), -1, np.int32)
    if state is None:
        return nothing, ()
    try:
        opaque = open_opaque(state.opaque)
        node_of = numbers_of(state.strings, snapshot.nodes.name)
        group_of = numbers_of(state.strings, [group.id for group in snapshot.groups])
        destinations = partial(_destinations, opaque, growth, node_of, group_of)
        return read_hints(opaque.hints, node_of, pods, destinations), ()
    except UnreadableStateError as error:
        return nothing, (f"the opaque part of the scale-up state was dropped ({error}): waiting pods are placed anew",)


def _destinations(opaque: OpaqueState, growth: Growth, node_of: Int32, group_of: Int32, strings: Int32) -> Int32:
    """Translate destinations, string indices, into nodes of the simulation, -1 = gone. int32."""
    coming = column(opaque.coming, np.int32, "coming")
    check_lengths("hints", len(strings), len(coming))
    if len(coming) and coming.min() < 0:
        raise UnreadableStateError(f"coming has {coming.min()}, which is not a node's index")
    found = translated(strings, node_of, "hints.destination")
    group = translated(strings, group_of, "hints.destination")
    offsets = growth.upcoming_offsets
    has_node = (coming > 0) & (group >= 0) & (group < len(offsets) - 1)
    first, end = offsets[group[has_node]], offsets[group[has_node] + 1]
    at = first + coming[has_node] - 1
    found[coming > 0] = -1
    found[np.flatnonzero(has_node)[at < end]] = growth.upcoming[at[at < end]]
    return found


def remember(simulation: Simulation, growth: Growth, groups: PodGroups, pods: Int32, added: Int32) -> pb.ScaleUpState:
    """Return the encoded state; without pods to remember, its opaque part is empty. O(pods · log pods + N).

    pods : int32 pods that waited, regardless of where they are now; added : int32 group of each new node, in the order
    in which the spare nodes were opened. Pods that a hint cannot name, such as placeholders, are left out.
    """
    snapshot, at = simulation.snapshot, simulation.state.pod_node
    nodes, ids = snapshot.nodes.name, [group.id for group in snapshot.groups]
    moved = np.sort(pods[pods < len(groups.digests)])
    moved = moved[at[moved] >= 0]
    # Sources and destinations share one numbering: nodes, then groups, then none.
    none = len(nodes) + len(ids)
    source = np.full(len(moved), none, np.int64)
    real = moved < simulation.pod_count
    source[real] = np.where(snapshot.pods.node[moved[real]] >= 0, snapshot.pods.node[moved[real]], none)
    order = np.argsort(source, kind="stable")
    moved, source = moved[order], source[order]
    group, number = growth.numbered(len(simulation.state.node_state), added)
    destination = np.where(at[moved] < len(nodes), at[moved], len(nodes) + group[at[moved]])
    used = np.unique(np.concatenate([source[source != none], destination]))
    code = np.zeros(none + 1, np.int32)
    code[used] = np.arange(1, len(used) + 1, dtype=np.int32)
    texts = [nodes[one] if one < len(nodes) else ids[one - len(nodes)] for one in used.tolist()]
    state = pb.ScaleUpState(strings=["", *texts])
    sources, first = np.unique(source, return_index=True)
    bounds = np.append(first, len(moved)).astype(np.int64)
    moves = Moves(sources.astype(np.int32), bounds, moved.astype(np.int32), destination.astype(np.int32))
    if len(moved):
        opaque = OpaqueState(layout_version=LAYOUT_VERSION, coming=(number[at[moved]] + 1).tobytes())
        write_hints(moves, code, groups.digests, opaque.hints)
        state.opaque = opaque.SerializeToString(deterministic=True)
    return state
