"""What a replacement waits for (new instances of node groups, and their nodes), and its end: soft taints are removed,
ordered nodes that have not started are given up, late ones are found. Decides what is left to do; `task` deletes the
new nodes that serve nothing.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from trimtab.actuator.cloud.provider import CloudProvider, CloudRefusedError, Instance, InstanceState
from trimtab.actuator.kube.cluster import ClusterApi, NotFoundError
from trimtab.actuator.node_groups.resource_learner import is_started
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.runner.ordered_machines import nodes_by_provider_id
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.events import ReadyNode
from trimtab.actuator.tracker.replacement_states import (
    LeavingState,
    NewNode,
    NewNodeState,
    TrackedReplacement,
    WaveStage,
)
from trimtab.actuator.tracker.replacement_transitions import is_over
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.common.kubernetes.names import SOFT_TAINT_KEY


class NewInstances(NamedTuple):
    """The new instances of the groups from which nodes are awaited, by group. `ready` : nodes that serve nothing yet;
    `failed` : instances that the cloud cannot start, as messages; `started`, `starting` : how many of the other
    instances have started, and how many have not.
    """

    ready: Mapping[str, Sequence[ReadyNode]]
    failed: Mapping[str, Sequence[str]]
    started: Mapping[str, int]
    starting: Mapping[str, int]


class ReplacementLook:
    """Reads cloud and cluster for replacements. Raises `CloudError`, `ClusterError`."""

    def __init__(self, cluster: ClusterApi, cloud: CloudProvider, not_ready_taints: Sequence[str]) -> None:
        self._cluster, self._cloud, self._not_ready_taints = cluster, cloud, not_ready_taints

    def new_instances(self, replacement: TrackedReplacement, groups: Collection[str]) -> NewInstances:
        """Return the new instances of these groups."""
        known = {node.provider_id for node in replacement.ordered_nodes if node.provider_id}
        found: dict[str, list[Instance]] = {}
        for group, instances in self._cloud.instances(sorted(groups)).items():
            before = {*replacement.members.get(group, ()), *known}
            staying = (one for one in instances if one.state is not InstanceState.DELETING)
            found[group] = [one for one in staying if one.id not in before]
        running = any(one.state is InstanceState.RUNNING for instances in found.values() for one in instances)
        nodes = nodes_by_provider_id(self._cluster) if running else {}
        ready: dict[str, list[ReadyNode]] = {}
        failed: dict[str, list[str]] = {}
        others: dict[bool, dict[str, int]] = {False: {}, True: {}}
        for group, instances in found.items():
            for one in instances:
                node = nodes.get(one.id)
                if one.error is not None:
                    failed.setdefault(group, []).append(f"{one.error.code} {one.error.message}".strip())
                elif node is not None and is_started(node, self._not_ready_taints):
                    ready.setdefault(group, []).append(ReadyNode(group, node.name, one.id))
                else:
                    counts = others[one.state is InstanceState.CREATING]
                    counts[group] = counts.get(group, 0) + 1
        return NewInstances(ready, failed, started=others[False], starting=others[True])

    def lost(self, replacement: TrackedReplacement) -> list[NewNode]:
        """Return the ready new nodes that no longer exist or are no longer ready."""
        serving = [node for node in replacement.new_nodes if node.state is NewNodeState.READY]
        if not serving:
            return []
        nodes = {node.name: node for node in self._cluster.list_nodes()}
        return [
            one
            for one in serving
            if one.node not in nodes
            or nodes[one.node].provider_id != one.provider_id
            or not is_started(nodes[one.node], self._not_ready_taints)
        ]

    def members(self, groups: Collection[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the instances of groups, as an order records them."""
        found = self._cloud.instances(sorted(groups))
        return tuple((group, tuple(one.id for one in instances)) for group, instances in sorted(found.items()))


class Rollback:
    """Rolls one replacement back, in steps."""

    def __init__(
        self, processor: EventProcessor, cluster: ClusterApi, cloud: CloudProvider, look: ReplacementLook
    ) -> None:
        self._processor, self._cluster, self._cloud, self._look = processor, cluster, cloud, look

    def step(self, seen: TrackedReplacement) -> bool:
        """Do the next thing, but no deletions; return whether there was one. Raises `ClusterError`, `CloudError`."""
        if not seen.unmarked:
            self._unmark(seen)
            return True
        if seen.order_open:
            return False
        ordered: dict[str, int] = {}
        for node in seen.ordered_nodes:
            if node.state is NewNodeState.ORDERED:
                ordered[node.node_group] = ordered.get(node.node_group, 0) + 1
        for group, count in sorted(ordered.items()):
            if group not in seen.lowered:
                self._lower(seen, group, count)
                return True
        if ordered and self._find_late(seen, ordered):
            return True
        if not is_over(seen):
            return False
        self._record(seen, e.ReplacementEnded(seen.request_id))
        return True

    def _record(self, seen: TrackedReplacement, event: e.Event) -> None:
        """Record an event, unless the replacement has ended meanwhile."""
        self._processor.propose(_in_rollback(seen, event))

    def _unmark(self, seen: TrackedReplacement) -> None:
        for one in seen.leaving:
            if one.state is LeavingState.GONE:
                continue
            try:
                self._cluster.remove_taint(one.plan.node, SOFT_TAINT_KEY)
            except NotFoundError:
                continue
        self._record(seen, e.LeavingUnmarked(seen.request_id))

    def _lower(self, seen: TrackedReplacement, group: str, count: int) -> None:
        """Lower the size of a group by the nodes that were ordered and have not started: first record the sizes."""
        change = seen.lowering.get(group)
        if change is None:
            self._record(seen, self._lowering(seen, group, count))
            return
        given_up, detail = change.expected - change.wanted, "given up before it started"
        try:
            self._cloud.decrease_target(group, change.expected, change.wanted)
        except CloudRefusedError as error:
            # A repetition might lower the size twice.
            given_up, detail = 0, str(error)
        self._record(seen, e.LoweringEnded(seen.request_id, group, given_up, detail))

    def _lowering(self, seen: TrackedReplacement, group: str, count: int) -> e.Event:
        """Return from which size to which one a group is to be lowered, or that it is not."""
        if self._processor.read(lambda tracker, _: group in tracker.data.backoffs):
            return e.LoweringEnded(seen.request_id, group, count, "the group is backed off; its upkeep lowers its size")
        view = next((view for view in self._cloud.node_groups() if view.id == group), None)
        if view is None:
            return e.LoweringEnded(seen.request_id, group, count, "the node group is gone")
        found = self._look.new_instances(seen, (group,))
        came = len(found.ready.get(group, ())) + found.started.get(group, 0)
        wanted = max(view.min_size, view.target_size - max(0, count - came))
        if wanted >= view.target_size:
            # Another client has lowered it: what has no instance will not come.
            is_settled = view.target_size <= view.instance_count
            given_up = max(0, count - came - found.starting.get(group, 0)) if is_settled else 0
            return e.LoweringEnded(seen.request_id, group, given_up, "given up by another client")
        return e.LoweringBegun(seen.request_id, group, view.target_size, wanted)

    def _find_late(self, seen: TrackedReplacement, ordered: dict[str, int]) -> bool:
        """Note nodes that came late, or that none will come any more; return whether there was anything."""
        found = self._look.new_instances(seen, ordered)
        late = [one for group, count in ordered.items() for one in found.ready.get(group, ())[:count]]
        if late:
            self._record(seen, e.NewNodesReady(seen.request_id, tuple(late)))
            return True
        if self._processor.now_ms() - seen.stage_ms <= seen.ready_timeout_s * 1000:
            return False
        detail = "it has not started in time to be given back; scale-down deletes it if it is ever unneeded"
        self._record(seen, e.OrdersLeft(seen.request_id, detail))
        return True


def _in_rollback(seen: TrackedReplacement, event: e.Event) -> Callable[[Tracker, int], e.Event | None]:
    def proposal(tracker: Tracker, _now_ms: int) -> e.Event | None:
        replacement = tracker.data.replacements.get(seen.request_id)
        is_same = replacement is not None and replacement.stage is WaveStage.ROLLING_BACK
        return event if is_same else None

    return proposal
