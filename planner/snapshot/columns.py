"""The canonical form of a cluster snapshot inside the planner.

Symbols, used in every docstring of the planner: N nodes, P pods, S pod specs (later pod classes), K node classes,
G node groups, R resources, L label sets, D topology domains, T affinity or spread terms.

Canonical means: two snapshots with equal content have equal columns bit by bit, whatever the order of their rows or
dictionaries and whether they were sent in full or as a delta. So: nodes sorted by name, pods by (namespace, name),
groups by id, owners by uid, budgets and namespaces by name, all bytewise; `strings`, `specs`, `volumes` and label sets
sorted, without duplicates and unused entries.

All arrays are C-contiguous, flagged writable (kernels then see one type) and never written after creation.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.devices.model import CounterSet, DeviceClaim, DeviceSet
from trimtab.planner.devices.taint_rules import TaintRule
from trimtab.planner.model.values import (
    CapacityRequest,
    DeletionInProgress,
    DisruptionBudget,
    MountedVolume,
    NodeAffinityTerm,
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
"""Pod column `node`: not on a node. Columns `pinned`, `nominated`: not pinned, not nominated."""
UNKNOWN_NODE = -2
"""Pod columns `node`, `pinned`, `nominated`: a node that is not in the snapshot."""
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

    def pairs(self, strings: Sequence[str], label_set: int) -> tuple[tuple[str, str], ...]:
        """Return a label set as (key, value) pairs, in its order. strings : to which the entries refer."""
        entries = slice(int(self.offsets[label_set]), int(self.offsets[label_set + 1]))
        keys, values = self.keys[entries].tolist(), self.values[entries].tolist()
        return tuple([(strings[key], strings[value]) for key, value in zip(keys, values, strict=True)])


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
    `PodPhase.Code`; flags : uint8[P]; deletion_cost : int32[P]; pinned, nominated : int32[P] into `nodes`, NO_NODE or
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
    nominated: Int32
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
    scale_down_disabled, deletion_delayed, do_not_disrupt, being_deleted : bool[N]; own_price : float64[N] per hour, NaN
    = that of the group (`facts.nodes.prices`); traits : of each node.
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
    being_deleted: Bool
    own_price: Float64
    traits: tuple[NodeTraits, ...]


class SliceColumns(NamedTuple):
    """S slices of devices, sorted by name. driver, pool, node : int32[S] into `DeviceColumns.strings`, node "" = not of
    one node; generation, slice_count : int64[S] of the pool; selector : int32[S] into `node_selectors`, device_set,
    counter_set : int32[S] into the tables of their names, -1 = none; flags : uint8[S].
    """

    name: Text
    driver: Int32
    pool: Int32
    generation: Int64
    slice_count: Int64
    node: Int32
    selector: Int32
    flags: UInt8
    device_set: Int32
    counter_set: Int32


class ClaimColumns(NamedTuple):
    """C claims sorted by (namespace, name), with D results, E amounts of capacities and F consumers.

    namespace, pod_claim, node : int32[C] into `DeviceColumns.strings`, "" = none; spec : int32[C] into `claim_specs`;
    pod : C texts, the pod that owns the claim, "" = none; flags : uint8[C]; selector : int32[C] into `node_selectors`,
    -1 = none. result_claim : int32[D] ascending; result_driver, result_pool, result_device, result_request : int32[D]
    into the strings; result_flags : uint8[D]. capacity_result : int32[E] ascending; capacity_name : int32[E] into the
    strings; capacity_amount : int32[E] into `quantities`. consumer_claim : int32[F] ascending; consumer : F texts, the
    names of pods, "" = no pod.
    """

    namespace: Int32
    name: Text
    spec: Int32
    pod: Text
    pod_claim: Int32
    flags: UInt8
    node: Int32
    selector: Int32
    result_claim: Int32
    result_driver: Int32
    result_pool: Int32
    result_device: Int32
    result_request: Int32
    result_flags: UInt8
    capacity_result: Int32
    capacity_name: Int32
    capacity_amount: Int32
    consumer_claim: Int32
    consumer: Text


ALL_NODES, PER_DEVICE = 1, 2
"""Bits of the slices' column `flags`, as on the wire."""
ALLOCATED, BEING_DELETED, BINDING_FAILED = 1, 2, 4
"""Bits of the claims' column `flags`, as on the wire."""
ADMIN_ACCESS, SHARE = 1, 2
"""Bits of the claims' column `result_flags`, as on the wire."""


class ClassOfDevices(NamedTuple):
    """A device class. selectors : expressions, None = of an unknown kind; extended_resource : "" = none but the one
    that follows from its name; created_s : Unix seconds."""

    name: str
    selectors: tuple[str | None, ...]
    extended_resource: str
    created_s: int


class TemplateSlice(NamedTuple):
    """A slice of a new node; its pool has the node's name, with `pool` before it."""

    driver: str
    pool: str
    devices: DeviceSet
    counter_sets: tuple[CounterSet, ...]
    per_device_nodes: bool


class DeviceColumns(NamedTuple):
    """Devices of dynamic resource allocation, in canonical form. kubernetes_minor : 0 = not known; feature_gates :
    sorted, as written; strings : sorted, those in use and ""; device_sets, counter_sets, node_selectors, claim_specs,
    quantities (nano-units) : dictionaries without duplicates; classes : by name; taint_rules : sorted; templates :
    slices of new nodes by node group, sorted by its id.
    """

    kubernetes_minor: int
    feature_gates: tuple[str, ...]
    strings: tuple[str, ...]
    device_sets: tuple[DeviceSet, ...]
    counter_sets: tuple[tuple[CounterSet, ...], ...]
    node_selectors: tuple[tuple[NodeAffinityTerm, ...], ...]
    claim_specs: tuple[DeviceClaim, ...]
    quantities: tuple[int, ...]
    slices: SliceColumns
    classes: tuple[ClassOfDevices, ...]
    claims: ClaimColumns
    taint_rules: tuple[TaintRule, ...]
    templates: tuple[tuple[str, tuple[TemplateSlice, ...]], ...]

    @property
    def is_empty(self) -> bool:
        """Whether the cluster has no slices, classes and claims."""
        return not (len(self.slices.driver) or self.classes or len(self.claims.spec) or self.templates)


class Dangling(NamedTuple):
    """Rows of one column whose reference is not in the snapshot, and the names they refer to.

    row : int32[U] ascending; name : int32[U] into `names`, which are sorted and without duplicates.
    """

    row: Int32
    name: Int32
    names: tuple[str, ...]


class DanglingReferences(NamedTuple):
    """All dangling references. No decision uses them; a delta may add the missing row.

    node, owner, pinned, nominated : of the pods' columns of that name; group : of the nodes' column.
    """

    node: Dangling
    owner: Dangling
    pinned: Dangling
    nominated: Dangling
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
    devices: DeviceColumns
    capacity_requests: tuple[CapacityRequest, ...]
    pod_groups: tuple[PodGroup, ...]
    dangling: DanglingReferences

    def pod_key(self, pod: int) -> str:
        """Return "namespace/name" of a pod."""
        return f"{self.strings[self.pods.namespace[pod]]}/{self.pods.name.get(pod)}"

    def pod_keys(self, pods: Int64 | Int32) -> list[str]:
        """Return "namespace/name" of each of pods : integers [n]. O(bytes of all names), or O(n) for few pods."""
        column, strings = self.pods.name, self.strings
        if 16 * len(pods) < len(self.pods.spec):
            return [self.pod_key(pod) for pod in pods.tolist()]
        # A character for each byte, so that offsets hold.
        text = column.data.tobytes().decode("latin-1")
        ends = column.offsets[pods].tolist(), column.offsets[pods + 1].tolist()
        rows = zip(self.pods.namespace[pods].tolist(), *ends, strict=True)
        if text.isascii():
            return [f"{strings[space]}/{text[first:last]}" for space, first, last in rows]
        return [f"{strings[space]}/{text[first:last].encode('latin-1').decode()}" for space, first, last in rows]

    def spec_priorities(self) -> Int64:
        """Return the priority of each spec. int64[S+1]; the last entry is for snapshots without specs."""
        return np.array([*(spec.priority for spec in self.specs), 0], np.int64)

    def labels_of(self, label_set: int) -> tuple[tuple[str, str], ...]:
        """Return a label set as (key, value) pairs, sorted by key."""
        return self.label_sets.pairs(self.strings, label_set)
