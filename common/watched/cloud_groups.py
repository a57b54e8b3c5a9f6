"""Node groups according to the cloud, from the actuator's status, combined with those declared in files. The cloud
takes precedence for sizes, template and price (each as a whole), and for the group of each node; files supply what the
cloud does not know. For settings of a group it is the other way round: the settings file takes precedence over the
cloud's tags, and both over the general settings.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.nodes import (
    NodeGroup,
    NodeGroupSpec,
    NodeGroupStatus,
    NodeSpec,
    NodeStatus,
    Taint,
    TemplateNode,
)
from trimtab.common.objects.node_groups import HEALTH
from trimtab.v1 import actuator_pb2, plan_pb2

_HEALTH = {value: name for name, value in HEALTH.items()}


def cloud_groups(groups: Sequence[NodeGroup], status: actuator_pb2.ActuatorStatus | None) -> list[NodeGroup]:
    """Return node groups as in the actuator's status, by name, including groups known only there."""
    found = {(group.metadata.name if group.metadata else None) or "": group for group in groups}
    for one in status.node_groups if status is not None else ():
        old = found.get(one.id)
        spec = (old.spec if old is not None else None) or NodeGroupSpec()
        found[one.id] = NodeGroup(
            ObjectMeta(name=one.id),
            NodeGroupSpec(
                min_size=one.min_size,
                max_size=one.max_size,
                target_size=one.target_size,
                node_selector=spec.node_selector,
                nodes=spec.nodes,
                price=one.price_per_hour if one.HasField("price_per_hour") else spec.price,
                template=_template(one.template, spec.template) if one.HasField("template") else spec.template,
                zero_or_max=one.zero_or_max if one.HasField("zero_or_max") else spec.zero_or_max,
            ),
            NodeGroupStatus(
                health=_HEALTH.get(one.health),
                backoff_until=_time(one, "backoff_until"),
                last_scale_up_time=_time(one, "last_scale_up_time"),
                last_deletion_time=_time(one, "last_deletion_time"),
                last_failure_time=_time(one, "last_failure_time"),
            ),
        )
    return [found[name] for name in sorted(found)]


def known_prices(groups: Sequence[NodeGroup], status: actuator_pb2.ActuatorStatus | None) -> dict[str, float]:
    """Return the hourly price of a node by node group, for groups whose price files or the cloud give."""
    found = {one.metadata.name or "": one.spec.price for one in groups if one.metadata and one.spec}
    found |= {
        one.id: one.price_per_hour
        for one in (status.node_groups if status is not None else ())
        if one.HasField("price_per_hour")
    }
    return {name: price for name, price in found.items() if price is not None}


def group_of_instance(status: actuator_pb2.ActuatorStatus | None) -> dict[str, str]:
    """Return the node group of each instance that the actuator's status lists, by provider id."""
    groups = status.node_groups if status is not None else ()
    return {instance: group.id for group in groups for instance in group.instances}


def with_cloud_settings(
    settings: plan_pb2.PlanSettings, status: actuator_pb2.ActuatorStatus | None
) -> plan_pb2.PlanSettings:
    """Return the settings, completed by the cloud's settings for its groups."""
    given = {one.id: one.settings for one in status.node_groups if one.HasField("settings")} if status else {}
    if not given:
        return settings
    merged = plan_pb2.PlanSettings()
    merged.CopyFrom(settings)
    for group, of_cloud in given.items():
        of_group = merged.node_groups[group]
        of_group.CopyFrom(of_cloud)
        if group in settings.node_groups:
            of_group.MergeFrom(settings.node_groups[group])
    return merged


def undeclared_groups(groups: Sequence[NodeGroup], status: actuator_pb2.ActuatorStatus | None) -> list[str]:
    """Return notes on groups with instances whose nodes are not known."""
    declared = {(group.metadata.name if group.metadata else None) or "" for group in groups}
    return [
        f"node group {one.id} is the actuator's, but no NodeGroup of that name was given, so no node of its "
        f"{one.instance_count} can be removed; declare it with --node-groups"
        for one in (status.node_groups if status is not None else ())
        if one.instance_count and not one.instances and one.id not in declared
    ]


def _template(template: actuator_pb2.CloudTemplate, declared: TemplateNode | None) -> TemplateNode:
    """Return the cloud's template; the cloud knows no slices of devices, which files may declare."""
    taints = [Taint(key=taint.key, value=taint.value or None, effect=taint.effect) for taint in template.taints]
    return TemplateNode(
        ObjectMeta(labels=dict(template.labels)),
        NodeSpec(taints=taints),
        NodeStatus(capacity=dict(template.capacity), allocatable=dict(template.allocatable)),
        declared.resource_slices if declared is not None else None,
    )


def _time(group: actuator_pb2.NodeGroupStatus, field: str) -> datetime | None:
    """Return a time from a group's status; None when it is not set."""
    return getattr(group, field).ToDatetime(UTC) if group.HasField(field) else None  # type: ignore[arg-type]
