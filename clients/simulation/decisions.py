"""The planner's decisions in a simulation, with reasons: a line for each round that changed something.

Decides what is recorded: growth with its pods, deletions with their savings, refusals, and for the last round why nodes
stay and what they cost. Money is in the currency of the prices.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from trimtab.clients.loop.replacing import is_over
from trimtab.clients.loop.rounds import RoundResult
from trimtab.clients.verdicts import staying
from trimtab.places import on_new_nodes
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

MOST_NAMES: Final = 20
"""Maximum number of names recorded in one list."""
MOST_BLOCKERS: Final = 50
_RECENTLY: Final = reason_pb2.UnremovableReason.RECENTLY_UNREMOVABLE
_REASONS: Final = reason_pb2.UnremovableReason.Code.DESCRIPTOR.values_by_number
_BLOCKING_REASONS: Final = reason_pb2.BlockingPodReason.Code.DESCRIPTOR.values_by_number


class Decisions:
    """The decisions of one simulation."""

    def __init__(self, groups: Mapping[str, str], prices: Mapping[str, float]) -> None:
        """groups : node group by node, for all nodes that ever existed; prices : per node and hour, by group."""
        self.entries: list[dict[str, Any]] = []
        self._groups, self._prices = groups, prices
        self._last = plan_pb2.PlanResponse()
        self._failures = plan_pb2.ScaleDownState()
        # Replacements that have ended, by request id, in order of their end.
        self._replacements: dict[str, dict[str, Any]] = {}

    @property
    def replacements(self) -> list[dict[str, Any]]:
        """Return how each replacement ended: stage, nodes, savings for one hour, and why a part was not carried out."""
        return list(self._replacements.values())

    @property
    def blockers(self) -> list[dict[str, Any]]:
        """Return why nodes stayed in the last round, by cost.

        A node whose simulation failed in an earlier round stays for that round's reason.
        """
        return _blockers(self._last, _known_failures(self._failures), self._groups, self._prices)

    @property
    def possible_saving_per_hour(self) -> float:
        """Return the cost of the nodes that were unneeded in the last round."""
        figures = (one for one in self._last.summary.decisions if one.decision == plan_pb2.Decision.SCALE_DOWN)
        return 0.0 if self._last.summary.assumption else round(sum(figure.saved_per_hour for figure in figures), 6)

    def add(self, now_s: float, done: RoundResult) -> None:
        """Record a round."""
        answer, groups, prices = done.answer, self._groups, self._prices
        self.entries.extend(_growths(now_s, done))
        if done.accepted:
            self.entries.append(_removal(now_s, done, groups, prices))
        if done.replaced:
            self.entries.append(_replacement(now_s, done))
        for one in done.status.replacements if done.status is not None else ():
            if is_over(one):
                self._replacements.setdefault(one.request_id, _ended(one))
        if done.refused:
            reasons = dict(sorted(done.refused.items())[:MOST_NAMES])
            self.entries.append({"time": now_s, "kind": "refused", "text": _refused_text(reasons), "reasons": reasons})
        if answer.HasField("scale_down"):
            self._last, self._failures = answer, answer.state.scale_down


def _entry(now_s: float, kind: str, count: int, price: float, text: str, **more: Any) -> dict[str, Any]:
    """Return the line of a decision that changes nodes. price : of these nodes, for an hour; more : names, reasons."""
    line = {"time": now_s, "kind": kind, "count": count, "pricePerHour": round(price, 6), "text": text}
    return {**line, "reasons": {}, **more}


def _growths(now_s: float, done: RoundResult) -> Iterator[dict[str, Any]]:
    """Yield the growth for ProvisioningRequests, then that for pods, which comes on top."""
    for split in done.answer.capacity_requests.splits:
        if split.node_group in done.grown:
            yield _growth(now_s, split, "ProvisioningRequests", [], {})
    decision = done.answer.scale_up
    lost = ((option.node_group, option.reason) for option in decision.options if not option.chosen and option.reason)
    others = {group: reason_pb2.NodeGroupReason.Code.Name(reason) for group, reason in lost}
    reasons, pods_of = dict(sorted(others.items())[:MOST_NAMES]), on_new_nodes(decision)
    for split in decision.splits:
        if split.node_group in done.grown:
            pods = pods_of[split.node_group]
            yield _growth(now_s, split, f"{len(pods)} pods", pods[:MOST_NAMES], reasons)


def _growth(
    now_s: float, split: plan_pb2.ScaleUpSplit, whom: str, pods: list[str], reasons: dict[str, str]
) -> dict[str, Any]:
    count, group = split.new_size - split.current_size, split.node_group
    text = f"{group}: {split.current_size} to {split.new_size} nodes for {whom}"
    return _entry(now_s, "scale-up", count, split.price_per_hour, text, group=group, pods=pods, reasons=reasons)


def _removal(now_s: float, done: RoundResult, groups: Mapping[str, str], prices: Mapping[str, float]) -> dict[str, Any]:
    nodes = sorted(done.accepted)
    drained = set(done.answer.scale_down.drain)
    unneeded = {one.node: one for one in done.answer.scale_down.unneeded}
    saving = sum(prices.get(groups.get(node, ""), 0.0) for node in nodes)
    drains = len(drained & set(nodes))
    used = {one.node: one.utilization for one in done.answer.nodes}
    reasons = {
        node: f"utilization {used[node]:.0%}, pods to move: {unneeded[node].assumption.pods_to_move_count}"
        for node in nodes[:MOST_NAMES]
        if node in unneeded and node in used
    }
    text = f"{len(nodes)} {'node goes' if len(nodes) == 1 else 'nodes go'}, {drains} drained"
    return _entry(now_s, "scale-down", len(nodes), saving, text, nodes=nodes[:MOST_NAMES], reasons=reasons)


def _replacement(now_s: float, done: RoundResult) -> dict[str, Any]:
    wave = done.answer.replacement.waves[0]
    new = Counter(node.node_group for node in wave.new_nodes)
    groups = ", ".join(f"{count} of {group}" for group, count in sorted(new.items())) or "none"
    text = f"{len(wave.leaving)} nodes leave, new nodes: {groups}; {wave.evicted_pod_count} pods move"
    nodes = [one.node for one in wave.leaving]
    return _entry(now_s, "replacement", len(nodes), wave.saving_per_hour, text, nodes=nodes[:MOST_NAMES])


def _ended(replacement: actuator_pb2.Replacement) -> dict[str, Any]:
    leaving, new = actuator_pb2.LeavingNodeState, actuator_pb2.ReplacementNewNodeState
    return {
        "requestId": replacement.request_id,
        "ended": replacement.stage_time.ToMilliseconds() / 1000,
        "stage": actuator_pb2.ReplacementStage.Code.Name(replacement.stage),
        "reason": reason_pb2.ReplacementReason.Code.Name(replacement.reason),
        "gone": [node.node for node in replacement.leaving if node.state == leaving.GONE],
        "came": [node.node for node in replacement.new_nodes if node.state in (new.READY, new.STAYS)],
        "plannedSavingPerHour": round(replacement.planned_saving_per_hour, 6),
        "achievedSavingPerHour": round(replacement.achieved_saving_per_hour, 6),
    }


def _refused_text(reasons: Mapping[str, str]) -> str:
    name, why = next(iter(reasons.items()))
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f"{name}: {why}{more}"


def _known_failures(state: plan_pb2.ScaleDownState) -> dict[str, tuple[int, int]]:
    """Return, for nodes not yet to be simulated again, why their last simulation failed: the codes of the reason and of
    the blocking pod's reason.
    """
    failed = state.unremovable
    names = (state.strings[index] for index in np.frombuffer(failed.node, "<i4").tolist())
    return dict(zip(names, zip(failed.reason, failed.blocking_reason, strict=True), strict=True))


def _blockers(
    answer: plan_pb2.PlanResponse,
    failures: Mapping[str, tuple[int, int]],
    groups: Mapping[str, str],
    prices: Mapping[str, float],
) -> list[dict[str, Any]]:
    """Return why nodes stay, by cost: reason, details, number of nodes, price per hour."""
    nodes: Counter[tuple[str, str]] = Counter()
    money: dict[tuple[str, str], float] = defaultdict(float)
    for one in staying(answer):
        why: tuple[int, int] = one.reason, one.blocking_reason
        if one.reason == _RECENTLY:
            why = failures.get(one.node, why)
        reason = _REASONS[why[0]].name
        blocking = _BLOCKING_REASONS[why[1]].name if why[1] else ""
        nodes[reason, blocking] += 1
        money[reason, blocking] += prices.get(groups.get(one.node, ""), 0.0)
    found = [
        {"reason": reason, "blocking": blocking, "nodes": count, "pricePerHour": round(money[reason, blocking], 6)}
        for (reason, blocking), count in nodes.items()
    ]
    found.sort(key=lambda one: (-float(str(one["pricePerHour"])), str(one["reason"]), str(one["blocking"])))
    return found[:MOST_BLOCKERS]
