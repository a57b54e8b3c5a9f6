"""Upkeep of node groups: backs off groups whose nodes do not join, deletes instances that never register. Decides when
a group has waited long enough, and what follows:

- A group is backed off if it has wanted more nodes than have joined for longer than a node may take. Its target size is
  lowered, by instances that have not started, to one more than the nodes that have joined: the group tries one node,
  and planners leave it alone until that node joins (`Backoff.UNTIL_JOINED`), or for some minutes
  (`Backoff.EXPONENTIAL`, without the extra node). This is so whoever raised the target, and also after a restart.
- An instance that runs without Node object for as long is deleted through the journal, never below the minimum and
  within the hourly limits; a backed-off group then gets another one in its place. If many instances have no Node
  object, none is deleted: more likely, the ids of cloud and cluster do not match.

Where another autoscaler sets the sizes (`GroupSettings.sized_by_caller`), it has requested every instance and counts on
it: no target size is changed, and only instances that the cloud reports as failed are deleted, if they are still there
when the time of a node is up.

A node has joined once it was ready without a startup taint. A decision is durable before it is carried out, and each
action is compared with the state of the cloud, so a repetition changes nothing more. Seconds, unless named.
Source: CA, clusterstate (time-outs, `fixNodeGroupSize`, `removeOldUnregisteredNodes`); the Zalando fork of it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import structlog

from trimtab.actuator.cloud.provider import CloudError, CloudProvider, Instance, InstanceState, NodeGroupView
from trimtab.actuator.kube.cluster import ClusterApi, NodeView
from trimtab.actuator.node_groups.resource_learner import NodeResourceLearner, is_started
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.runner.ordered_machines import nodes_by_provider_id
from trimtab.actuator.settings import BackoffPolicy, GroupSettings
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.admission import DeletionLimits, GroupSizeFacts, hourly_limit
from trimtab.actuator.tracker.groups import FAILED_START, KEPT, REGISTRATION, REPLACEMENT, count_nodes
from trimtab.actuator.tracker.states import Deletion, GroupGrowth, State, TrackerData
from trimtab.actuator.tracker.tracker import Tracker

log = structlog.get_logger("groups")

# If more instances than this, and a larger share of the running ones, have no Node object, none is deleted.
# Source: CA, `--ok-total-unready-count`, `--max-total-unready-percentage`.
OK_MISSING_COUNT: Final = 3
MAX_MISSING_SHARE: Final = 0.45
# Longest time without reading the nodes: one may vanish while its instance runs.
LOOK_MS: Final = 60_000
# Pause before a replacement that the cloud has refused is requested again.
REPLACE_AGAIN_MS: Final = 300_000


class _OpenMatters(NamedTuple):
    """Open matters, by group but for `unregistered`. Times are Unix milliseconds.

    awaited : since when nodes are awaited; replacement_pending : whether a back-off lacks its node; unregistered : the
    group of each instance without Node, by provider id; backed_off : since when the group is
    """

    awaited: Mapping[str, int]
    replacement_pending: Mapping[str, bool]
    unregistered: Mapping[str, str]
    backed_off: Mapping[str, int]


class _ObservedGroups(NamedTuple):
    """State of cloud and cluster: groups, their instances that are not being deleted, `nodes` by provider id."""

    groups: Mapping[str, NodeGroupView]
    instances: Mapping[str, Sequence[Instance]]
    nodes: Mapping[str, NodeView]


class NodeGroupReconciler:
    """Backs off groups and deletes instances that never register, in steps."""

    def __init__(
        self,
        processor: EventProcessor,
        cluster: ClusterApi,
        cloud: CloudProvider,
        settings: GroupSettings,
        limits: Callable[[], DeletionLimits],
    ) -> None:
        """Begin with nothing read. limits : the present ones, read for each deletion."""
        self._processor = processor
        self._cluster = cluster
        self._cloud = cloud
        self._settings = settings
        self._limits = limits
        self._learner = NodeResourceLearner(processor, cloud, settings.not_ready_taints)
        # Provider ids of instances whose node was ready once, with its uid ("" = it is gone); None = nothing was read
        # yet. A machine that came back under the id of an earlier one has another node.
        self._joined: dict[str, str] | None = None
        # The groups when there was last nothing to do, and until when that may be assumed.
        self._last_idle: list[NodeGroupView] | None = None
        self._look_ms = 0

    def step(self) -> None:
        """Look, decide, act. Raises `CloudError`, `ClusterError`, `StoreError`, `NotLeaderError`."""
        groups = list(self._cloud.node_groups())
        known = self._processor.read(_open_matters)
        if groups == self._last_idle and not any(known) and self._processor.steady_ms() < self._look_ms:
            return
        self._look_ms = self._processor.steady_ms() + LOOK_MS
        seen = self._look(groups)
        self._learner.learn(seen.instances, seen.nodes)
        self._count_nodes(seen)
        joined = self._note_joined(seen, known)
        self._last_idle = groups if not any(known) else None
        for group in sorted(known.awaited.keys() | known.backed_off.keys()):
            if group not in seen.groups:
                self._processor.submit(e.NodesJoined(group))
                self._processor.submit(e.GroupRecovered(group))
        # An instance that has just been noted is not due yet.
        lacking = set(known.unregistered.values()) if self._note_unregistered(seen, known) else set()
        for view in groups:
            try:
                if view.target_size > joined[view.id]:
                    self._last_idle = None
                self._reconcile(view, joined[view.id], known)
                if self._settings.sized_by_caller:
                    self._delete_failed(view, seen, known)
                elif view.id in lacking:
                    self._delete_unregistered(view, seen)
            except CloudError as error:
                log.warning("group_not_reconciled", node_group=view.id, detail=str(error))

    def _look(self, groups: Sequence[NodeGroupView]) -> _ObservedGroups:
        instances = self._cloud.instances([view.id for view in groups])
        staying = {
            group: [member for member in members if member.state is not InstanceState.DELETING]
            for group, members in instances.items()
        }
        # Read after the instances: a node listed here has registered by then.
        nodes = nodes_by_provider_id(self._cluster)
        return _ObservedGroups({view.id: view for view in groups}, staying, nodes)

    def _count_nodes(self, seen: _ObservedGroups) -> None:
        """Record how many nodes have registered, for the share of them that may be deleted within an hour."""
        found = (seen.nodes.get(member.id) for members in seen.instances.values() for member in members)
        names = {node.name for node in found if node is not None}

        def proposal(tracker: Tracker, now_ms: int) -> e.Event | None:
            counts, count = tracker.data.node_counts, count_nodes(tracker.data, names, now_ms)
            return None if counts and counts[-1].count == count else e.NodesCounted(count)

        self._processor.propose(proposal)

    def _note_joined(self, seen: _ObservedGroups, known: _OpenMatters) -> dict[str, int]:
        """Return how many nodes of each group have joined. Whether a node from before this process started was ever
        ready is not known: it counts, unless its group waits for a node.
        """
        is_first, before = self._joined is None, self._joined or {}
        old_ms = self._processor.now_ms() - int(self._settings.max_node_provision_s * 1000)
        joined: dict[str, str] = {}
        counts: dict[str, int] = {}
        for group, members in seen.instances.items():
            counts_old = is_first and group not in known.backed_off
            for member in members:
                node = seen.nodes.get(member.id)
                is_old = counts_old and node is not None and 0 < node.created_ms < old_ms
                uid = "" if node is None else node.uid
                had_joined = member.id in before and (not uid or before[member.id] in ("", uid))
                if had_joined or is_old or self._has_started(node):
                    joined[member.id] = uid or before.get(member.id, "")
                    counts[group] = counts.get(group, 0) + 1
        self._joined = joined
        return {group: counts.get(group, 0) for group in seen.groups}

    def _has_started(self, node: NodeView | None) -> bool:
        return node is not None and is_started(node, self._settings.not_ready_taints)

    def _reconcile(self, view: NodeGroupView, joined: int, known: _OpenMatters) -> None:
        """Note awaited nodes; back off the group when its time is up; end its back-off. Raises `CloudError`."""
        group, since_ms = view.id, known.awaited.get(view.id)
        if group in known.backed_off:
            self._reconcile_backed_off(view, joined, known.replacement_pending[group])
        elif view.target_size <= joined:
            if since_ms is not None:
                self._propose_if_awaited(group, since_ms, e.NodesJoined(group))
        elif since_ms is None:
            self._processor.submit(e.NodesAwaited(group))
        elif self._processor.now_ms() - since_ms > self._provision_s(group) * 1000:
            self._time_out(view, joined, since_ms)

    def _time_out(self, view: NodeGroupView, joined: int, since_ms: int) -> None:
        group = view.id
        waited_s = self._provision_s(group)
        detail = f"{view.target_size - joined} of {view.target_size} nodes have not joined within {waited_s:g} s"
        is_exponential = self._settings.backoff is BackoffPolicy.EXPONENTIAL
        make = e.GroupFailed if is_exponential else e.GroupBackedOff
        if self._propose_if_awaited(group, since_ms, make(group, f"timeout/{since_ms}", detail)):
            log.warning("group_timed_out", node_group=group, detail=detail)
            self._lower(view, joined + (not is_exponential))

    def _propose_if_awaited(self, group: str, since_ms: int, event: e.Event) -> bool:
        """Record an event unless the group has grown again meanwhile; return whether it was recorded."""

        def proposal(tracker: Tracker, _now_ms: int) -> e.Event | None:
            return event if tracker.data.awaited.get(group) == since_ms else None

        return self._processor.propose(proposal) is not None

    def _reconcile_backed_off(self, view: NodeGroupView, joined: int, replacement_pending: bool) -> None:
        """Keep the target size one above the number of nodes that have joined, until that node joins."""
        group = view.id
        if self._settings.backoff is BackoffPolicy.EXPONENTIAL:
            # The strategy was changed: no group waits for its node any longer.
            self._processor.submit(e.GroupRecovered(group))
        elif replacement_pending and not self._settings.sized_by_caller:
            self._replace(view, joined)
        elif view.target_size <= joined:
            self._processor.submit(e.GroupRecovered(group))
            log.info("group_recovered", node_group=group)
        else:
            self._lower(view, joined + 1)

    def _replace(self, view: NodeGroupView, joined: int) -> None:
        """Request an instance in place of one that never registered, once that one's deletion is over."""
        group = view.id

        def proposal(tracker: Tracker, now_ms: int) -> e.Event | None:
            data = tracker.data
            if any(deletion.request_id.startswith(REGISTRATION) for deletion in _deletions_of(data, group)):
                return None
            if view.target_size > joined:
                return e.GroupBackedOff(group, f"{KEPT}{data.revision}", data.backoffs[group].detail)
            asked = [growth for name, growth in data.growths.items() if name.startswith(REPLACEMENT)]
            if any(
                growth.growths[0].node_group == group and now_ms - growth.time_ms < REPLACE_AGAIN_MS for growth in asked
            ):
                return None
            growth = GroupGrowth(group, view.target_size, joined + 1)
            return e.GrowthRequested(f"{REPLACEMENT}{data.revision}", f"{group}+1", (growth,))

        self._processor.propose(proposal)

    def _lower(self, view: NodeGroupView, wanted: int) -> None:
        """Lower the target size by instances that have not started, unless another autoscaler sets it. Raises
        `CloudError`.
        """
        wanted = max(view.min_size, wanted)
        if view.target_size <= wanted or self._settings.sized_by_caller:
            return
        self._processor.check_leading()
        self._cloud.decrease_target(view.id, view.target_size, wanted)
        log.info("target_lowered", node_group=view.id, size=wanted)

    def _note_unregistered(self, seen: _ObservedGroups, known: _OpenMatters) -> bool:
        """Note which instances run without Node object; return whether they are few enough to delete."""
        running = {
            member.id: group
            for group, members in seen.instances.items()
            for member in members
            if member.state is InstanceState.RUNNING
        }
        lacking = {instance: group for instance, group in running.items() if instance not in seen.nodes}
        new = sorted(lacking.keys() - known.unregistered.keys())
        unregistered = tuple((lacking[instance], instance) for instance in new)
        settled = tuple(sorted(known.unregistered.keys() - lacking.keys()))
        if unregistered or settled:
            self._processor.submit(e.RegistrationNoted(unregistered, settled))
            self._last_idle = None
        if len(lacking) > max(OK_MISSING_COUNT, MAX_MISSING_SHARE * len(running)):
            log.warning("many_instances_without_node", count=len(lacking), running=len(running))
            return False
        return True

    def _delete_unregistered(self, view: NodeGroupView, seen: _ObservedGroups) -> None:
        """Delete the instances of a group that have run without Node object for too long."""
        longest_ms = int(self._provision_s(view.id) * 1000)

        def due(data: TrackerData, now_ms: int) -> list[str]:
            return [
                instance
                for instance, unregistered in sorted(data.unregistered.items())
                if unregistered.node_group == view.id and now_ms - unregistered.since_ms > longest_ms
            ]

        names = self._delete(view, seen, REGISTRATION, due)
        if names:
            log.warning("instances_never_registered", node_group=view.id, instances=names)

    def _delete_failed(self, view: NodeGroupView, seen: _ObservedGroups, known: _OpenMatters) -> None:
        """Delete the instances of a group that the cloud cannot start, once the time of a node is up."""
        failed = [instance.id for instance in seen.instances.get(view.id, ()) if instance.error is not None]
        since_ms = known.backed_off.get(view.id, known.awaited.get(view.id))
        longest_ms = int(self._provision_s(view.id) * 1000)
        if not failed or since_ms is None or self._processor.now_ms() - since_ms <= longest_ms:
            return

        def due(data: TrackerData, now_ms: int) -> list[str]:
            # One that the cloud did not delete is not requested again at once.
            tried = {
                deletion.provider_id
                for deletion in data.finished
                if deletion.state is not State.DELETED and now_ms - deletion.state_ms <= longest_ms
            }
            return [instance for instance in failed if instance not in tried]

        names = self._delete(view, seen, FAILED_START, due)
        if names:
            log.warning("failed_instances_deleted", node_group=view.id, instances=names)

    def _delete(
        self, view: NodeGroupView, seen: _ObservedGroups, prefix: str, due: Callable[[TrackerData, int], list[str]]
    ) -> list[str]:
        """Record the deletion of the instances that are due, within the minimum and the hourly limits; return them."""
        limits = self._limits()
        facts = {group: GroupSizeFacts(view.min_size, view.target_size) for group, view in seen.groups.items()}

        def proposal(tracker: Tracker, now_ms: int) -> e.Event | None:
            data = tracker.data
            leaving = _deletions_of(data, view.id)
            busy = {deletion.node for deletion in leaving} | {deletion.provider_id for deletion in leaving}
            room = view.target_size - view.min_size - sum(not deletion.target_reduced for deletion in leaving)
            hour = hourly_limit(data, facts, limits, now_ms)
            if hour.most is not None:
                room = min(room, hour.most - hour.counted)
            planned = [_planned(view.id, instance) for instance in due(data, now_ms)]
            chosen = [node for node in planned if node.node not in busy and node.provider_id not in busy]
            if not chosen or room < 1:
                return None
            return e.InstancesAccepted(f"{prefix}{data.revision}", tuple(chosen[:room]))

        event = self._processor.propose(proposal)
        return [node.provider_id for node in event.nodes] if isinstance(event, e.InstancesAccepted) else []

    def _provision_s(self, group: str) -> float:
        """Return how long a node of a group may take to join. Raises `CloudError`."""
        try:
            own = self._cloud.options(group).max_node_provision_s
        except ValueError as error:
            log.warning("group_not_read", node_group=group, detail=str(error))
            own = None
        return self._settings.max_node_provision_s if own is None else own


def _open_matters(tracker: Tracker, _now_ms: int) -> _OpenMatters:
    data = tracker.data
    return _OpenMatters(
        dict(data.awaited),
        {group: backoff.replacement_pending for group, backoff in data.backoffs.items()},
        {instance: unregistered.node_group for instance, unregistered in data.unregistered.items()},
        {group: backoff.since_ms for group, backoff in data.backoffs.items()},
    )


def _deletions_of(data: TrackerData, group: str) -> list[Deletion]:
    return [deletion for deletion in data.deletions.values() if deletion.node_group == group]


def _planned(group: str, instance: str) -> e.PlannedNode:
    """Return the deletion of an instance without Node object. Its whole id serves as the name, as for the Cluster
    Autoscaler: the last part, such as "0", may be that of several instances.
    """
    return e.PlannedNode(instance, group, drain=False, provider_id=instance)
