"""The cloud `clusterapi`: MachineDeployments and MachinePools.

Decides how its calls become patches. A size is changed by one patch that names the version of the object that was read,
and that notes in an annotation why: the uid of a machine that is deleted, the token of a growth. So whether a call was
carried out is read from the object itself, whoever repeats it. A machine is marked for deletion before the size is
lowered: the controller then removes that one, and no other. Lists of the API server are of the present, so a Machine
that was seen and is not listed is gone.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog

from actuator.cloud.clusterapi.objects import (
    CLUSTER_LABEL,
    DELETE_MACHINE,
    DELETED,
    GROWN,
    KINDS,
    Machine,
    MachineGroup,
    group_options,
    group_price,
    group_template,
    instances_without_machine,
    listed,
    read_group,
    read_machine,
)
from actuator.cloud.clusterapi.settings import ClusterApiSettings
from actuator.cloud.provider import (
    GPU_LABEL,
    Activity,
    CloudError,
    CloudRefusedError,
    GroupOptions,
    Instance,
    InstanceState,
    NodeGroupView,
    NodeTemplate,
    check_decrease,
    check_size,
)
from actuator.kube.api import Api, Call
from actuator.kube.cluster import ClusterError, ConflictError, InvalidError, NotFoundError, RefusedError
from clients.kubernetes_api.names import object_path

log = structlog.get_logger("clusterapi")

Json = dict[str, Any]
PAGE: Final = 500
PATCH_ATTEMPTS: Final = 8
# Entries that an annotation of ours keeps.
MOST_NOTED: Final = 100
MOST_SEEN: Final = 100_000
# Template, price and options of each group are asked for one by one; one list serves all.
CONFIGURATION_AGE_S: Final = 10.0


class ClusterApiCloud:
    """A `CloudProvider` (see `actuator.cloud.provider`)."""

    name = "clusterapi"
    gpu_label = GPU_LABEL

    def __init__(
        self, api: Api, settings: ClusterApiSettings | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._settings = settings or ClusterApiSettings()
        self._base = f"/apis/cluster.x-k8s.io/{self._settings.version}"
        self._clock = clock
        self._lock = threading.Lock()
        # The groups, for what they configure, and when they were read; None = not kept.
        self._kept: tuple[float, dict[str, MachineGroup]] | None = None
        # Provider id to node group, of Machines that were seen.
        self._seen: dict[str, str] = {}
        self._told: set[str] = set()

    def refresh(self) -> None:
        """Forget what groups configure; every other read is of the present."""
        self._kept = None

    def remember(self, group: str, instances: Sequence[str]) -> None:
        """Note that the group had these instances."""
        with self._lock:
            self._seen |= dict.fromkeys(instances, group)

    def node_groups(self) -> Sequence[NodeGroupView]:
        """Return all node groups, sorted by id."""
        groups, machines = self._read()
        return [_view(group, machines) for _, group in sorted(groups.items())]

    def groups_of(self, instances: Sequence[str]) -> Mapping[str, str]:
        """Return the node group of each Machine that has one."""
        groups, machines = self._read()
        found = {key: one.group for key, one in _by_id(machines).items() if one.group in groups}
        return {instance: found[instance] for instance in instances if instance in found}

    def instances(self, groups: Sequence[str]) -> Mapping[str, Sequence[Instance]]:
        """Return the Machines of each group, sorted by provider id."""
        known, machines = self._read()
        found: dict[str, list[Instance]] = {group: [] for group in groups}
        for one in machines:
            if one.group in found and one.group in known:
                found[one.group].append(listed(one, known[one.group]))
        return {group: sorted(members, key=lambda one: one.id) for group, members in found.items()}

    def instance_states(self, group: str, instances: Sequence[str]) -> Mapping[str, InstanceState]:
        """Return the state of each Machine."""
        groups, machines = self._read()
        known = _by_id(one for one in machines if one.group == group and group in groups)
        present = {key: listed(one, groups[group]).state for key, one in known.items()}
        with self._lock:
            gone = {instance for instance in instances if self._seen.get(instance) == group}
        missing = {
            instance: InstanceState.GONE if instance in gone else InstanceState.UNKNOWN for instance in instances
        }
        return {instance: present.get(instance, missing[instance]) for instance in instances}

    def delete_instances(self, group: str, instances: Sequence[str]) -> Mapping[str, CloudError]:
        """Mark Machines for deletion and lower the replicas, one by one."""
        machines = _by_id(one for one in self._read()[1] if one.group == group)
        failed: dict[str, CloudError] = {}
        for instance in instances:
            machine = machines.get(instance)
            with self._lock:
                is_gone = machine is None and self._seen.get(instance) == group
            if is_gone or (machine is not None and machine.instance.state is InstanceState.DELETING):
                continue
            try:
                if machine is None:
                    raise CloudRefusedError(f"node group {group} has no machine {instance}")
                self._delete(group, machine)
            except CloudError as error:
                failed[instance] = error
        return failed

    def set_size(self, group: str, expected: int, wanted: int, token: str) -> None:
        """Raise the replicas once for each token."""

        def edit(found: MachineGroup) -> tuple[int, str, str] | None:
            if token in found.done(GROWN):
                return None
            check_size(group, found.replicas, found.max_size, (expected, wanted))
            return wanted, GROWN, token

        self._change(group, edit)

    def was_set(self, group: str, wanted: int, token: str) -> bool:
        """Return whether a token was carried out."""
        del wanted
        return token in self._group(group).done(GROWN)

    def decrease_target(self, group: str, expected: int, wanted: int) -> None:
        """Lower the replicas by Machines that do not run; those that exist are marked for deletion first."""
        machines = [one for one in self._read()[1] if one.group == group]
        found = self._group(group)
        staying = [one for one in machines if listed(one, found).state is not InstanceState.DELETING]
        starting = [one for one in staying if one.instance.state is InstanceState.CREATING]
        if not check_decrease(_view(found, machines), len(staying) - len(starting), (expected, wanted)):
            return
        surplus = max(0, len(staying) - wanted)
        chosen = sorted(starting, key=lambda one: one.name)[len(starting) - surplus :]
        for one in chosen:
            self._mark(one)

        def edit(now: MachineGroup) -> tuple[int, str, str] | None:
            if now.replicas == wanted:
                return None
            check_size(group, now.replicas, now.max_size, (expected, wanted))
            return wanted, DELETED, ",".join(one.uid for one in chosen)

        self._change(group, edit)

    def template(self, group: str) -> NodeTemplate | None:
        """Return what annotations say of a new node."""
        found = self._configured(group)
        return None if found is None else group_template(found)

    def price_per_hour(self, group: str) -> float | None:
        """Return the price of an annotation."""
        found = self._configured(group)
        return None if found is None else group_price(found)

    def options(self, group: str) -> GroupOptions:
        """Return the options of annotations."""
        found = self._configured(group)
        return GroupOptions() if found is None else group_options(found)

    def activities(self, group: str) -> Sequence[Activity]:
        """Return a failed one for each Machine that has failed."""
        found = [one for one in self._read()[1] if one.group == group and one.instance.error is not None]
        return [Activity(one.uid, group, True, 0, one.instance.error.message) for one in found if one.instance.error]

    def _delete(self, group: str, machine: Machine) -> None:
        """Delete one Machine. Raises `CloudError`."""
        if not machine.uid:
            raise CloudRefusedError(
                f"node group {group} has no Machines: which instance goes when its replicas are lowered is the choice"
                " of its infrastructure provider"
            )

        def edit(found: MachineGroup) -> tuple[int, str, str] | None:
            if machine.uid in found.done(DELETED):
                return None
            if found.replicas <= found.min_size:
                raise CloudRefusedError(f"node group {group} is at its minimum {found.min_size}")
            return found.replicas - 1, DELETED, machine.uid

        # The first refusal comes before the mark: a marked Machine would go with the next decrease by anybody.
        if edit(self._group(group)) is not None:
            self._mark(machine)
        self._change(group, edit)

    def _mark(self, machine: Machine) -> None:
        """Have the controller prefer this Machine when the replicas are lowered. Raises `CloudError`."""
        path = object_path(f"{self._base}/namespaces", machine.namespace, "machines", machine.name)
        # Only the annotation is written, and only on this Machine: another one of that name has another uid.
        metadata = {"uid": machine.uid, "annotations": {DELETE_MACHINE: "true"}}
        self._patch(path, {"metadata": metadata}, "application/merge-patch+json")

    def _change(self, group: str, edit: Callable[[MachineGroup], tuple[int, str, str] | None]) -> None:
        """Write the size and the note that `edit` gives for the present object, None = nothing. Raises `CloudError`."""
        for _ in range(PATCH_ATTEMPTS):
            found = self._group(group)
            change = edit(found)
            if change is None:
                return
            size, annotation, note = change
            noted = ",".join([*found.done(annotation), *(part for part in note.split(",") if part)][-MOST_NOTED:])
            steps: list[Json] = [
                {"op": "test", "path": "/metadata/resourceVersion", "value": found.version},
                {"op": "add", "path": "/spec/replicas", "value": size},
                {"op": "add", "path": f"/metadata/annotations/{annotation.replace('/', '~1')}", "value": noted},
            ]
            try:
                self._patch(self._path(found), steps, "application/json-patch+json")
            except _ChangedError:
                continue
            return
        raise CloudError(f"node group {group} is written by others all the time")

    def _patch(self, path: str, patch: Json | list[Json], content_type: str) -> None:
        try:
            self._api.call(Call("PATCH", path, body=patch, content_type=content_type))
        except (ConflictError, InvalidError) as error:
            raise _ChangedError(str(error)) from error
        except RefusedError as error:
            raise CloudRefusedError(str(error)) from error
        except ClusterError as error:
            raise CloudError(str(error)) from error

    def _path(self, group: MachineGroup) -> str:
        return object_path(f"{self._base}/namespaces", group.namespace, KINDS[group.kind], group.name)

    def _group(self, group: str) -> MachineGroup:
        """Return one group as it is now. Raises `CloudRefusedError` when it does not exist."""
        found = self._groups().get(group)
        if found is None:
            raise CloudRefusedError(f"node group {group} does not exist")
        return found

    def _configured(self, group: str) -> MachineGroup | None:
        """Return a group with what it configures; its sizes may be old. Raises `CloudError`."""
        kept, now_s = self._kept, self._clock()
        if kept is None or now_s - kept[0] > CONFIGURATION_AGE_S:
            kept = self._kept = now_s, self._groups()
        return kept[1].get(group)

    def _groups(self) -> dict[str, MachineGroup]:
        """Return all groups, by id; one that cannot be read is told, and the others go on. Raises `CloudError`."""
        groups: dict[str, MachineGroup] = {}
        for kind, plural in KINDS.items():
            for item in self._list(plural):
                try:
                    group = read_group(kind, item)
                except ValueError as error:
                    self._tell(f"{kind} {item['metadata'].get('name')}: {error}")
                    continue
                if group is not None:
                    groups[group.id] = group
        return groups

    def _read(self) -> tuple[dict[str, MachineGroup], list[Machine]]:
        """Return all groups by id, and all Machines of groups. Raises `CloudError`."""
        groups = self._groups()
        found = [machine for item in self._list("machines") if (machine := read_machine(item)) is not None]
        found += [one for group in groups.values() for one in instances_without_machine(group, found)]
        with self._lock:
            self._seen |= {one.instance.id: one.group for one in found}
            for key in list(self._seen)[: max(0, len(self._seen) - MOST_SEEN)]:
                del self._seen[key]
        return groups, found

    def _list(self, plural: str) -> Iterable[Json]:
        """Yield the objects of a kind; none where the API server does not know it. Raises `CloudError`."""
        namespace = self._settings.namespace
        place = object_path(f"{self._base}/namespaces", namespace) if namespace else self._base
        page = ""
        while True:
            query = {"limit": str(PAGE)} | ({"continue": page} if page else {})
            if self._settings.cluster:
                query["labelSelector"] = f"{CLUSTER_LABEL}={self._settings.cluster}"
            try:
                answer = self._api.json(Call("GET", f"{place}/{plural}", query))
            except NotFoundError:
                self._tell(f"the API server does not know {plural} of cluster.x-k8s.io/{self._settings.version}")
                return
            except ClusterError as error:
                raise CloudError(str(error)) from error
            yield from answer.get("items") or ()
            page = (answer.get("metadata") or {}).get("continue") or ""
            if not page:
                return

    def _tell(self, problem: str) -> None:
        """Log a problem once."""
        if problem not in self._told:
            self._told.add(problem)
            log.warning("not_read", detail=problem)


class _ChangedError(CloudError):
    """The object has changed since it was read."""


def _by_id(machines: Iterable[Machine]) -> dict[str, Machine]:
    """Return Machines by id of their instances, also by the one from before they had a provider id."""
    found = list(machines)
    return {one.early_id: one for one in found if one.name} | {one.instance.id: one for one in found}


def _view(group: MachineGroup, machines: Iterable[Machine]) -> NodeGroupView:
    """Return a group with its sizes; below its instances without Machine it cannot go, as none can be chosen."""
    of_group = [one for one in machines if one.group == group.id]
    fixed_count = sum(not one.uid for one in of_group)
    min_size = min(group.max_size, max(group.min_size, fixed_count))
    return NodeGroupView(group.id, min_size, group.max_size, group.replicas, len(of_group))
