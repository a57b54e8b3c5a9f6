"""A simulation with virtual pods and nodes in it, from one without them.

Contract: pure. The given simulation stays as it is. The result is a writable copy: pods are where they
are in the given one, nodes are open, retired, dropped or closed as there, its log is empty; it answers as one built
from a snapshot in which the virtual rows are real, with closed nodes left out.

Pods whose classes exist (those of recently evicted pods nearly always do) are appended to the columns of pods:
O(copied bytes). Anything else is built again from the snapshot and all virtual rows.
"""

import numpy as np

from planner.classes.known_classes import NONE, known_classes, label_groups, namespace_numbers
from planner.classes.pod_classes import pinned_in_class
from planner.classes.scheduling_specs import scheduling_spec
from planner.model.effort import UNLIMITED, Effort
from planner.simulation.build import Simulation, build_empty, is_spread_expired
from planner.simulation.fresh import fresh
from planner.simulation.kernels import fill
from planner.simulation.state import NOWHERE
from planner.simulation.virtual_rows import VirtualNodes, VirtualPod
from planner.snapshot.columns import Int32, Int64


def with_virtual(
    given: Simulation,
    pods: tuple[VirtualPod, ...],
    nodes: tuple[VirtualNodes, ...] = (),
    effort: Effort = UNLIMITED,
) -> Simulation:
    """Return the simulation with virtual pods, on no node, and virtual nodes behind those that it has."""
    if not nodes:
        classes = _known_classes(given, pods)
        if (classes != NONE).all():
            return _with_pods(fresh(given, len(pods)), pods, classes)
    return _rebuilt(given, pods, nodes, effort)


def _known_classes(given: Simulation, pods: tuple[VirtualPod, ...]) -> Int64:
    """Return the class of each pod : int64[pods], NONE = it has none yet."""
    if not pods:
        return np.zeros(0, np.int64)
    spec = _specs(given, pods)
    namespace = namespace_numbers(given.pods, [pod.namespace for pod in pods], lambda: _namespaces_with_pods(given))
    # Labels are no part of a class where no term looks.
    looked_into = namespace != len(given.pods.namespaces) - 1
    labels = [dict(pod.labels) if seen else {} for pod, seen in zip(pods, looked_into.tolist(), strict=True)]
    created_s = np.array([pod.created_s for pod in pods], np.int64)
    timeout_s = np.array([pod.spec.topology_spread_timeout_s for pod in pods], np.int64)
    pinned = pinned_in_class(np.array([pod.pinned for pod in pods], np.int32), spec, given.specs)
    expired = is_spread_expired(timeout_s, created_s, given.now_s, given.settings)
    return known_classes(given.pods, spec, namespace, label_groups(given.pods.labels, labels), (pinned, expired))


def _specs(given: Simulation, pods: tuple[VirtualPod, ...]) -> Int32:
    """Return the scheduling spec of each pod : int32[pods], NONE = it is new."""
    # By identity, since pods of one workload share their spec and a look at one costs some microseconds.
    number: dict[int, int] = {}
    for pod in pods:
        if id(pod.spec) not in number:
            number[id(pod.spec)] = given.specs.number.get(scheduling_spec(pod.spec), NONE)
    return np.array([number[id(pod.spec)] for pod in pods], np.int32)


def _namespaces_with_pods(given: Simulation) -> set[str]:
    strings = given.snapshot.strings
    holding = np.flatnonzero(np.bincount(given.snapshot.pods.namespace, minlength=len(strings)))
    return {strings[at] for at in holding.tolist()} | {pod.namespace for pod in given.virtual.pods}


def _with_pods(own: Simulation, pods: tuple[VirtualPod, ...], classes: Int64) -> Simulation:
    """Append pods to a simulation of its own."""
    if not pods:
        return own
    state, count = own.state, len(pods)
    pinned = np.array([pod.pinned for pod in pods], np.int64)
    return own._replace(
        virtual=own.virtual.and_more(pods, ()),
        pods=own.pods._replace(of=np.concatenate([own.pods.of, classes.astype(np.int32)])),
        state=state._replace(
            pod_class=np.concatenate([state.pod_class, classes]),
            pod_node=np.concatenate([state.pod_node, np.full(count, NOWHERE, np.int64)]),
            pinned=np.concatenate([state.pinned, pinned]),
            volumes=state.volumes._replace(row=np.concatenate([state.volumes.row, np.full(count, -1, np.int32)])),
        ),
    )


def _rebuilt(
    given: Simulation, pods: tuple[VirtualPod, ...], nodes: tuple[VirtualNodes, ...], effort: Effort
) -> Simulation:
    virtual = given.virtual.and_more(pods, nodes)
    built = build_empty(given.snapshot, virtual, given.now_s, given.settings, effort)
    # Virtual nodes come last, and so do those that are new; of pods likewise.
    built.state.node_state[: len(given.state.node_state)] = given.state.node_state
    built.state.virtual.opened_as[: len(given.state.node_state)] = given.state.virtual.opened_as
    where = np.full(len(built.state.pod_node), NOWHERE, np.int64)
    where[: len(given.state.pod_node)] = given.state.pod_node
    fill(built.state, where)
    return built
