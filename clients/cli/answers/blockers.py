"""Why nodes stay: the reasons with the number and cost of the nodes that they keep, and the worst offenders of each. A
blocking budget is shown with its numbers, a blocking pod by its controller. The most expensive reason comes first;
without prices, that of most nodes.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from trimtab.clients.cli.amounts import counted, percent, some
from trimtab.clients.cli.answers.answer import PlanAnswer, money, threshold
from trimtab.clients.cli.blocks import Bar, Line, Table, without_empty_columns
from trimtab.clients.cluster_view import ClusterView, alone
from trimtab.clients.verdicts import going, staying
from trimtab.prices import HOURS_A_MONTH
from trimtab.reason_texts import clause_of
from trimtab.v1 import plan_pb2, reason_pb2

MOST_REASONS, MOST_OFFENDERS = 6, 3
_BUDGETS = (reason_pb2.BlockingPodReason.NOT_ENOUGH_PDB, reason_pb2.BlockingPodReason.SEVERAL_BUDGETS)
_NOTE = "Lifting a reason frees less than its nodes cost: their pods need room elsewhere."
_Reason = reason_pb2.UnremovableReason


def by_reason(answer: PlanAnswer) -> list[list[plan_pb2.NodeVerdict]]:
    """Return the nodes that stay, by reason; the reason that keeps the most nodes comes first."""
    found: dict[tuple[int, int], list[plan_pb2.NodeVerdict]] = defaultdict(list)
    for node in staying(answer.response):
        # The pod has a reason of its own only if it blocks the drain.
        found[node.reason, node.blocking_reason if node.reason == _Reason.BLOCKED_BY_POD else 0].append(node)
    return sorted(found.values(), key=lambda alike: (-len(alike), -sum(one.price_per_hour for one in alike)))


def why(answer: PlanAnswer, alike: Sequence[plan_pb2.NodeVerdict]) -> str:
    """Return the common reason of nodes that stay."""
    if alike[0].reason == _Reason.NOT_UNDERUTILIZED:
        limits = {percent(threshold(answer.settings, answer.view.nodes[one.node])) for one in alike}
        return f"{alike[0].why}{f' of {limits.pop()}' if len(limits) == 1 else ''}"
    return alike[0].why


def offenders(answer: PlanAnswer, alike: Sequence[plan_pb2.NodeVerdict]) -> list[tuple[str, int]]:
    """Return the causes of a reason with their numbers of nodes: budgets, controllers of pods, or predicates."""
    counts, bare = Counter[tuple[str, str]](), defaultdict[str, list[str]](list)
    for one in alike:
        of_pod, text = _cause(answer, one)
        owner = answer.view.owner_text(one.blocking_pod) if of_pod else ""
        if of_pod and not owner:
            bare[text].append(one.blocking_pod)
        elif of_pod or text:
            counts[owner, text] += 1
    found = Counter({f"{owner}{text}": count for (owner, text), count in counts.items()})
    found.update({f"{alone(keys)}{text}": len(keys) for text, keys in bare.items()})
    return found.most_common()


def _cause(answer: PlanAnswer, node: plan_pb2.NodeVerdict) -> tuple[bool, str]:
    """Return whether the pod that blocks a node is the cause, and the text, which then follows the pod's controller."""
    if node.blocking_reason in _BUDGETS:
        return False, budget_text(answer.view, node.blocking_pod)
    if node.reason == _Reason.BLOCKED_BY_POD:
        return True, ""
    if node.reason == _Reason.NO_PLACE_TO_MOVE_PODS and node.predicate_failure_counts:
        code = max(sorted(node.predicate_failure_counts), key=lambda name: node.predicate_failure_counts[name])
        return True, f", on most nodes: {clause_of(code)}"
    if node.reason == _Reason.NODE_GROUP_MIN_SIZE_REACHED:
        return False, group_text(answer.view, node.node)
    return False, node.detail


def group_text(view: ClusterView, node: str) -> str:
    """Return a node's group with its size and minimum."""
    group = view.groups[view.nodes[node].node_group]
    return f"node group {group.id}: {counted(group.target_size, 'node')}, minimum {group.min_size}"


def budget_text(view: ClusterView, pod: str) -> str:
    """Return the PodDisruptionBudget that selects a pod, with its numbers; if there are several, their names."""
    found = view.pod(pod)
    budgets = view.budgets_of(found) if found else []
    if not budgets:
        return f"pod {pod}"
    one, status = budgets[0], budgets[0].status
    name = f"budget {one.namespace}/{one.name}"
    if len(budgets) > 1:
        return f"budgets {some([f'{one.namespace}/{one.name}' for one in budgets])} match pod {pod}"
    if not one.HasField("status"):
        return f"{name}: no eviction allowed (it has no status yet)"
    if status.sync_error:
        return f"{name}: no eviction allowed, its controller cannot count the pods: {status.sync_error}"
    numbers = f"{status.current_healthy} of {status.expected_pods} pods healthy, {status.desired_healthy} required"
    if status.disruptions_allowed:
        return f"{name}: {counted(status.disruptions_allowed, 'eviction')} allowed at once, too few ({numbers})"
    return f"{name}: no eviction allowed ({numbers})"


def reasons_table(answer: PlanAnswer) -> Table:
    """Return a row for each reason why nodes stay, with its worst offenders."""
    groups, costs = by_reason(answer), answer.costs
    if costs.is_shown:
        groups.sort(key=lambda alike: -costs.of(one.node for one in alike))
    every = [(alike, costs.of(one.node for one in alike)) for alike in groups]
    longest = max((cost if costs.is_shown else len(alike) for alike, cost in every), default=0) or 1
    lines = []
    for alike, cost in every:
        text, found = why(answer, alike), offenders(answer, alike)
        example = "" if found else f" (such as {alike[0].node})"
        month = f"{cost * HOURS_A_MONTH:,.0f}" if costs.is_shown else ""
        value = month if costs.is_shown else f"{len(alike):,}"
        share = (cost if costs.is_shown else len(alike)) / longest
        bar = Bar(f"{text[:1].upper()}{text[1:]}: {counted(len(alike), 'node')}", value, share)
        more = tuple(f"{counted(count, 'node')}, {text}" for text, count in found)
        cells = (f"{len(alike):,}", money(cost) if month else "", month, f"{text}{example}")
        lines.append(Line(cells, more, bar=bar))
    count = sum(len(alike) for alike in groups)
    return without_empty_columns(
        Table(
            f"What keeps the other {counted(count, 'node')}" if any(going(answer.response)) else "What keeps nodes",
            ("nodes", "an hour", "a month", "because"),
            tuple(lines),
            _NOTE if costs.is_shown else "",
            sentences=("because",),
            is_folded=True,
            most=MOST_REASONS,
            most_more=MOST_OFFENDERS,
            heading=3,
            bars="What keeps nodes, by their price a month" if costs.is_shown else "What keeps nodes",
        )
    )
