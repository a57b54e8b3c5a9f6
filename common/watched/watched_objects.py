"""The objects of a cluster, and which rows have changed since the last snapshot.

Decides which rows a change touches: a claim touches the pods that mount it; a CSINode touches its node and the pods
with in-tree volumes; an attachment touches its node, which its volume and the pods that mount volumes there touch too;
a claim of devices, and what it is made from, touches the pods that have it; a CSI driver that comes to be required, or
not, touches all nodes and the pods with volumes; the first and the last pod of a controller touch the controller.
`trimtab.common.objects` alone decides what a row contains. An object whose declared fields are unchanged
touches nothing.

Not thread-safe: `LiveCluster` holds the lock. Cost: 10 to 20 microseconds per pod; only the end of a list visits all
objects of a kind.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from trimtab.common.kubernetes.envelope import parsed
from trimtab.common.kubernetes.object_errors import FieldError, ObjectError
from trimtab.common.kubernetes.registry import BY_KIND, CONTROLLERS, VOLCANO_POD_GROUP, WATCHED
from trimtab.common.objects.attachments import node_of
from trimtab.common.objects.csi_drivers import required_drivers
from trimtab.common.objects.devices.pod_claims import provided_resources
from trimtab.common.objects.devices.table import DEVICE_KINDS
from trimtab.common.objects.karpenter.pools import nodes_of_deleted_claims
from trimtab.common.objects.migration import migrated_plugins, plugin_of
from trimtab.common.objects.pod_groups import GROUP_KINDS, VOLCANO, follows_from_pods
from trimtab.common.objects.pod_rows import PodRow, slack_of
from trimtab.common.watched.attached_volumes import AttachedVolumes
from trimtab.common.watched.claiming_pods import ClaimingPods, asking_pods
from trimtab.common.watched.pod_history import PodHistory
from trimtab.common.watched.pod_reader import PodRowBuilder
from trimtab.common.watched.structs import json_object
from trimtab.k8s.v1 import core_pb2, meta_pb2

Key = tuple[str, str]
"""(namespace, name); the namespace is "" for kinds without."""
OWNERS = tuple(CONTROLLERS)
BUFFERS = ("CapacityBuffer", "PodTemplate", "ProvisioningRequest")
"""Kinds that are used only for requests for slack and for ProvisioningRequests."""
POOLS = ("NodePool", "NodeClaim")
"""Kinds of Karpenter, from which its node groups are made."""
DEVICES = DEVICE_KINDS
"""Kinds that decide which pods get which devices."""
GROUPS_OF_PODS = ("Workload", "PodGroup", VOLCANO_POD_GROUP)
"""Kinds of groups of pods that are scheduled together."""
STORAGE = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSIDriver", "VolumeAttachment")
"""Kinds that decide where the volumes of pods can be mounted, and how many."""
_CONTENT = PodRow._fields.index("pod")
"""Only the fields of a row before this one, and its numbers, are put into a snapshot."""


class Changes(NamedTuple):
    """Keys of touched rows: of pods, nodes, owners (with their kind), budgets and namespaces; the others as below."""

    pods: set[Key]
    nodes: set[str]
    owners: set[tuple[str, Key]]
    budgets: set[Key]
    namespaces: set[str]
    buffers: set[tuple[str, Key]]
    """Kinds used only for requests for slack and for ProvisioningRequests, and pods that request slack by their own
    annotation."""
    devices: set[tuple[str, Key]]
    """Slices, classes, rules, templates and claims of devices."""
    pod_groups: set[Key]
    """Groups of pods, by namespace and name."""


class WatchedObjects:
    """The objects: `objects[kind][key]` are structs, `pods[key]` are rows."""

    def __init__(self, numbers: Iterable[str] = (), history: PodHistory | None = None) -> None:
        """`numbers` : keys of the pods' annotations that hold numbers; `history` : None = remembers gone pods."""
        self.objects: dict[str, dict[Key, Any]] = {kind: {} for kind in WATCHED}
        self.history = history or PodHistory()
        self.pods, self.pods_of = self.history.pods, self.history.pods_of
        # Pods that request slack by their own annotation.
        self.asking_pods: set[Key] = set()
        # Objects that cannot be used, with the reason.
        self.problems: dict[tuple[str, Key], str] = {}
        # Grows with every change that touches a row.
        self.revision = 0
        self.changes = _no_changes()
        self._reader = PodRowBuilder(numbers)
        # Pods by mounted claim; claims by the volume that they name ("" = none yet).
        self._mounted: dict[Key, set[Key]] = defaultdict(set)
        self._claims_of: dict[str, set[Key]] = defaultdict(set)
        self._claiming = ClaimingPods()
        self.attached = AttachedVolumes()
        # Pods by the group that they are in.
        self.pods_in: dict[Key, set[Key]] = defaultdict(set)
        # Volumes of in-tree plugins: which nodes can reach them depends on the plugins that the nodes have migrated to
        # CSI.
        self._in_tree: set[str] = set()
        # Controllers by uid: several, if the input is wrong.
        self._owners_at: dict[str, set[tuple[str, Key]]] = {}
        self._unconfirmed: dict[str, set[Key]] = {}

    def put(self, kind: str, raws: Sequence[bytes]) -> None:
        """Add or replace objects. Errors: MalformedAnswerError for bytes that are no such object."""
        unconfirmed = self._unconfirmed.get(kind)
        put = self._put_pod if kind == "Pod" else self._put_object
        for raw in raws:
            key = put(kind, raw)
            if unconfirmed is not None:
                unconfirmed.discard(key)

    def drop(self, kind: str, raw: bytes) -> None:
        """Remove an object."""
        meta = parsed(meta_pb2.ObjectHead, raw).metadata if kind == "Pod" else json_object(kind, raw).metadata
        self.forget(kind, _key(kind, meta))

    def listing(self, kind: str) -> None:
        """Note that a list begins."""
        self._unconfirmed[kind] = set(self._of(kind)) | {key for of, key in self.problems if of == kind}

    def listed(self, kind: str) -> None:
        """Remove the objects that a complete list did not contain."""
        for key in self._unconfirmed.pop(kind, ()):
            self.forget(kind, key)

    def take_changes(self) -> Changes:
        """Return the changes since the last call."""
        taken, self.changes = self.changes, _no_changes()
        return taken

    def add_changes(self, changes: Changes) -> None:
        """Add back changes that were taken and are to be taken again."""
        self.changes.pods.update(changes.pods)
        self.changes.nodes.update(changes.nodes)
        self.changes.owners.update(changes.owners)
        self.changes.budgets.update(changes.budgets)
        self.changes.namespaces.update(changes.namespaces)
        self.changes.buffers.update(changes.buffers)
        self.changes.devices.update(changes.devices)
        self.changes.pod_groups.update(changes.pod_groups)

    def _of(self, kind: str) -> dict[Key, Any]:
        return self.pods if kind == "Pod" else self.objects[kind]

    def _put_pod(self, kind: str, raw: bytes) -> Key:
        try:
            row = self._reader.read(raw)
        except FieldError as error:
            return self._problem(kind, parsed(core_pb2.Pod, raw).metadata, error)
        return self.put_row(row)

    def put_row(self, row: PodRow) -> Key:
        """Add or replace a pod."""
        key = (row.namespace, row.name)
        old = self.pods.get(key)
        if self.problems:
            self.problems.pop(("Pod", key), None)
        amount = slack_of(row)
        if old is not None:
            if old[:_CONTENT] == row[:_CONTENT] and old.numbers == row.numbers and slack_of(old) == amount:
                return key
            self._unlink(key, old)
            if old.uid != row.uid:
                self.history.remember(old)
        self.pods[key] = row
        if amount is not None:
            self.asking_pods.add(key)
            self.changes.buffers.add(("Pod", key))
        self._link(key, row)
        self.changes.pods.add(key)
        self.revision += 1
        return key

    def _link(self, key: Key, row: PodRow) -> None:
        """Add a pod to the indices."""
        if row.owner:
            keys = self.pods_of[row.owner]
            keys.add(key)
            if len(keys) == 1:
                self._touch_owner(row.owner)
        for claim in row.mounts.claims:
            self._mounted[row.namespace, claim.name].add(key)
        self.changes.nodes.update(self.attached.add_pod(row))
        if row.claims:
            self._claiming.add(row)
        if row.group:
            self.pods_in[row.namespace, row.group].add(key)
            self._touch_group(row)

    def _put_object(self, kind: str, raw: bytes) -> Key:
        built = json_object(kind, raw)
        return self.put_struct(kind, built)

    def put_struct(self, kind: str, built: Any) -> Key:
        """Add or replace an object that is not a pod."""
        key = _key(kind, built.metadata)
        objects = self.objects[kind]
        old = objects.get(key)
        if old != built:
            objects[key] = built
            self._touch(kind, key, old, built)
        return key

    def forget(self, kind: str, key: Key) -> None:
        """Remove an object by its key, if it exists."""
        self.problems.pop((kind, key), None)
        old = self._of(kind).pop(key, None)
        if old is None:
            return
        if kind != "Pod":
            self._touch(kind, key, old, None)
            return
        self._unlink(key, old)
        self.history.remember(old)
        self.changes.pods.add(key)
        self.revision += 1

    def _unlink(self, key: Key, old: PodRow) -> None:
        """Remove a pod from the indices."""
        if old.claims:
            self._claiming.remove(old)
        if old.group:
            members = self.pods_in[old.namespace, old.group]
            members.discard(key)
            if not members:
                del self.pods_in[old.namespace, old.group]
            self._touch_group(old)
        if slack_of(old) is not None:
            self.asking_pods.discard(key)
            self.changes.buffers.add(("Pod", key))
        if old.owner:
            keys = self.pods_of[old.owner]
            keys.discard(key)
            if not keys:
                del self.pods_of[old.owner]
                self._touch_owner(old.owner)
        for claim in old.mounts.claims:
            mounted = self._mounted[old.namespace, claim.name]
            mounted.discard(key)
            if not mounted:
                del self._mounted[old.namespace, claim.name]
        self.changes.nodes.update(self.attached.remove_pod(old))

    def _problem(self, kind: str, meta: meta_pb2.ObjectMeta, error: FieldError) -> Key:
        key = _key(kind, meta)
        self.problems[kind, key] = str(ObjectError("", kind, "/".join(filter(None, key)), error))
        return key

    def _touch_owner(self, uid: str) -> None:
        self.changes.owners.update(self._owners_at.get(uid, ()))

    def _touch(self, kind: str, key: Key, old: Any, new: Any) -> None:
        """Note which rows a changed object touches."""
        self.revision += 1
        if kind in GROUP_KINDS:
            self._touch_groups(kind, key)
        if kind in OWNERS:
            self._touch_controller(kind, key, old, new)
        elif kind in ("Node", "CSINode", "NodeClaim"):
            self._touch_node(kind, key, old, new)
        elif kind == "Namespace":
            self.changes.namespaces.add(key[1])
        elif kind == "PodDisruptionBudget":
            self.changes.budgets.add(key)
        elif kind in BUFFERS:
            self.changes.buffers.add((kind, key))
        elif kind in STORAGE:
            self._touch_storage(kind, key, old, new)
        elif kind in (*DEVICES, "PodGroup"):
            self._touch_devices(kind, key, old, new)
        elif kind == "PriorityClass":
            # The API server sets the priority of a pod when it creates it: only pods to come are touched.
            self._touch_pods_to_come()

    def _touch_node(self, kind: str, key: Key, old: Any, new: Any) -> None:
        if kind == "NodeClaim":
            # The node of a claim that is being deleted is leaving.
            self.changes.nodes.update(nodes_of_deleted_claims(one for one in (old, new) if one is not None))
            return
        self.changes.nodes.add(key[1])
        self._touch_migration(kind, old, new)

    def _touch_pods_to_come(self) -> None:
        """Touch the pods that DaemonSets and workloads will make."""
        self.changes.owners.update(("DaemonSet", key) for key in self.objects["DaemonSet"])
        if self.objects["Workload"]:
            self._touch_groups_in()

    def _touch_controller(self, kind: str, key: Key, old: Any, new: Any) -> None:
        if old is not None and old.metadata.uid:
            same = self._owners_at[old.metadata.uid]
            same.discard((kind, key))
            if not same:
                del self._owners_at[old.metadata.uid]
        if new is not None and new.metadata.uid:
            self._owners_at.setdefault(new.metadata.uid, set()).add((kind, key))
        self.changes.owners.add((kind, key))

    def _touch_storage(self, kind: str, key: Key, old: Any, new: Any) -> None:
        if kind == "PersistentVolumeClaim":
            self._touch_claim(key, old, new)
        elif kind == "PersistentVolume":
            self._touch_volume(key[1], new)
        elif kind == "StorageClass":
            # Of claims without a volume, the class says what their volume will be.
            volumes = self.objects["PersistentVolume"]
            self._touch_mounting(
                set().union(*(of for name, of in self._claims_of.items() if ("", name) not in volumes))
            )
        elif kind == "VolumeAttachment":
            self.attached.replace(key, old, new)
            self.changes.nodes.update(node_of(one) for one in (old, new) if one is not None)
        elif required_drivers(filter(None, (old,))) != required_drivers(filter(None, (new,))):
            self.changes.nodes.update(name for _, name in self.objects["Node"])
            self.changes.pods.update(key for key, row in self.pods.items() if row.mounts.claims or row.mounts.disks)

    def _touch_group(self, row: PodRow) -> None:
        """Touch the group of a changed pod, if the group's row follows from its pods."""
        if follows_from_pods(row.group):
            self.changes.pod_groups.add((row.namespace, row.group))

    def _touch_groups(self, kind: str, key: Key) -> None:
        """Touch the groups whose row follows from an object: a group, a workload or a workload's controller."""
        namespace, name = key
        if kind == "PodGroup":
            self.changes.pod_groups.add(key)
        elif kind == VOLCANO_POD_GROUP:
            self.changes.pod_groups.add((namespace, VOLCANO + name))
        elif kind == "Workload" or self.objects["Workload"]:
            self._touch_groups_in(namespace)

    def _touch_groups_in(self, namespace: str = "") -> None:
        """Touch the groups of a namespace, "" = all."""
        keys = (*self.objects["PodGroup"], *self.pods_in)
        self.changes.pod_groups.update(of for of in keys if namespace in ("", of[0]))

    def _touch_devices(self, kind: str, key: Key, old: Any, new: Any) -> None:
        """Note a change of devices, and touch the pods whose claims have another content or other uses."""
        if kind in DEVICES:
            self.changes.devices.add((kind, key))
        self.changes.pods.update(self._claiming.touched(kind, key, old, new))
        if kind == "DeviceClass":
            resources = provided_resources(filter(None, (old,))) ^ provided_resources(filter(None, (new,)))
            self.changes.pods.update(asking_pods(self.pods, resources))
        if kind in ("DeviceClass", "ResourceClaimTemplate") or (kind == "ResourceClaim" and self._is_in_template(key)):
            self._touch_pods_to_come()
            self.changes.buffers.add((kind, key))

    def _is_in_template(self, claim: Key) -> bool:
        """Return whether a DaemonSet's pods have a claim."""
        for (namespace, _), one in self.objects["DaemonSet"].items():
            template = one.spec.template.spec if one.spec and one.spec.template else None
            claims = (template.resource_claims if template else None) or ()
            if namespace == claim[0] and any(entry.resource_claim_name == claim[1] for entry in claims):
                return True
        return False

    def _touch_claim(self, key: Key, old: Any, new: Any) -> None:
        for claim in (old, new):
            if claim is not None:
                volume = (claim.spec.volume_name if claim.spec else None) or ""
                claims = self._claims_of[volume]
                if claim is old:
                    claims.discard(key)
                else:
                    claims.add(key)
                if not claims:
                    del self._claims_of[volume]
        self._touch_mounting((key,))

    def _touch_volume(self, name: str, new: Any) -> None:
        if new is not None and new.spec is not None and plugin_of(new.spec):
            self._in_tree.add(name)
        else:
            self._in_tree.discard(name)
        self.changes.nodes.update(self.attached.nodes_of_volume(name))
        self._touch_mounting(self._claims_of.get(name, set()) | self._claims_of.get("", set()))

    def _touch_migration(self, kind: str, old: Any, new: Any) -> None:
        """Touch pods with in-tree volumes when a node appears, disappears or migrates a plugin to CSI."""
        if kind == "Node" and old is not None and new is not None:
            return
        if kind == "CSINode" and migrated_plugins(old) == migrated_plugins(new):
            return
        for volume in self._in_tree:
            self._touch_mounting(self._claims_of.get(volume, ()))

    def _touch_mounting(self, claims: Iterable[Key]) -> None:
        """Touch the pods that mount claims, and their nodes."""
        for claim in claims:
            keys = self._mounted.get(claim, ())
            self.changes.pods.update(keys)
            self.changes.nodes.update(self.attached.among(self.pods[key].node for key in keys))


def _key(kind: str, meta: Any) -> Key:
    return ((meta.namespace or "default") if BY_KIND[kind].is_namespaced else "", meta.name or "")


def _no_changes() -> Changes:
    return Changes(set(), set(), set(), set(), set(), set(), set(), set())
