"""The cloud `kwok`: instances are Node objects, created and deleted after a delay.

Decides what the cloud accepts, how long operations take and which fail; failures are drawn from a seed and can be
repeated. An instance is identified by the `spec.providerID` of its Node, which the cloud writes when it is opened,
where it is missing. The target size is the number of nodes that are not being deleted and of instances that are
starting; so it is always consistent with them. Times are Unix milliseconds, advanced by the steady clock while the
process lives; durations are seconds.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import structlog

from trimtab.actuator.cloud.kwok.groups import KWOK_LABEL, KwokGroup, group_of, load_groups, made_provider_id
from trimtab.actuator.cloud.kwok.ledger import MAX_ENDED, MAX_TOKENS, NAME, ConfigMapLedger, Ending, GroupEntry, Ledger
from trimtab.actuator.cloud.provider import (
    GPU_LABEL,
    Activity,
    CloudError,
    CloudNodeTemplate,
    CloudRefusedError,
    GroupOptions,
    Instance,
    InstanceError,
    InstanceState,
    NodeGroupView,
    check_decrease,
    check_size,
)
from trimtab.actuator.cloud.table import KwokOptions, KwokSettings, LiveCloud, LiveWiring, MachineOptions, Opening
from trimtab.actuator.kube.api import Call, KubeApi
from trimtab.actuator.kube.cluster import ClusterError, ConflictError, NotFoundError, NotLeaderError, RefusedError
from trimtab.actuator.kube.live import StoredNode
from trimtab.actuator.settings import KubeOptions, SettingError
from trimtab.actuator.steady_time import RepeatingThread, SteadyTime
from trimtab.common.kubernetes.api import MERGE_PATCH
from trimtab.common.kubernetes.registry import BY_KIND, User, rules_of

log = structlog.get_logger("kwok")

NODES = BY_KIND["Node"]


class KwokCloud:
    """A `CloudProvider` (see `trimtab.actuator.cloud.provider`)."""

    name = "kwok"
    gpu_label = GPU_LABEL

    def __init__(
        self,
        api: KubeApi,
        groups: Mapping[str, KwokGroup],
        settings: KwokSettings | None = None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._groups = dict(sorted(groups.items()))
        self._settings = settings or KwokSettings()
        self._time = SteadyTime(lambda: int(clock() * 1000), lambda: int(steady() * 1000))
        self._ledger = ConfigMapLedger(api, self._settings.namespace)
        self._start_ms = int(self._settings.node_start_s * 1000)
        self._delete_ms = int(self._settings.instance_delete_s * 1000)
        self._call_count = 0

    def node_groups(self) -> Sequence[NodeGroupView]:
        """Return all node groups, sorted by id."""
        with _cloud_errors():
            ledger, nodes = self._ledger.read(), self._nodes()
        return [_view(group, _entry(ledger, name), nodes[name]) for name, group in self._groups.items()]

    def refresh(self) -> None:
        """Do nothing: every read is of the present."""

    def remember(self, group: str, instances: Sequence[str]) -> None:
        """Do nothing: the ledger knows the instances that have ended."""

    def instances(self, groups: Sequence[str]) -> Mapping[str, Sequence[Instance]]:
        """Return the instances of each group, sorted by id."""
        with _cloud_errors():
            ledger, nodes = self._ledger.read(), self._nodes()
        now_ms = self._time.now_ms()
        return {
            name: _instances(self._groups[name], _entry(ledger, name), nodes[name], now_ms)
            if name in self._groups
            else []
            for name in groups
        }

    def groups_of(self, instances: Sequence[str]) -> Mapping[str, str]:
        """Return the node group of each instance that has one, of starting ones too."""
        with _cloud_errors():
            ledger, found = self._ledger.read(), self._nodes()
        group_by_id = {provider_id: group for group, names in found.items() for provider_id in names.values()}
        starting = (
            (made_provider_id(name, node), name) for name, entry in self._known(ledger) for node in entry.starting
        )
        group_by_id |= dict(starting)
        return {instance: group_by_id[instance] for instance in instances if instance and instance in group_by_id}

    def forget(self, group: str, instances: Sequence[str]) -> None:
        """Do nothing: the ledger knows which nodes are being deleted."""

    def delete_instances(self, group: str, instances: Sequence[str]) -> Mapping[str, CloudError]:
        """Start the deletion of instances."""
        self._fail("delete_instances")
        failed: dict[str, CloudError] = {}

        def edit(ledger: Ledger) -> None:
            failed.clear()
            present, entry = self._nodes(), _entry(ledger, group)
            for instance in instances:
                refusal = self._delete(group, instance, present, entry)
                if refusal:
                    failed[instance] = CloudRefusedError(refusal)

        with _cloud_errors():
            self._ledger.change(edit)
        return failed

    def instance_states(self, group: str, instances: Sequence[str]) -> Mapping[str, InstanceState]:
        """Return the state of each instance."""
        self._fail("instance_states")
        with _cloud_errors():
            # Read nodes first: one that is deleted in between is in the ledger by then.
            present = self._present()
            entry = _entry(self._ledger.read(), group)
            # A node that is there after the ledger says that its instance has ended has come back.
            returned = self._present() if present & set(entry.ended) else frozenset()
        deleting = {ending.provider_id for ending in entry.deleting.values()}
        starting = {made_provider_id(group, name) for name in entry.starting}

        def state(instance: str) -> InstanceState:
            if instance in entry.ended and instance not in returned:
                return InstanceState.GONE
            if instance in deleting:
                return InstanceState.DELETING
            if instance in present:
                return InstanceState.RUNNING
            return InstanceState.CREATING if instance in starting else InstanceState.UNKNOWN

        return {instance: state(instance) for instance in instances}

    def set_size(self, group: str, expected: int, wanted: int, token: str) -> None:
        """Raise the target size once for each token."""
        self._fail("set_size")
        if group not in self._groups:
            raise CloudRefusedError(f"node group {group} does not exist")

        def edit(ledger: Ledger) -> None:
            entry = _entry(ledger, group)
            if token in entry.tokens:
                return
            size = len(_counted(entry, set(self._nodes()[group])))
            check_size(group, size, self._groups[group].max_size, (expected, wanted))
            self._grow(entry, self._groups[group], wanted - expected, token)

        with _cloud_errors():
            self._ledger.change(edit)

    def was_set(self, group: str, wanted: int, token: str) -> bool:
        """Return whether a token was carried out."""
        del wanted
        self._fail("was_set")
        with _cloud_errors():
            return token in _entry(self._ledger.read(), group).tokens

    def decrease_target(self, group: str, expected: int, wanted: int) -> None:
        """Lower the target size by the instances that were requested last and have no node."""
        self._fail("decrease_target")
        if group not in self._groups:
            raise CloudRefusedError(f"node group {group} does not exist")

        def edit(ledger: Ledger) -> None:
            entry, nodes = _entry(ledger, group), self._nodes()[group]
            running_count = len(nodes.keys() - entry.deleting.keys())
            if not check_decrease(_view(self._groups[group], entry, nodes), running_count, (expected, wanted)):
                return
            starting = [name for name in entry.starting if name not in nodes]
            for name in starting[wanted - expected :]:
                self._end_start(group, entry, name)

        with _cloud_errors():
            self._ledger.change(edit)

    def template(self, group: str) -> CloudNodeTemplate | None:
        """Return a new node of a group."""
        return self._groups[group].new_node_template() if group in self._groups else None

    def price_per_hour(self, group: str) -> float | None:
        """Return the price in the group's object."""
        return self._groups[group].price if group in self._groups else None

    def options(self, group: str) -> GroupOptions:
        """Return the options in the group's object."""
        return self._groups[group].options if group in self._groups else GroupOptions()

    def activities(self, group: str) -> Sequence[Activity]:
        """Return a failed one for each instance that does not start."""
        failed = [instance for instance in self.instances([group])[group] if instance.error is not None]
        return [
            Activity(f"start {instance.id}", group, True, 0, instance.error.message)
            for instance in failed
            if instance.error
        ]

    def open(self) -> None:
        """Take over the cloud, and create the initial nodes of new groups. Raises `CloudError`."""

        def edit(ledger: Ledger) -> None:
            now_ms = self._time.now_ms()
            for name, group in self._groups.items():
                if name in ledger.groups:
                    self._bound_due_times(ledger.groups[name], now_ms)
                    continue
                entry = ledger.groups[name] = GroupEntry()
                missing = group.target_size - len(self._nodes()[name])
                if missing > 0:
                    self._grow(entry, group, missing, "initial size")

        with _cloud_errors():
            self._ledger.take_over()
            self._write_provider_ids()
            self._ledger.change(edit)

    def _bound_due_times(self, entry: GroupEntry, now_ms: int) -> None:
        """Bound due times that are too far ahead: the process that wrote them may have had another clock."""
        entry.starting = {node: min(due_ms, now_ms + self._start_ms) for node, due_ms in entry.starting.items()}
        for ending in entry.deleting.values():
            ending.due_ms = min(ending.due_ms, now_ms + self._delete_ms)

    def resync(self) -> None:
        """Create and delete the nodes that are due. Raises `CloudError`."""
        with _cloud_errors():
            ledger = self._ledger.read()
            if not any(entry.starting or entry.deleting for entry in ledger.groups.values()):
                return
            now_ms, nodes = self._time.now_ms(), self._nodes()
            started = {name: self._start(name, entry, set(nodes[name]), now_ms) for name, entry in self._known(ledger)}
            ended = {name: self._end(entry, now_ms) for name, entry in self._known(ledger)}

            def edit(ledger: Ledger) -> None:
                for name, entry in self._known(ledger):
                    entry.starting = {node: due for node, due in entry.starting.items() if node not in started[name]}
                    over = [
                        entry.deleting.pop(node).provider_id for node in sorted(ended[name] & entry.deleting.keys())
                    ]
                    entry.ended = [*entry.ended, *over][-MAX_ENDED:]

            if any(started.values()) or any(ended.values()):
                self._ledger.change(edit)

    def _known(self, ledger: Ledger) -> list[tuple[str, GroupEntry]]:
        return [(name, entry) for name, entry in sorted(ledger.groups.items()) if name in self._groups]

    def _start(self, name: str, entry: GroupEntry, present: set[str], now_ms: int) -> set[str]:
        """Create the nodes that are due while there is capacity; return those that exist now."""
        group, done = self._groups[name], set()
        room = None if group.capacity is None else group.capacity - len(present)
        for node, due_ms in sorted(entry.starting.items()):
            if due_ms == 0 or due_ms > now_ms:
                continue
            if node not in present:
                if room is not None and room < 1:
                    continue
                room = None if room is None else room - 1
                try:
                    self._api.call(Call("POST", NODES.path, body=group.new_node(node)))
                except ConflictError:
                    log.info("node already exists", node=node)
            done.add(node)
        return done

    def _end(self, entry: GroupEntry, now_ms: int) -> set[str]:
        """Delete the nodes that are due; return those that are gone now."""
        done = set()
        for node, ending in sorted(entry.deleting.items()):
            if ending.due_ms > now_ms:
                continue
            try:
                self._api.call(Call("DELETE", NODES.path_of(node)))
            except NotFoundError:
                log.info("node is already gone", node=node)
            done.add(node)
        return done

    def _delete(self, group: str, instance: str, present: Mapping[str, Mapping[str, str]], entry: GroupEntry) -> str:
        """Add one deletion to the ledger; return why it failed, "" = it is there, or there is nothing to delete."""
        if any(ending.provider_id == instance for ending in entry.deleting.values()):
            return ""
        holders = ((holder, node) for holder, names in present.items() for node in names if names[node] == instance)
        starting = ((group, name) for name in entry.starting if made_provider_id(group, name) == instance)
        holder, node = next(holders, next(starting, ("", "")))
        if not holder and instance in entry.ended:
            return ""
        if not holder or not instance:
            return f"the cloud has no instance {instance or 'without provider id'}"
        if holder != group:
            return f"{node} belongs to node group {holder}, not {group}"
        if len(_counted(entry, set(present[group]))) <= self._groups[group].min_size:
            return f"node group {group} is at its minimum {self._groups[group].min_size}"
        entry.starting.pop(node, None)
        entry.deleting[node] = Ending(self._time.now_ms() + self._delete_ms, instance)
        entry.ended = [ended for ended in entry.ended if ended != instance]
        # A name belongs to its instance forever, even if the node existed before this cloud counted names.
        entry.name_count = max(entry.name_count, _number(group, node))
        return ""

    def _end_start(self, group: str, entry: GroupEntry, node: str) -> None:
        """Give up an instance that has no node yet. One that is created at this moment is deleted when that is due."""
        del entry.starting[node]
        entry.deleting[node] = Ending(self._time.now_ms() + self._delete_ms, made_provider_id(group, node))

    def _grow(self, entry: GroupEntry, group: KwokGroup, delta: int, token: str) -> None:
        nodes = self._nodes()
        due_ms = self._time.now_ms() + self._start_ms
        taken = {name for names in nodes.values() for name in names}
        for _ in range(delta):
            entry.name_count += 1
            while f"{group.name}-{entry.name_count}" in taken:
                entry.name_count += 1
            name = f"{group.name}-{entry.name_count}"
            fails = _chance(self._settings.seed, "start", name) < self._settings.start_failure_rate
            entry.starting[name] = 0 if fails else due_ms
        entry.tokens = [*entry.tokens, token][-MAX_TOKENS:]

    def _write_provider_ids(self) -> None:
        """Write the provider id of nodes that have none. Raises `ClusterError`."""
        for group, names in self._nodes().items():
            for node in sorted(name for name, provider_id in names.items() if not provider_id):
                body = {"spec": {"providerID": made_provider_id(group, node)}}
                self._api.call(Call("PATCH", NODES.path_of(node), body=body, content_type=MERGE_PATCH))

    def _present(self) -> frozenset[str]:
        """Return the provider ids of all nodes. Raises `ClusterError`."""
        return frozenset(provider_id for names in self._nodes().values() for provider_id in names.values())

    def _nodes(self) -> dict[str, dict[str, str]]:
        """Return names of the nodes of each group, with their provider ids. Raises `ClusterError`."""
        provider_ids: dict[str, dict[str, str]] = {name: {} for name in self._groups}
        call = Call("GET", NODES.path, {"labelSelector": "=".join(KWOK_LABEL)})
        for node in self._api.objects(call, StoredNode):
            group = group_of(node, self._groups.values())
            if group is not None:
                provider_ids[group][node.metadata.name or ""] = (node.spec and node.spec.provider_id) or ""
        return provider_ids

    def _fail(self, operation: str) -> None:
        """Raise an error as if throttled, as often as the settings require."""
        self._call_count += 1
        if _chance(self._settings.seed, operation, str(self._call_count)) < self._settings.call_failure_rate:
            raise CloudError(f"{operation}: too many requests (as the settings require)")


def _entry(ledger: Ledger, group: str) -> GroupEntry:
    """Return the entry of a group, added to the ledger if there is none."""
    return ledger.groups.setdefault(group, GroupEntry())


def _counted(entry: GroupEntry, nodes: set[str]) -> set[str]:
    """Return the names that the target size counts."""
    return (nodes | entry.starting.keys()) - entry.deleting.keys()


def _view(group: KwokGroup, entry: GroupEntry, nodes: Mapping[str, str]) -> NodeGroupView:
    target_size = len(_counted(entry, set(nodes)))
    return NodeGroupView(group.name, group.min_size, group.max_size, target_size, len(nodes))


def _instances(group: KwokGroup, entry: GroupEntry, nodes: Mapping[str, str], now_ms: int) -> list[Instance]:
    """Return the instances of a group, sorted by id."""
    by_id = {
        provider_id: Instance(provider_id, InstanceState.DELETING if node in entry.deleting else InstanceState.RUNNING)
        for node, provider_id in nodes.items()
        if provider_id
    }
    full = group.capacity is not None and len(nodes) >= group.capacity
    for node, due_ms in entry.starting.items():
        provider_id = made_provider_id(group.name, node)
        error = None
        if due_ms == 0:
            error = InstanceError("StartFailed", f"instance {node} does not start (as the settings require)")
        elif full and due_ms <= now_ms:
            error = InstanceError("CapacityReached", f"node group {group.name} has no capacity for {node}", True)
        by_id.setdefault(provider_id, Instance(provider_id, InstanceState.CREATING, error))
    return sorted(by_id.values(), key=lambda instance: instance.id)


def _number(group: str, node: str) -> int:
    """Return the number in the name of a node, if it is one that a group gives; else 0."""
    digits = node.removeprefix(f"{group}-")
    return int(digits) if digits.isdecimal() and digits.isascii() else 0


def _chance(seed: int, *words: str) -> float:
    """Return a number from 0 to below 1 that depends on nothing but its arguments."""
    digest = hashlib.sha256("/".join((str(seed), *words)).encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


@contextmanager
def _cloud_errors() -> Iterator[None]:
    """Raise errors of the API server as errors of the cloud."""
    try:
        yield
    except RefusedError as error:
        raise CloudRefusedError(str(error)) from error
    except ClusterError as error:
        raise CloudError(str(error)) from error


def wire(opening: Opening) -> LiveWiring:
    """Read the groups. Raises `SettingError`, `ObjectError`."""
    options, namespace = opening.options.of(KwokOptions), opening.options.of(KubeOptions).namespace
    if options.cloud_config is None:
        raise SettingError("--cloud kwok needs --cloud-config, a file of NodeGroup objects")
    groups = load_groups(options.cloud_config)
    machines = opening.options.of(MachineOptions)
    settings = KwokSettings(
        machines.node_start,
        machines.instance_delete,
        options.call_failure_rate,
        options.start_failure_rate,
        options.seed,
        namespace,
    )

    def build(api: KubeApi, may_act: Callable[[], bool]) -> LiveCloud:
        cloud = KwokCloud(api, groups, settings)

        def resync() -> None:
            """Create and delete due nodes while this process leads."""
            try:
                if may_act():
                    cloud.resync()
            except (CloudError, NotLeaderError) as error:
                log.warning("resync failed and will be repeated", detail=str(error))

        resync_loop = RepeatingThread("kwok", resync, settings.poll_s)
        opening.stack.push(resync_loop)

        def prepare() -> None:
            cloud.open()
            resync_loop.start()

        return LiveCloud(cloud, prepare)

    return LiveWiring(rules_of(User.KWOK, namespace, NAME), build)
