"""The cloud `externalgrpc`: a provider that serves the Cluster Autoscaler.

Decides how its calls are interpreted where they are less precise than `trimtab.actuator.cloud.provider`. An instance
that was listed, or that a journal names, and is missing from two lists for five seconds is GONE; from ten lists for
half a minute if the provider still has a group for it. Until then it is UNKNOWN, unless this process has requested its
deletion: a single list may be outdated. A scale-up has no token: its call is made once, and after a lost answer the
target size shows the result. Deletions are requested together; if that fails, the list shows which were made. `Cleanup`
is never called, because other replicas continue.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from trimtab.actuator.cloud.externalgrpc.calls import NotImplementedByCloudError, ProviderCalls
from trimtab.actuator.cloud.externalgrpc.messages import GROUP_ANNOTATION, group_options, instance_of, template_of
from trimtab.actuator.cloud.provider import (
    Activity,
    CloudError,
    CloudFailedError,
    CloudNodeTemplate,
    CloudRefusedError,
    GroupOptions,
    Instance,
    InstanceState,
    NodeGroupView,
    check_decrease,
    check_size,
)
from trimtab.actuator.cloud.table import ExternalOptions, LiveCloud, LiveWiring, Opening
from trimtab.actuator.kube.api import KubeApi
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.prices import is_price

# Consecutive lists from which an instance must be missing, and for how long: several lists within one moment may be
# outdated together.
MISSING_LISTS, MISSING_S = 2, 5.0
# The same where the provider says that the instance is still of its group: some say so of every id that they can read.
LISTS_UNTIL_GONE_IF_DISPUTED, SECONDS_UNTIL_GONE_IF_DISPUTED = 10, 30.0
# Missing instances of a group that are kept, the latest ones.
MAX_MISSING = 10_000


class Absence(NamedTuple):
    """From how many lists in a row an instance was missing, and since when, in steady seconds. `list_count` : lists;
    `since_s` : the first of them.
    """

    list_count: int = 0
    since_s: float = 0.0


class ExternalCloud:
    """A `CloudProvider` (see `trimtab.actuator.cloud.provider`)."""

    name = "externalgrpc"

    def __init__(
        self,
        calls: ProviderCalls,
        guard: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up; `guard` raises unless this process may change something now."""
        self._calls = calls
        self._guard = guard
        self._clock = clock
        self._steady = steady
        self._lock = threading.Lock()
        self._gpu_label: str | None = None
        # By group: instances that it had, and their absence from the latest lists.
        self._missing: dict[str, dict[str, Absence]] = {}
        # By group: instances whose deletion this process has requested and the provider has accepted.
        self._requested: dict[str, set[str]] = {}
        # By group: those of them that were missing from a list and are listed again: another machine may have the id.
        self._returned: dict[str, set[str]] = {}
        # Tokens whose call was made without an answer.
        self._unanswered: set[str] = set()

    @property
    def gpu_label(self) -> str:
        """Return the provider's label. Raises `CloudError`."""
        if self._gpu_label is None:
            self._gpu_label = str(self._calls.one("GPULabel", pb.GPULabelRequest()).label)
        return self._gpu_label

    def refresh(self) -> None:
        """Make the provider read its cloud again."""
        self._calls.one("Refresh", pb.RefreshRequest())

    def node_groups(self) -> Sequence[NodeGroupView]:
        """Return all node groups, sorted by id."""
        groups = self._groups()
        instances = self._lists(sorted(groups))
        sizes = self._calls.many(
            "NodeGroupTargetSize", [pb.NodeGroupTargetSizeRequest(id=group) for group in sorted(groups)]
        )
        return [
            NodeGroupView(name, group.min_size, group.max_size, size.target_size, len(instances[name]))
            for (name, group), size in zip(sorted(groups.items()), sizes, strict=True)
        ]

    def groups_of(self, instances: Sequence[str]) -> Mapping[str, str]:
        """Return the node group of each instance that has one: from the lists, then as the provider says."""
        groups = {
            member.id: group for group, members in self._lists(sorted(self._groups())).items() for member in members
        }
        rest = [instance for instance in instances if instance not in groups]
        nodes = [pb.NodeGroupForNodeRequest(node=_node(instance)) for instance in rest]
        answers = self._calls.many("NodeGroupForNode", nodes)
        groups |= {
            instance: answer.node_group.id
            for instance, answer in zip(rest, answers, strict=True)
            if answer.node_group.id
        }
        return {instance: groups[instance] for instance in instances if instance in groups}

    def instances(self, groups: Sequence[str]) -> Mapping[str, Sequence[Instance]]:
        """Return the instances of each group, sorted by id."""
        known = self._groups()
        lists = self._lists([group for group in groups if group in known])
        return {group: lists.get(group, []) for group in groups}

    def instance_states(self, group: str, instances: Sequence[str]) -> Mapping[str, InstanceState]:
        """Return the state of each instance."""
        if group not in self._groups():
            return dict.fromkeys(instances, InstanceState.UNKNOWN)
        listed = {instance.id: instance.state for instance in self._lists([group])[group]}
        return {instance: listed.get(instance) or self._unlisted(group, instance) for instance in instances}

    def remember(self, group: str, instances: Sequence[str]) -> None:
        """Note that the group had these instances."""
        with self._lock:
            known = self._missing.setdefault(group, {})
            for instance in instances:
                known.setdefault(instance, Absence())

    def forget(self, group: str, instances: Sequence[str]) -> None:
        """Note that the deletions of these instances have ended."""
        with self._lock:
            for noted in (self._requested, self._returned):
                noted.get(group, set()).difference_update(instances)

    def delete_instances(self, group: str, instances: Sequence[str]) -> Mapping[str, CloudError]:
        """Start the deletion of instances. One that was requested before and is still listed as running is requested
        again, unless the target size is already below the number of running instances: it counts as requested then. One
        that was missing meanwhile is refused until `forget`.
        """
        view = self._view(group)
        listed = {instance.id: instance.state for instance in self._lists([group])[group]}
        leaving_count = sum(state is not InstanceState.DELETING for state in listed.values()) - view.target_size
        failed: dict[str, CloudError] = {}
        wanted: list[str] = []
        for instance in instances:
            state = listed.get(instance)
            if state is None:
                error = self._refuse_unlisted(group, instance)
                failed |= {instance: error} if error else {}
            elif state is InstanceState.DELETING:
                continue
            elif self._has_returned(group, instance):
                message = f"{instance} is listed again after its deletion; it may be another machine"
                failed[instance] = CloudRefusedError(message)
            elif leaving_count > 0 and self._has_requested(group, instance):
                leaving_count -= 1
            else:
                wanted.append(instance)
        room = max(0, view.target_size - view.min_size)
        for instance in wanted[room:]:
            failed[instance] = CloudRefusedError(f"node group {group} is at its minimum {view.min_size}")
        return {**failed, **self._delete(view, wanted[:room])}

    def set_size(self, group: str, expected: int, wanted: int, token: str) -> None:
        """Raise the target size; the call is made once for each token."""
        view = self._view(group)
        with self._lock:
            unanswered = token in self._unanswered
        if view.target_size == wanted:
            self._answered(token)
            return
        if unanswered:
            raise CloudError(f"node group {group}: it is not known yet whether it has grown to {wanted}")
        check_size(group, view.target_size, view.max_size, (expected, wanted))
        self._guard()
        with self._lock:
            self._unanswered.add(token)
        try:
            self._calls.one("NodeGroupIncreaseSize", pb.NodeGroupIncreaseSizeRequest(id=group, delta=wanted - expected))
        except CloudRefusedError:
            self._answered(token)
            raise
        except CloudFailedError:
            is_done = self._view(group).target_size == wanted
            self._answered(token)
            if not is_done:
                raise
        self._answered(token)

    def was_set(self, group: str, wanted: int, token: str) -> bool:
        """Return whether the target size is at least the wanted one."""
        self._answered(token)
        return self._view(group).target_size >= wanted

    def decrease_target(self, group: str, expected: int, wanted: int) -> None:
        """Lower the target size."""
        view = self._view(group)
        running_count = sum(instance.state is InstanceState.RUNNING for instance in self._lists([group])[group])
        if check_decrease(view, running_count, (expected, wanted)):
            self._guard()
            request = pb.NodeGroupDecreaseTargetSizeRequest(id=group, delta=wanted - expected)
            self._calls.one("NodeGroupDecreaseTargetSize", request)

    def template(self, group: str) -> CloudNodeTemplate | None:
        """Return a new node of a group, as the provider gives it."""
        if group not in self._groups():
            return None
        try:
            answer = self._calls.one("NodeGroupTemplateNodeInfo", pb.NodeGroupTemplateNodeInfoRequest(id=group))
            data = answer.node_bytes or answer.node_info
            return template_of(data) if data else None
        except NotImplementedByCloudError:
            return None
        except DecodeError as error:
            raise CloudError(f"node group {group}: its template is not a Node: {error}") from error

    def price_per_hour(self, group: str) -> float | None:
        """Return the price of a node like the template; None for what is no price, such as infinity for "unknown"."""
        template = self.template(group)
        if template is None:
            return None
        annotations = {**template.annotations, GROUP_ANNOTATION: group}
        node = pb.ExternalGrpcNode(name=f"template-{group}", labels=template.labels, annotations=annotations)
        request = pb.PricingNodePriceRequest(node=node)
        now_s = int(self._clock())
        request.start_timestamp.FromSeconds(now_s)
        request.end_timestamp.FromSeconds(now_s + 3600)
        request.start_time.seconds, request.end_time.seconds = now_s, now_s + 3600
        try:
            price = float(self._calls.one("PricingNodePrice", request).price)
        except NotImplementedByCloudError:
            return None
        return price if is_price(price) else None

    def options(self, group: str) -> GroupOptions:
        """Return the options that the provider sets; none if it sets none."""
        if group not in self._groups():
            return GroupOptions()
        try:
            answer = self._calls.one("NodeGroupGetOptions", pb.NodeGroupAutoscalingOptionsRequest(id=group))
        except NotImplementedByCloudError:
            return GroupOptions()
        if not answer.HasField("node_group_autoscaling_options"):
            return GroupOptions()
        options = group_options(answer.node_group_autoscaling_options)
        # Without defaults in the request, 0 and false mean not set.
        return options._replace(**{name: None for name, value in options._asdict().items() if not value})

    def activities(self, group: str) -> Sequence[Activity]:
        """Return a failed one for each instance that cannot be created: the interface has no others."""
        listed = self.instances([group])[group]
        return [
            Activity(f"create {instance.id}", group, True, 0, instance.error.message)
            for instance in listed
            if instance.error
        ]

    def _groups(self) -> dict[str, pb.NodeGroup]:
        return {group.id: group for group in self._calls.one("NodeGroups", pb.NodeGroupsRequest()).node_groups}

    def _view(self, group: str) -> NodeGroupView:
        """Return sizes of a group; `instance_count` is not read. Raises `CloudRefusedError` when it does not exist."""
        view = self._groups().get(group)
        if view is None:
            raise CloudRefusedError(f"node group {group} does not exist")
        size = self._calls.one("NodeGroupTargetSize", pb.NodeGroupTargetSizeRequest(id=group)).target_size
        return NodeGroupView(group, view.min_size, view.max_size, size, 0)

    def _lists(self, groups: Sequence[str]) -> dict[str, list[Instance]]:
        """Return the instances of existing groups, sorted by id, and note those that are missing."""
        answers = self._calls.many("NodeGroupNodes", [pb.NodeGroupNodesRequest(id=group) for group in groups])
        listed = {
            group: sorted(map(instance_of, answer.instances), key=lambda instance: instance.id)
            for group, answer in zip(groups, answers, strict=True)
        }
        now_s = self._steady()
        with self._lock:
            for group, members in listed.items():
                known = self._missing.setdefault(group, {})
                for instance, absence in known.items():
                    since_s = absence.since_s if absence.list_count else now_s
                    known[instance] = Absence(absence.list_count + 1, since_s)
                returned = {member.id for member in members if known.get(member.id, Absence()).list_count > 1}
                known.update(dict.fromkeys((member.id for member in members), Absence()))
                for instance in [instance_id for instance_id, absence in known.items() if absence.list_count][
                    :-MAX_MISSING
                ]:
                    del known[instance]
                requested = self._requested.get(group, set())
                requested.intersection_update(known)
                self._returned.setdefault(group, set()).update(requested & returned)
        return listed

    def _absence(self, group: str, instance: str) -> Absence | None:
        """Return the absence of an instance from the latest lists; None if the group never had it."""
        with self._lock:
            return self._missing.get(group, {}).get(instance)

    def _has_requested(self, group: str, instance: str) -> bool:
        with self._lock:
            return instance in self._requested.get(group, ())

    def _has_returned(self, group: str, instance: str) -> bool:
        with self._lock:
            return instance in self._returned.get(group, ())

    def _unlisted(self, group: str, instance: str) -> InstanceState:
        """Return the state of an instance that the last list does not have. Raises `CloudError`."""
        absence = self._absence(group, instance)
        if absence is None:
            return InstanceState.UNKNOWN
        if self._is_gone(group, instance, absence):
            return InstanceState.GONE
        return InstanceState.DELETING if self._has_requested(group, instance) else InstanceState.UNKNOWN

    def _is_gone(self, group: str, instance: str, absence: Absence) -> bool:
        """Return whether an instance was missing from enough lists for long enough. Raises `CloudError`."""
        missing_s = self._steady() - absence.since_s
        if absence.list_count < MISSING_LISTS or missing_s < MISSING_S:
            return False
        if absence.list_count >= LISTS_UNTIL_GONE_IF_DISPUTED and missing_s >= SECONDS_UNTIL_GONE_IF_DISPUTED:
            return True
        answer = self._calls.one("NodeGroupForNode", pb.NodeGroupForNodeRequest(node=_node(instance)))
        return bool(answer.node_group.id != group)

    def _refuse_unlisted(self, group: str, instance: str) -> CloudError | None:
        """Return why the deletion of an instance that the last list lacks is not done; None = there is nothing to do.
        Raises `CloudError`.
        """
        match self._unlisted(group, instance):
            case InstanceState.GONE | InstanceState.DELETING:
                return None
            case _ if self._absence(group, instance) is None:
                return CloudRefusedError(f"node group {group} has no instance {instance}")
            case _:
                return CloudError(f"node group {group}: {instance} is not listed, but may return")

    def _answered(self, token: str) -> None:
        with self._lock:
            self._unanswered.discard(token)

    def _delete(self, view: NodeGroupView, instances: Sequence[str]) -> dict[str, CloudError]:
        """Request deletions together; return those that were not made. `view` : of the group before."""
        if not instances:
            return {}
        group = view.id
        nodes = [_node(instance) for instance in instances]
        self._guard()
        try:
            self._calls.one("NodeGroupDeleteNodes", pb.NodeGroupDeleteNodesRequest(id=group, nodes=nodes))
        except CloudError as error:
            listed = self._lists([group])[group]
            left = {instance.id for instance in listed if instance.state is not InstanceState.DELETING}
            failed = {instance: error for instance in instances if instance in left}
            done_count = view.target_size - self._view(group).target_size
            if isinstance(error, CloudFailedError) and done_count > 0:
                # All of it was done, or some, and the list does not show which.
                is_done = done_count >= len(instances)
                failed = {} if is_done else dict.fromkeys(failed, CloudError(str(error)))
        else:
            failed = {}
        with self._lock:
            self._requested.setdefault(group, set()).update(
                instance for instance in instances if instance not in failed
            )
        return failed


def _node(instance: str) -> pb.ExternalGrpcNode:
    """Return a node by provider id; providers that look at names know it by the last part of that."""
    return pb.ExternalGrpcNode(provider_id=instance, name=instance.rpartition("/")[2])


def wire(opening: Opening) -> LiveWiring:
    """Open the channel to the provider; no call is made. Raises `OSError`, `ValueError`."""
    options = opening.options.of(ExternalOptions)
    channel = options.open_channel()
    opening.stack.callback(channel.close)

    def build(api: KubeApi, may_act: Callable[[], bool]) -> LiveCloud:
        del may_act
        cloud = ExternalCloud(ProviderCalls(channel, options.cloud_timeout), api.http.guard)
        # A wrong address is reported at the start.
        return LiveCloud(cloud, cloud.refresh)

    return LiveWiring((), build)
