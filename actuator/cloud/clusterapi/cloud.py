"""The cloud `clusterapi`: MachineDeployments and MachinePools.

Decides how its calls become patches. A size is changed by one patch that names the version of the object that was read,
and that notes in an annotation why: the uid of a machine that is deleted, the token of a growth. So whether a call was
carried out is read from the object itself, whoever repeats it. Machines are marked for deletion before the size is
lowered by their number, and no further ones before the controller has removed those: it then removes the marked ones,
and no other. A mark that a process left which died before it lowered the size is taken away with the next deletion.
Lists of the API server are of the present, so a Machine that was seen and is not listed is gone.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import structlog

from trimtab.actuator.cloud.clusterapi.objects import (
    CLUSTER_LABEL,
    DELETED,
    GROWN,
    KINDS,
    OUR_MARK,
    GroupMembers,
    MachineGroup,
    MachineView,
    group_options,
    group_price,
    group_template,
    machine_view,
    read_group,
    with_members,
)
from trimtab.actuator.cloud.provider import (
    GPU_LABEL,
    Activity,
    CloudError,
    CloudNodeTemplate,
    CloudRefusedError,
    GroupOptions,
    Instance,
    InstanceState,
    NodeGroupView,
    check_decrease,
    check_size,
)
from trimtab.actuator.cloud.table import ClusterApiOptions, LiveCloud, LiveWiring, Opening
from trimtab.actuator.kube.api import Call, KubeApi, connect
from trimtab.actuator.kube.cluster import ClusterError, ConflictError, InvalidError, NotServedError, RefusedError
from trimtab.actuator.settings import KubeOptions
from trimtab.common.kubernetes.kinds.cluster_api import DELETE_MACHINE, Machine
from trimtab.common.kubernetes.permissions import require
from trimtab.common.kubernetes.registry import BY_KIND, User, rules_of
from trimtab.common.rpc.retries import attempts, with_retries

log = structlog.get_logger("clusterapi")

T = TypeVar("T")
Json = dict[str, Any]
PATCHES: Final = attempts(8, 0.02, 0.5)
# Entries that an annotation of ours keeps.
MOST_NOTED: Final = 100
MOST_SEEN: Final = 100_000
# Template, price and options of each group, and the groups of nodes, are asked for one by one; one list serves all.
CONFIGURATION_AGE_S: Final = 10.0


class ClusterApiCloud:
    """A `CloudProvider` (see `trimtab.actuator.cloud.provider`)."""

    name = "clusterapi"
    gpu_label = GPU_LABEL

    def __init__(
        self, api: KubeApi, settings: ClusterApiOptions | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._settings = settings or ClusterApiOptions()
        version = f"cluster.x-k8s.io/{self._settings.capi_version}"
        self._kinds = {kind: BY_KIND[kind]._replace(api_versions=(version,)) for kind in (*KINDS, "Machine")}
        self._clock = clock
        self._lock = threading.Lock()
        # The groups, for what they configure, and when they were read; None = not kept.
        self._kept: tuple[float, dict[str, MachineGroup]] | None = None
        # The group of each instance, by provider id, and when they were read: a Machine never goes to another group.
        self._owners: tuple[float, dict[str, str]] | None = None
        # Provider id to node group, of Machines that were seen.
        self._seen: dict[str, str] = {}
        self._warned: set[str] = set()

    def refresh(self) -> None:
        """Forget what groups configure, and whose Machines are; every other read is of the present."""
        self._kept = self._owners = None

    def remember(self, group: str, instances: Sequence[str]) -> None:
        """Note that the group had these instances."""
        with self._lock:
            self._seen |= dict.fromkeys(instances, group)

    def node_groups(self) -> Sequence[NodeGroupView]:
        """Return all node groups, sorted by id."""
        return [members.view for _, members in sorted(self._read().items())]

    def groups_of(self, instances: Sequence[str]) -> Mapping[str, str]:
        """Return the node group of each Machine that has one."""
        kept, now_s = self._owners, self._clock()
        if (
            kept is None
            or now_s - kept[0] > CONFIGURATION_AGE_S
            or any(instance not in kept[1] for instance in instances)
        ):
            group_of = {key: group for group, members in self._read().items() for key in _by_id(members)}
            kept = self._owners = now_s, group_of
        return {instance: kept[1][instance] for instance in instances if instance in kept[1]}

    def instances(self, groups: Sequence[str]) -> Mapping[str, Sequence[Instance]]:
        """Return the Machines of each group, sorted by provider id."""
        known = self._read()
        listed = {
            group: [machine.instance for machine in known[group].machines] if group in known else [] for group in groups
        }
        return {group: sorted(members, key=lambda member: member.id) for group, members in listed.items()}

    def instance_states(self, group: str, instances: Sequence[str]) -> Mapping[str, InstanceState]:
        """Return the state of each Machine; where the group is none any more, its Machines may well run."""
        members = self._read().get(group)
        present = {} if members is None else _by_id(members)
        return {
            instance: present[instance].instance.state
            if instance in present
            else InstanceState.GONE
            if members is not None and self._had(group, instance)
            else InstanceState.UNKNOWN
            for instance in instances
        }

    def forget(self, group: str, instances: Sequence[str]) -> None:
        """Do nothing: Machines are deleted by uid."""

    def delete_instances(self, group: str, instances: Sequence[str]) -> Mapping[str, CloudError]:
        """Mark Machines for deletion and lower the replicas by their number, in one step for all."""
        members = self._members(group)
        machines = _by_id(members)
        failed: dict[str, CloudError] = {}
        chosen: dict[str, MachineView] = {}
        room = members.group.replicas - members.group.min_size
        for instance in dict.fromkeys(instances):
            machine = machines.get(instance)
            if machine is None and self._had(group, instance):
                continue
            if machine is None:
                failed[instance] = CloudRefusedError(f"node group {group} has no machine {instance}")
            elif machine.instance.state is InstanceState.DELETING:
                continue
            elif not machine.uid:
                failed[instance] = _not_by_name(group)
            elif len(chosen) >= room:
                failed[instance] = CloudRefusedError(f"node group {group} is at its minimum {members.group.min_size}")
            elif len(chosen) == MOST_NOTED:
                failed[instance] = CloudError(f"node group {group}: other machines are deleted first")
            else:
                chosen[instance] = machine
        try:
            refused = self._remove(members, list(chosen.values())) if chosen else {}
        except CloudError as error:
            return failed | dict.fromkeys(chosen, error)
        return failed | {
            instance: refused[machine.uid] for instance, machine in chosen.items() if machine.uid in refused
        }

    def set_size(self, group: str, expected: int, wanted: int, token: str) -> None:
        """Raise the replicas once for each token."""

        def edit(present: MachineGroup) -> tuple[int, str, str] | None:
            if token in present.done(GROWN):
                return None
            check_size(group, present.replicas, present.max_size, (expected, wanted))
            return wanted, GROWN, token

        self._change(group, edit)

    def was_set(self, group: str, wanted: int, token: str) -> bool:
        """Return whether a token was carried out."""
        del wanted
        return token in self._group(group).done(GROWN)

    def decrease_target(self, group: str, expected: int, wanted: int) -> None:
        """Lower the replicas by Machines that do not run; those that exist are marked for deletion first."""
        members = self._members(group)
        staying = members.staying
        starting = [machine for machine in staying if machine.instance.state is InstanceState.CREATING]
        if not check_decrease(members.view, len(staying) - len(starting), (expected, wanted)):
            return
        surplus = max(0, len(staying) - wanted)
        chosen = sorted(starting, key=lambda machine: machine.name)[len(starting) - surplus :]
        for error in self._mark_only(members, chosen).values():
            raise error

        def edit(now: MachineGroup) -> tuple[int, str, str] | None:
            if now.replicas == wanted:
                return None
            check_size(group, now.replicas, now.max_size, (expected, wanted))
            return wanted, DELETED, ",".join(machine.uid for machine in chosen)

        self._change(group, edit)

    def template(self, group: str) -> CloudNodeTemplate | None:
        """Return what annotations say of a new node."""
        configured = self._configured(group)
        return None if configured is None else group_template(configured)

    def price_per_hour(self, group: str) -> float | None:
        """Return the price of an annotation."""
        configured = self._configured(group)
        return None if configured is None else group_price(configured)

    def options(self, group: str) -> GroupOptions:
        """Return the options of annotations."""
        configured = self._configured(group)
        return GroupOptions() if configured is None else group_options(configured)

    def activities(self, group: str) -> Sequence[Activity]:
        """Return a failed one for each Machine that has failed."""
        members = self._read().get(group)
        machines = () if members is None else members.machines
        return [
            Activity(machine.uid, group, True, 0, machine.instance.error.message)
            for machine in machines
            if machine.instance.error
        ]

    def _remove(self, members: GroupMembers, chosen: Sequence[MachineView]) -> Mapping[str, CloudRefusedError]:
        """Have the controller remove these Machines; return those that it may not, by uid. Raises `CloudError`."""
        group = members.group.id
        # A Machine that was named before, and stays all the same, is named once more.
        before = Counter(members.group.done(DELETED))
        refused = self._mark_only(members, chosen)
        marked = [machine.uid for machine in chosen if machine.uid not in refused]

        def edit(now: MachineGroup) -> tuple[int, str, str] | None:
            noted = Counter(now.done(DELETED))
            left = [uid for uid in marked if noted[uid] <= before[uid]]
            if now.replicas - len(left) < now.min_size:
                raise CloudRefusedError(f"node group {group} is at its minimum {now.min_size}")
            return (now.replicas - len(left), DELETED, ",".join(left)) if left else None

        self._change(group, edit)
        return refused

    def _mark_only(self, members: GroupMembers, chosen: Sequence[MachineView]) -> Mapping[str, CloudRefusedError]:
        """Have the controller prefer these Machines, and none that was marked by us and not removed; return those that
        the API server refuses, by uid. Raises `CloudError`: any may be marked, and the replicas must not be lowered.
        """
        if members.waiting:
            # It would remove these or the earlier ones, in any order.
            raise CloudError(f"node group {members.group.id}: machines released before have not been removed yet")
        uids = {machine.uid for machine in chosen}
        for machine in members.staying:
            if machine.uid not in uids and machine.is_ours:
                self._mark(machine, None)
        refused = {}
        for machine in chosen:
            try:
                self._mark(machine, OUR_MARK)
            except CloudRefusedError as error:
                refused[machine.uid] = error
        return refused

    def _mark(self, machine: MachineView, mark: str | None) -> None:
        """Write or remove the mark for which a Machine goes first when the replicas are lowered. Raises
        `CloudError`.
        """
        path = self._kinds["Machine"].path_in(machine.namespace, machine.name)
        # Only the annotation is written, and only on this Machine: another one of that name has another uid.
        metadata = {"uid": machine.uid, "annotations": {DELETE_MACHINE: mark}}
        self._patch(path, {"metadata": metadata}, "application/merge-patch+json")

    def _change(self, group: str, edit: Callable[[MachineGroup], tuple[int, str, str] | None]) -> None:
        """Write the size and the note that `edit` gives for the present object, None = nothing. Raises `CloudError`."""

        def attempt() -> None:
            present = self._group(group)
            change = edit(present)
            if change is None:
                return
            size, annotation, note = change
            noted = ",".join([*present.done(annotation), *(part for part in note.split(",") if part)][-MOST_NOTED:])
            steps: list[Json] = [
                {"op": "test", "path": "/metadata/resourceVersion", "value": present.version},
                {"op": "add", "path": "/spec/replicas", "value": size},
                {"op": "add", "path": f"/metadata/annotations/{annotation.replace('/', '~1')}", "value": noted},
            ]
            self._patch(self._path(present), steps, "application/json-patch+json")

        try:
            with_retries(attempt, lambda error: PATCHES if isinstance(error, _ChangedError) else None)
        except _ChangedError as error:
            message = f"node group {group} is constantly modified by other clients, or refuses the change: {error}"
            raise CloudError(message) from error

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
        return self._kinds[group.kind].path_in(group.namespace, group.name)

    def _group(self, group: str) -> MachineGroup:
        """Return one group as it is now. Raises `CloudRefusedError` when it does not exist."""
        machine_group = self._groups().get(group)
        if machine_group is None:
            raise CloudRefusedError(f"node group {group} does not exist")
        return machine_group

    def _configured(self, group: str) -> MachineGroup | None:
        """Return a group with what it configures; its sizes may be old. Raises `CloudError`."""
        kept, now_s = self._kept, self._clock()
        if kept is None or now_s - kept[0] > CONFIGURATION_AGE_S:
            kept = self._kept = now_s, self._groups()
        return kept[1].get(group)

    def _groups(self) -> dict[str, MachineGroup]:
        """Return all groups, by id; one that cannot be read is logged and left out. Raises `CloudError`."""
        groups: dict[str, MachineGroup] = {}
        for kind in KINDS:
            for item in self._list(kind, dict[str, Any], may_be_unknown=True):
                try:
                    group = read_group(kind, item)
                except ValueError as error:
                    self._warn_once(f"{kind} {item['metadata'].get('name')}: {error}")
                    continue
                if group is not None:
                    groups[group.id] = group
        return groups

    def _members(self, group: str) -> GroupMembers:
        """Return one group with its Machines. Raises `CloudRefusedError` when it does not exist, `CloudError`."""
        members = self._read().get(group)
        if members is None:
            raise CloudRefusedError(f"node group {group} does not exist")
        return members

    def _read(self) -> dict[str, GroupMembers]:
        """Return all groups with their Machines, by id. Raises `CloudError`."""
        groups = self._groups()
        # An API server that starts may not know a kind for a moment: Machines of groups that it knows are not gone.
        listed = map(machine_view, self._list("Machine", Machine, may_be_unknown=not groups))
        machines = (machine for machine in listed if machine is not None)
        by_group = with_members(groups.values(), machines)
        with self._lock:
            for group, members in by_group.items():
                self._seen |= dict.fromkeys((machine.instance.id for machine in members.machines), group)
            for key in list(self._seen)[: max(0, len(self._seen) - MOST_SEEN)]:
                del self._seen[key]
        return by_group

    def _had(self, group: str, instance: str) -> bool:
        with self._lock:
            return self._seen.get(instance) == group

    def _list(self, kind: str, struct: type[T], may_be_unknown: bool) -> Iterable[T]:
        """Yield the objects of a kind; none where the API server does not know it and may. Raises `CloudError`."""
        resource, settings = self._kinds[kind], self._settings
        path = resource.path_in(settings.capi_namespace) if settings.capi_namespace else resource.path
        query = {"labelSelector": f"{CLUSTER_LABEL}={settings.capi_cluster}"} if settings.capi_cluster else {}
        try:
            yield from self._api.objects(Call("GET", path, query), struct)
        except NotServedError as error:
            problem = f"the API server does not know {resource.plural} of {resource.api_version}"
            if not may_be_unknown:
                raise CloudError(f"{problem} at present: {error}") from error
            self._warn_once(problem)
        except ClusterError as error:
            raise CloudError(str(error)) from error

    def _warn_once(self, problem: str) -> None:
        """Log a problem once."""
        if problem not in self._warned:
            self._warned.add(problem)
            log.warning("not_read", detail=problem)


class _ChangedError(CloudError):
    """The object has changed since it was read."""


def _by_id(members: GroupMembers) -> dict[str, MachineView]:
    """Return Machines by id of their instances, also by the one from before they had a provider id. Of two with the
    same one, such as on a host that is used again, that which stays.
    """
    early = {machine.early_id: machine for machine in members.machines if machine.name}
    deleting_first = sorted(members.machines, key=lambda one: one.instance.state is not InstanceState.DELETING)
    return early | {machine.instance.id: machine for machine in deleting_first}


def _not_by_name(group: str) -> CloudRefusedError:
    return CloudRefusedError(
        f"node group {group} has no Machines: its infrastructure provider chooses which instance goes when "
        "replicas decrease"
    )


def wire(opening: Opening) -> LiveWiring:
    """Connect to the management cluster, if it is another one. Raises `ClusterError`, `ValueError`."""
    settings = opening.options.of(ClusterApiOptions)
    settings.check()
    rules = rules_of(User.CLUSTER_API, settings.capi_namespace)
    management: KubeApi | None = None
    if settings.capi_kubeconfig is not None:
        management = connect(settings.capi_kubeconfig, "", opening.options.of(KubeOptions).call_timeout())
        opening.stack.callback(management.close)
        require(management.http, rules)

    def build(api: KubeApi, may_act: Callable[[], bool]) -> LiveCloud:
        del may_act
        if management is not None:
            management.http.guard = api.http.guard
        cloud = ClusterApiCloud(management or api, settings)

        def prepare() -> None:
            cloud.node_groups()

        return LiveCloud(cloud, prepare)

    return LiveWiring(rules if management is None else (), build)
