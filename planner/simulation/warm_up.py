"""Runs every kernel of the simulation once, so that none is compiled while a caller waits.

Contract: the snapshot is made up, as small as types allow; dtypes and contiguity are those of real ones, by
construction: it goes through `build_simulation` like any other.
"""

import numpy as np
from trimtab.v1.snapshot_pb2 import LabelOperator, PodPhase, VolumeState

from planner.model.values import (
    HostPort,
    LabelRequirement,
    PodAffinityTerm,
    PodSpec,
    SpreadConstraint,
    Volume,
)
from planner.simulation import kernels
from planner.simulation.build import Simulation, build_simulation
from planner.snapshot.columns import (
    NO_NODE,
    NO_OWNER,
    Dangling,
    DanglingReferences,
    LabelSets,
    NodeColumns,
    PodColumns,
    Snapshot,
    Text,
)

_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
_STRINGS = ("", "driver", "host", "n0", "n1", "ns")
_DRIVER, _HOST, _FIRST, _SECOND, _NAMESPACE = 1, 2, 3, 4, 5
_NODES, _PODS = 2, 3


def warm_up() -> Simulation:
    """Compile, or load from the cache, every kernel; return the simulation used, as it was built."""
    simulation = build_simulation(_snapshot())
    state = simulation.state
    allowed = np.ones(_NODES, np.bool_)
    kernels.find_all(state, 0, allowed, np.zeros(_NODES, np.bool_))
    place = kernels.mark(state)
    for pod in range(_PODS):
        node = kernels.find(state, pod, allowed, 0)
        kernels.failing(state, pod, 0)
        kernels.fits(state, pod, 0)
        kernels.place(state, pod, max(node, 0))
    kernels.remove(state, 0)
    kernels.retire(state, 0)
    kernels.drop(state, 0)
    kernels.revert(state, place)
    kernels.commit(state, place)
    kernels.failing_everywhere(state, 0, np.zeros(_NODES, np.int64))
    return simulation


def _snapshot() -> Snapshot:
    """Two nodes and three pods with one of everything."""
    own = (LabelRequirement("host", LabelOperator.IN, ("n0",)),)
    term = PodAffinityTerm(own, (), None, "host")
    spec = PodSpec(
        requests=(("cpu", 1), ("memory", 1)),
        host_ports=(HostPort("TCP", "0.0.0.0", 1),),
        pod_affinity=(term,),
        pod_anti_affinity=(term,),
        topology_spread=(SpreadConstraint(1, "host", own, 1, True, False, ()),),
    )
    nothing = Dangling(np.zeros(0, np.int32), np.zeros(0, np.int32), ())
    volume = Volume("ns/c", VolumeState.BOUND, "driver", "", None, (), True, "")
    nodes = _nodes(_NODES)
    return Snapshot(
        version="",
        strings=_STRINGS,
        resources=_RESOURCES,
        label_sets=LabelSets(
            np.array([0, 0, 1, 2], np.int32),
            np.array([_HOST, _HOST], np.int32),
            np.array([_FIRST, _SECOND], np.int32),
        ),
        specs=(spec,),
        volumes=(volume,),
        pods=_pods(),
        nodes=nodes,
        templates=_nodes(0),
        groups=(),
        owners=(),
        budgets=(),
        namespaces=(),
        deletions=(),
        recent_evictions=(),
        dangling=DanglingReferences(nothing, nothing, nothing, nothing),
    )


def _nodes(count: int) -> NodeColumns:
    amounts = np.full((count, len(_RESOURCES)), 10, np.int64)
    return NodeColumns(
        name=tuple(f"n{i}" for i in range(count)),
        provider_id=("",) * count,
        label_set=np.arange(1, count + 1, dtype=np.int32),
        taint_set=np.zeros(count, np.int32),
        taint_sets=((),),
        unschedulable=np.zeros(count, np.bool_),
        allocatable=amounts,
        capacity=amounts.copy(),
        ready=np.ones(count, np.bool_),
        ready_ns=np.zeros(count, np.int64),
        created_ns=np.zeros(count, np.int64),
        group=np.full(count, -1, np.int32),
        scale_down_disabled=np.zeros(count, np.bool_),
        deletion_delayed=np.zeros(count, np.bool_),
        attach_limits=((("driver", 9),),) * count,
    )


def _pods() -> PodColumns:
    def column(value: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return np.full(_PODS, value, np.int32)

    names = Text(np.frombuffer(b"abc", np.uint8).copy(), np.arange(_PODS + 1, dtype=np.int64))
    return PodColumns(
        namespace=column(_NAMESPACE),
        name=names,
        uid=names,
        spec=column(0),
        label_set=column(1),
        node=column(NO_NODE),
        owner=column(NO_OWNER),
        created_s=np.zeros(_PODS, np.int64),
        deletion_s=np.zeros(_PODS, np.int64),
        phase=np.full(_PODS, PodPhase.RUNNING, np.uint8),
        flags=np.zeros(_PODS, np.uint8),
        deletion_cost=column(0),
        pinned=column(NO_NODE),
        volume_pod=np.array([0, 1], np.int32),
        volume=np.array([0, 0], np.int32),
    )
