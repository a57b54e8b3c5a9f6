"""The canonical form of a cluster snapshot inside the planner.

Symbols, used in every docstring of the planner: N nodes, P pods, S pod specs (later pod classes), K node classes,
G node groups, R resources, L label sets, D topology domains, T affinity or spread terms.

Canonical means: two snapshots with equal content have equal columns bit by bit, whatever the order of their rows or
dictionaries and whether they were sent in full or as a delta. So: nodes sorted by name, pods by (namespace, name),
groups by id, owners by uid, budgets and namespaces by name, all bytewise; `strings`, `specs`, `volumes` and label sets
sorted, without duplicates and unused entries.

All arrays are C-contiguous, flagged writable (kernels then see one type) and never written after creation.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.model.values import (
    CapacityRequest,
    DeletionInProgress,
    DisruptionBudget,
    MountedVolume,
    NodeGroupInfo,
    NodeTraits,
    Owner,
    PodGroup,
    PodRequirements,
    RecentEviction,
    SlackRequest,
    TaintSpec,
)
from trimtab.v1.snapshot_pb2 import PodPhase

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

NO_NODE = -1
"""Pod column `node`: not on a node. Column `pinned`: not pinned."""
UNKNOWN_NODE = -2
"""Pod columns `node`, `pinned`: a node that is not in the snapshot."""
NO_OWNER = -1
"""Pod column `owner`: no controlling owner."""
UNKNOWN_OWNER = -2
"""Pod column `owner`: an owner that is not in the snapshot."""

FLAG_READY, FLAG_MIRROR, FLAG_DAEMON, FLAG_GATED, FLAG_OTHER_KIND = 1, 2, 4, 8, 16
FLAG_UNSCHEDULABLE, FLAG_OTHER_STATEFUL_SET = 32, 64
"""Bits of the pod column `flags`, as on the wire."""


class LabelSets(NamedTuple):
    """Label sets in compressed rows; set 0 is empty; within a set ascending by key.

    offsets : int32[L+1]; keys, values : int32[E]  indices into `Snapshot.strings`
    """

    offsets: Int32
    keys: Int32
    values: Int32


class Text(NamedTuple):
    """P UTF-8 strings, one after the other. data : uint8[B]; offsets : int64[P+1]."""

    data: UInt8
    offsets: Int64

    def get(self, index: int) -> str:
        """Return string `index`."""
        return bytes(self.data[self.offsets[index] : self.offsets[index + 1]]).decode()


class PodColumns(NamedTuple):
    """Pods sorted by (namespace, name).

    name, uid : P texts; namespace : int32[P] index into `Snapshot.strings`; spec : int32[P] into `specs`; label_set :
    int32[P]; node : int32[P] into `nodes`, NO_NODE or UNKNOWN_NODE; owner : int32[P] into `owners`, NO_OWNER or
    UNKNOWN_OWNER; created_s, deletion_s : int64[P] Unix seconds, 0 = unknown / not terminating; phase : uint8[P]
    `PodPhase.Code`; flags : uint8[P]; deletion_cost : int32[P]; pinned : int32[P] into `nodes`, NO_NODE or
    UNKNOWN_NODE; volume_pod : int32[M] ascending; volume : int32[M] into `volumes`; number_pod, number_key : int32[A]
    pod and index into `Snapshot.strings`, ascending; number : float64[A] of that annotation, infinity if its value is
    not a number; group_pod : int32[B] pods in groups, ascending; group_name : int32[B] into `Snapshot.strings`, the
    name of each one's group, in the pod's namespace.
    """

    namespace: Int32
    name: Text
    uid: Text
    spec: Int32
    label_set: Int32
    node: Int32
    owner: Int32
    created_s: Int64
    deletion_s: Int64
    phase: UInt8
    flags: UInt8
    deletion_cost: Int32
    pinned: Int32
    volume_pod: Int32
    volume: Int32
    number_pod: Int32
    number_key: Int32
    number: Float64
    group_pod: Int32
    group_name: Int32

    def is_terminal(self) -> Bool:
        """Return which pods are in a terminal phase, Succeeded or Failed. bool[P]."""
        terminal: Bool = (self.phase == PodPhase.SUCCEEDED) | (self.phase == PodPhase.FAILED)
        return terminal


class NodeColumns(NamedTuple):
    """Nodes sorted by name, or templates of node groups in the order of the groups that have one.

    provider_id : "" = none; label_set : int32[N]; taint_set : int32[N] into `taint_sets` (0 = no taints);
    unschedulable, ready : bool[N]; allocatable, capacity : int64[N, R]; ready_ns, created_ns : int64[N] Unix
    nanoseconds, 0 = unknown; group : int32[N] into `Snapshot.groups` or -1 (a template: its own group);
    scale_down_disabled, deletion_delayed, do_not_disrupt : bool[N]; traits : of each node.
    """

    name: tuple[str, ...]
    provider_id: tuple[str, ...]
    label_set: Int32
    taint_set: Int32
    taint_sets: tuple[tuple[TaintSpec, ...], ...]
    unschedulable: Bool
    allocatable: Int64
    capacity: Int64
    ready: Bool
    ready_ns: Int64
    created_ns: Int64
    group: Int32
    scale_down_disabled: Bool
    deletion_delayed: Bool
    do_not_disrupt: Bool
    traits: tuple[NodeTraits, ...]


class Dangling(NamedTuple):
    """Rows of one column whose reference is not in the snapshot, and the names they refer to.

    row : int32[U] ascending; name : int32[U] into `names`, which are sorted and without duplicates.
    """

    row: Int32
    name: Int32
    names: tuple[str, ...]


class DanglingReferences(NamedTuple):
    """All dangling references. No decision uses them; a delta may add the missing row.

    node, owner, pinned : of the pods' columns of that name; group : of the nodes' column.
    """

    node: Dangling
    owner: Dangling
    pinned: Dangling
    group: Dangling


class Snapshot(NamedTuple):
    """A whole cluster in canonical form; `version` is the hex digest of everything else. `resources` begins with cpu,
    memory, ephemeral-storage, pods; then follow, sorted, the others that some node offers or some pod requests.
    `namespaces` : (name, label set), sorted by name. `slack_requests` : sorted by object; `capacity_requests` : by
    namespace and name. `pod_groups` : likewise; pods may name others.

    strings : sorted, those in use; label_sets, specs, volumes : dictionaries without duplicates; nodes, groups, owners,
    budgets, deletions, recent_evictions : sorted by key; templates : in the order of the groups that have one;
    dangling : references to rows that the snapshot lacks.
    """

    version: str
    strings: tuple[str, ...]
    resources: tuple[str, ...]
    label_sets: LabelSets
    specs: tuple[PodRequirements, ...]
    volumes: tuple[MountedVolume, ...]
    pods: PodColumns
    nodes: NodeColumns
    templates: NodeColumns
    groups: tuple[NodeGroupInfo, ...]
    owners: tuple[Owner, ...]
    budgets: tuple[DisruptionBudget, ...]
    namespaces: tuple[tuple[str, int], ...]
    deletions: tuple[DeletionInProgress, ...]
    recent_evictions: tuple[RecentEviction, ...]
    slack_requests: tuple[SlackRequest, ...]
    capacity_requests: tuple[CapacityRequest, ...]
    pod_groups: tuple[PodGroup, ...]
    dangling: DanglingReferences

    def pod_key(self, pod: int) -> str:
        """Return "namespace/name" of a pod."""
        return f"{self.strings[self.pods.namespace[pod]]}/{self.pods.name.get(pod)}"
