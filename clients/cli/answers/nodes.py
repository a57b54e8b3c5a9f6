"""Why a node goes or stays: its utilization, what blocks it, where its pods would go, its timers.

Built from the planner's scale-down answer over the same snapshot; the settings are read only to show the threshold and
times that the planner was given.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.cli.amounts import amount, counted, duration, named_amount, percent
from trimtab.clients.cli.answers.answer import remaining_s, threshold
from trimtab.clients.cli.answers.blockers import budget_text, group_text
from trimtab.clients.cli.blocks import Sentence, Style, led
from trimtab.clients.cli.causes import taint_text
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.clients.verdicts import GOES
from trimtab.places import moves_by_node
from trimtab.reason_texts import NODE_SENTENCES, POD_SENTENCES, clause_of
from trimtab.v1 import plan_pb2, reason_pb2

_NodeReason = reason_pb2.UnremovableReason
_PodReason = reason_pb2.BlockingPodReason
_MIRROR, _DAEMON = 2, 4
"""Flags of `PodTable.flags`."""


class PodState(StrEnum):
    """What happens to a pod when its node is drained, the worst first."""

    BLOCKS = "must not be evicted"
    NO_PLACE = "fits no other node"
    MOVES = "can be evicted"
    DAEMON = "belongs to a DaemonSet and goes with the node"
    MIRROR = "is a static pod and goes with the node"


_COUNTED = {
    PodState.NO_PLACE: ("fits no other node", "fit no other node"),
    PodState.MOVES: ("can be evicted", "can be evicted"),
    PodState.DAEMON: ("belongs to a DaemonSet", "belong to DaemonSets"),
    PodState.MIRROR: ("is static", "are static"),
}


class NodePod(NamedTuple):
    """A pod of a node. reasons : every reason why it is in the way; destination : where it would go, "" = not
    planned.
    """

    key: str
    state: PodState
    reasons: "tuple[_PodReason.Code.ValueType, ...]"
    destination: str


@dataclass(frozen=True)
class NodeExplanation:
    """The explanation of a node. verdict : what becomes of it; unneeded : since when, and where its pods go, None = it
    is needed; homeless : its pods that fit no other node, even alone. view : the snapshot; decision, settings, now : of
    the request for which the plan was made.
    """

    view: ClusterView
    name: str
    decision: plan_pb2.ScaleDownDecision
    settings: plan_pb2.PlanSettings
    now: Timestamp
    verdict: plan_pb2.NodeVerdict
    unneeded: plan_pb2.UnneededNode | None
    homeless: frozenset[str] = frozenset()

    @cached_property
    def moves(self) -> dict[str, str]:
        """Where its pods would go, by pod."""
        return moves_by_node(self.decision.places).get(self.name, {})

    @cached_property
    def pods(self) -> tuple[NodePod, ...]:
        """All its pods, the worst first."""
        reasons = {one.pod: tuple(one.reasons or (one.reason,)) for one in self.verdict.blocking_pods}
        if self.verdict.blocking_reason:
            reasons.setdefault(self.verdict.blocking_pod, (self.verdict.blocking_reason,))
        found = (
            NodePod(one.key, *self._state(one, reasons.get(one.key, ())), self.moves.get(one.key, ""))
            for one in self.view.pods_on(self.name)
        )
        return tuple(sorted(found, key=lambda one: (list(PodState).index(one.state), -len(one.reasons), one.key)))

    def _state(
        self, pod: ShownPod, reasons: "tuple[_PodReason.Code.ValueType, ...]"
    ) -> tuple[PodState, "tuple[_PodReason.Code.ValueType, ...]"]:
        """Return what happens to a pod when the node is drained, and why it is in the way."""
        if reasons and reasons != (_PodReason.NO_PLACE,):
            return PodState.BLOCKS, reasons
        if reasons or pod.key in self.homeless:
            return PodState.NO_PLACE, (_PodReason.NO_PLACE,)
        if goes_with_node(self.view, pod):
            return (PodState.DAEMON if self.view.flags_of(pod.row) & _DAEMON else PodState.MIRROR), ()
        return PodState.MOVES, ()

    @property
    def threshold(self) -> float:
        """The utilization up to which the node is a candidate, 0 to 1."""
        return threshold(self.settings, self.view.nodes[self.name])

    @property
    def goes_now(self) -> bool:
        """Whether the plan deletes it now."""
        return self.verdict.fate == plan_pb2.NodeFate.GOES_NOW


def goes_with_node(view: ClusterView, pod: ShownPod) -> bool:
    """Return whether a pod is of a DaemonSet or static, so that no drain moves it."""
    return bool(view.flags_of(pod.row) & (_DAEMON | _MIRROR))


def explain_node(
    view: ClusterView,
    name: str,
    answer: plan_pb2.PlanResponse,
    request: plan_pb2.PlanRequest,
    homeless: frozenset[str] = frozenset(),
) -> NodeExplanation:
    """Find the node in the planner's answer to `request`. homeless : its pods that fit no other node."""
    decision = answer.scale_down
    return NodeExplanation(
        view=view,
        name=name,
        decision=decision,
        settings=request.settings,
        now=request.now,
        verdict=next((one for one in answer.nodes if one.node == name), plan_pb2.NodeVerdict(node=name)),
        unneeded=next((one for one in decision.unneeded if one.node == name), None),
        homeless=homeless,
    )


def node_sentences(explanation: NodeExplanation, *, is_replaced: bool = False) -> Iterator[Sentence]:
    """Yield the explanation as sentences. is_replaced : another decision lets the node go."""
    view, name = explanation.view, explanation.name
    node, pods = view.nodes[name], view.pods_on(name)
    group = f"of node group {node.node_group}" if node.node_group else "of no node group"
    state = ", ".join(
        text
        for text, holds in (("not ready", not node.ready), ("cordoned", node.unschedulable))
        if holds
    )  # fmt: skip
    yield led(
        Style.HEADLINE, f"Node {name}", f", {group}, with {counted(len(pods), 'pod')}{'; ' + state if state else ''}."
    )
    taints = ", ".join(taint_text(view, taint) for taint in node.taints)
    if taints:
        yield Sentence(f"Taints: {taints}.")
    free, has = view.free(name), view.allocatable(name)
    shown = [resource for resource in ("cpu", "memory") if has.get(resource)]
    parts = [f"{amount(one, has[one] - free[one])} of {named_amount(one, has[one])} requested" for one in shown]
    yield Sentence(f"{'; '.join(parts)}." if parts else "It has no allocatable cpu or memory.")
    yield Sentence("")
    if explanation.verdict.fate in GOES:
        yield from _going_sentences(explanation)
    elif explanation.verdict.reason:
        yield from _staying_sentences(explanation, is_replaced)
    else:
        yield Sentence(f"The plan does not mention it: {explanation.decision.detail or 'scale-down was not tried'}.")


def _going_sentences(explanation: NodeExplanation) -> Iterator[Sentence]:
    """Yield that the node can go, when, and where its pods would go."""
    now_ns, since_ns = explanation.now.ToNanoseconds(), explanation.verdict.since.ToNanoseconds()
    verdict = explanation.verdict
    used = f"utilization {percent(verdict.utilization)}, candidates have at most {percent(explanation.threshold)}"
    since = f", and has been unneeded for {duration((now_ns - since_ns) / 1e9)}" if now_ns > since_ns else ""
    yield led(Style.GOOD, "It is not needed", f" ({used}){since}.")
    if explanation.goes_now:
        kind = "it is empty" if explanation.name in explanation.decision.delete_empty else "after a drain"
        detail = f": {verdict.detail}" if verdict.detail else ""
        yield led(Style.GOOD, "It goes now", f", {kind}{detail}.")
    else:
        why = verdict.detail or verdict.why
        yield Sentence(f"It does not go now: {why} ({_NodeReason.Code.Name(verdict.reason)}).")
        if verdict.wave > 1:
            yield Sentence(
                f"It goes in wave {verdict.wave}: once pods evicted before it run again, budgets allow more."
            )
        remaining = remaining_s(verdict, now_ns)
        if remaining > 0:
            whole = duration((verdict.goes_at.ToNanoseconds() - since_ns) / 1e9)
            yield Sentence(f"It has to stay unneeded for {duration(remaining)} more (of {whole}).")
    if explanation.moves:
        yield Sentence("")
        yield Sentence(
            f"Its {counted(len(explanation.moves), 'pod')} would move, with room for all at the same time, to:"
        )
        for pod, destination in sorted(explanation.moves.items()):
            yield Sentence(f"{pod} → {destination}", indent=2)


def _staying_sentences(explanation: NodeExplanation, is_replaced: bool) -> Iterator[Sentence]:
    """Yield that the node stays, why, and which pod is in the way."""
    node = explanation.verdict
    code = _NodeReason.Code.Name(node.reason)
    what = "Scale-down keeps it" if is_replaced else "It stays"
    yield led(Style.BAD, what, f": {NODE_SENTENCES[node.reason]} ({code}).")
    if node.reason == _NodeReason.NOT_UNDERUTILIZED:
        most = percent(explanation.threshold)
        yield Sentence(f"Its utilization is {percent(node.utilization)}; candidates have at most {most}.")
    elif node.reason == _NodeReason.NODE_GROUP_MIN_SIZE_REACHED:
        yield Sentence(f"It is in {group_text(explanation.view, explanation.name)}.")
    elif node.HasField("utilization"):
        yield Sentence(f"Its utilization is {percent(node.utilization)}.")
    yield from _blocking_sentences(explanation)
    if node.detail:
        yield Sentence(f"{node.detail[:1].upper()}{node.detail[1:]}.")
    for reason, count in sorted(node.predicate_failure_counts.items(), key=lambda pair: (-pair[1], pair[0])):
        yield Sentence(f"{counted(count, 'node')}: {clause_of(reason)} ({reason})", indent=2)
    yield from _other_pod_sentences(explanation)


def _other_pod_sentences(explanation: NodeExplanation) -> Iterator[Sentence]:
    """Yield what would happen to the pods of the node that do not block it, the worst first."""
    others = [one for one in explanation.pods if one.state is not PodState.BLOCKS]
    if not others:
        return
    yield Sentence("")
    whose = "Its pods" if len(others) == len(explanation.pods) else "Its other pods"
    yield Sentence(f"{whose}: {', '.join(_numbers(others))}.")
    for one in others:
        yield Sentence(f"{one.key} {one.state.value}", indent=2)


def _numbers(pods: Sequence[NodePod]) -> Iterator[str]:
    """Yield how many pods are in each state."""
    counts = Counter(pod.state for pod in pods)
    for state, (singular, plural) in _COUNTED.items():
        if counts[state]:
            yield f"{counts[state]:,} {singular if counts[state] == 1 else plural}"


def _blocking_sentences(explanation: NodeExplanation) -> Iterator[Sentence]:
    """Yield the pods that are in the way: the one that has no place, or all that must not be evicted."""
    node = explanation.verdict
    every = sorted(node.blocking_pods, key=lambda one: (-len(one.reasons), one.pod))
    if node.blocking_pod and node.blocking_pod not in {one.pod for one in every}:
        yield from _pod_sentences(explanation, node.blocking_pod, node.blocking_reason)
    if len(every) > 1:
        yield Sentence(f"{counted(len(every), 'pod')} of it must not be evicted:")
    for one in every:
        for line in _pod_sentences(explanation, one.pod, one.reason):
            yield line._replace(indent=2 if len(every) > 1 else 0)
        for reason in one.reasons[1:]:
            why = f"It also {POD_SENTENCES[reason]} ({_PodReason.Code.Name(reason)})."
            yield Sentence(why, indent=4 if len(every) > 1 else 2)


def _pod_sentences(
    explanation: NodeExplanation, pod: str, reason: "reason_pb2.BlockingPodReason.Code.ValueType"
) -> Iterator[Sentence]:
    """Yield why a pod is in the way, and the budgets that keep it from being evicted."""
    code = _PodReason.Code.Name(reason)
    why = f"{POD_SENTENCES[reason]} ({code})" if reason else "is in the way"
    yield Sentence(f"Pod {pod} {why}.")
    if reason in (_PodReason.NOT_ENOUGH_PDB, _PodReason.SEVERAL_BUDGETS):
        text = budget_text(explanation.view, pod)
        yield Sentence(f"{text[:1].upper() + text[1:]}.")
