"""Why a node goes or stays: candidate or not, used how much, who is in the way, where its pods would go, its timers.

Built from the planner's scale-down answer over the same snapshot; the settings are read only to show the threshold and
times that the planner was given.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from rich.markup import escape
from trimtab.v1 import plan_pb2, reason_pb2

from clients.cli.amounts import amount, counted, duration, percent
from clients.cli.explain.causes import taint_text
from clients.cli.explain.cluster_view import ClusterView
from clients.cli.explain.sentences import NODE_SENTENCES, POD_SENTENCES
from clients.cli.output import as_document

_NodeReason = reason_pb2.UnremovableReason
_PodReason = reason_pb2.BlockingPodReason
DEFAULT_THRESHOLD, DEFAULT_UNNEEDED_S, DEFAULT_UNREADY_S = 0.5, 600.0, 1200.0
"""Of `ScaleDownSettings`, as its comments give them."""


@dataclass(frozen=True)
class NodeExplanation:
    """What there is to say about a node; exactly one of `unneeded` and `unremovable` is there."""

    view: ClusterView
    name: str
    decision: plan_pb2.ScaleDownDecision
    settings: plan_pb2.PlanSettings
    now: Timestamp
    unneeded: plan_pb2.UnneededNode | None
    unremovable: plan_pb2.UnremovableNode | None

    @property
    def goes_now(self) -> bool:
        """Whether the plan deletes it now."""
        return self.name in self.decision.delete_empty or self.name in self.decision.drain


def explain_node(
    view: ClusterView, name: str, answer: plan_pb2.PlanResponse, request: plan_pb2.PlanRequest
) -> NodeExplanation:
    """Find the node in the planner's answer to `request`."""
    decision = answer.scale_down
    return NodeExplanation(
        view=view,
        name=name,
        decision=decision,
        settings=request.settings,
        now=request.now,
        unneeded=next((one for one in decision.unneeded if one.node == name), None),
        unremovable=next((one for one in decision.unremovable if one.node == name), None),
    )


def node_document(explanation: NodeExplanation) -> dict[str, Any]:
    """Return the explanation for programs."""
    node = explanation.view.nodes[explanation.name]
    return {
        "node": explanation.name,
        "nodeGroup": node.node_group,
        "pods": [pod.key for pod in explanation.view.pods_on(explanation.name)],
        "removable": explanation.unneeded is not None,
        "deletedNow": explanation.goes_now,
        "utilizationThreshold": threshold(explanation),
        "unneeded": as_document(explanation.unneeded) if explanation.unneeded else None,
        "unremovable": as_document(explanation.unremovable) if explanation.unremovable else None,
        "result": reason_pb2.ScaleDownResult.Code.Name(explanation.decision.result),
        "detail": explanation.decision.detail,
    }


def node_lines(explanation: NodeExplanation) -> Iterator[str]:
    """Yield the explanation as lines of rich text."""
    view, name = explanation.view, explanation.name
    node, pods = view.nodes[name], view.pods_on(name)
    group = f"of node group [cyan]{escape(node.node_group)}[/cyan]" if node.node_group else "of no node group"
    state = ", ".join(
        text
        for text, holds in (("not ready", not node.ready), ("cordoned", node.unschedulable))
        if holds
    )  # fmt: skip
    yield f"[bold]Node {escape(name)}[/bold], {group}, with {counted(len(pods), 'pod')}{'; ' + state if state else ''}."
    taints = ", ".join(taint_text(view, taint) for taint in node.taints)
    if taints:
        yield f"Taints: {escape(taints)}."
    free, has = view.free(name), view.allocatable(name)
    shown = [resource for resource in ("cpu", "memory") if has.get(resource)]
    parts = [f"{amount(one, has[one] - free[one])} of {amount(one, has[one])} {one} requested" for one in shown]
    yield f"{'; '.join(parts)}." if parts else "It has neither cpu nor memory to give."
    yield ""
    if explanation.unneeded is not None:
        yield from _unneeded_lines(explanation, explanation.unneeded)
    elif explanation.unremovable is not None:
        yield from _unremovable_lines(explanation, explanation.unremovable)
    else:
        yield f"The plan does not speak of it: {escape(explanation.decision.detail) or 'scale-down was not tried'}."


def threshold(explanation: NodeExplanation) -> float:
    """Return the utilization up to which the node is a candidate, for nodes without GPU."""
    override = _override(explanation)
    if override.HasField("utilization_threshold"):
        return override.utilization_threshold
    general = explanation.settings.scale_down
    return general.utilization_threshold if general.HasField("utilization_threshold") else DEFAULT_THRESHOLD


def _override(explanation: NodeExplanation) -> plan_pb2.NodeGroupSettings:
    """Settings of the node's group."""
    group = explanation.view.nodes[explanation.name].node_group
    groups = explanation.settings.node_groups
    return groups[group] if group in groups else plan_pb2.NodeGroupSettings()


def wait_s(explanation: NodeExplanation) -> float:
    """Return how long the node has to be unneeded before it goes, seconds."""
    ready = explanation.view.nodes[explanation.name].ready
    field, default = ("unneeded_time", DEFAULT_UNNEEDED_S) if ready else ("unready_time", DEFAULT_UNREADY_S)
    for settings in (_override(explanation), explanation.settings.scale_down):
        if settings.HasField(field):  # type: ignore[arg-type]
            chosen: Duration = getattr(settings, field)
            return chosen.ToTimedelta().total_seconds()
    return default


def _unneeded_lines(explanation: NodeExplanation, node: plan_pb2.UnneededNode) -> Iterator[str]:
    """It can go."""
    since_s = (explanation.now.ToNanoseconds() - node.since.ToNanoseconds()) / 1e9
    used = f"used to {percent(node.utilization)}, at most {percent(threshold(explanation))} is allowed"
    yield f"[green]It is not needed[/green] ({used}), since {duration(since_s)}."
    if explanation.goes_now:
        kind = "empty" if explanation.name in explanation.decision.delete_empty else "after a drain"
        detail = f": {escape(node.detail)}" if node.detail else ""
        yield f"[green bold]It goes now[/green bold], {kind}{detail}."
    else:
        reason = _NodeReason.Code.Name(node.not_now_reason)
        detail = f" ({escape(node.detail)})" if node.detail else ""
        yield f"It does not go now: [yellow]{reason}[/yellow], {NODE_SENTENCES[node.not_now_reason]}{detail}."
        remaining = wait_s(explanation) - since_s
        if remaining > 0:
            yield f"It has to stay unneeded for {duration(remaining)} more (of {duration(wait_s(explanation))})."
    if node.destinations:
        yield ""
        yield f"Its {counted(len(node.destinations), 'pod')} would go, with room for all at the same time, to:"
        for pod, destination in sorted(node.destinations.items()):
            yield f"  {escape(pod)} → [cyan]{escape(destination)}[/cyan]"


def _unremovable_lines(explanation: NodeExplanation, node: plan_pb2.UnremovableNode) -> Iterator[str]:
    """It stays."""
    yield f"[red]It stays[/red]: [yellow]{_NodeReason.Code.Name(node.reason)}[/yellow], {NODE_SENTENCES[node.reason]}."
    if node.reason == _NodeReason.NOT_UNDERUTILIZED:
        yield f"It is used to {percent(node.utilization)}; candidates are at most {percent(threshold(explanation))}."
    elif node.reason == _NodeReason.NODE_GROUP_MIN_SIZE_REACHED:
        group = explanation.view.groups[explanation.view.nodes[explanation.name].node_group]
        yield f"The group has {group.target_size} nodes, its minimum is {group.min_size}."
    elif node.utilization > 0:
        yield f"It is used to {percent(node.utilization)}."
    if node.blocking_pod:
        sentence = POD_SENTENCES[node.blocking_reason]
        code = _PodReason.Code.Name(node.blocking_reason)
        why = f": [yellow]{code}[/yellow], {sentence}" if sentence else ""
        yield f"In the way is pod [cyan]{escape(node.blocking_pod)}[/cyan]{why}."
    if node.detail:
        yield escape(node.detail)
    for reason, count in sorted(node.failed_predicates.items(), key=lambda pair: (-pair[1], pair[0])):
        yield f"  {counted(count, 'node')} said [yellow]{escape(reason)}[/yellow] to it"
