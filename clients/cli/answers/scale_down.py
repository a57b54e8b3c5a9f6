"""Scale-down for people: how many nodes can go, what that saves, which nodes they are, and what keeps the others."""

from collections import Counter
from collections.abc import Iterator, Sequence

from trimtab.clients.cli.amounts import amount, counted, duration, named_amount, percent, some
from trimtab.clients.cli.answers import blockers
from trimtab.clients.cli.answers.answer import DEFAULT_PARALLELISM, PlanAnswer, money, remaining_s
from trimtab.clients.cli.blocks import LATER, NO_PODS, NOW, Block, Line, Sentence, Style, Table, without_empty_columns
from trimtab.clients.cli.sentences import RESULT_SENTENCES
from trimtab.clients.verdicts import going
from trimtab.prices import HOURS_A_MONTH
from trimtab.v1 import plan_pb2, reason_pb2

MOST_ROWS = 10
"""Nodes that are shown without `--verbose`."""
_Reason = reason_pb2.UnremovableReason
_Result = reason_pb2.ScaleDownResult
_TELLING_RESULTS = (
    _Result.SCALE_DOWN_ERROR,
    _Result.SCALE_DOWN_NOT_TRIED,
    _Result.SCALE_DOWN_IN_COOLDOWN,
    _Result.SCALE_DOWN_CLUSTER_UNHEALTHY,
    _Result.SCALE_DOWN_THROTTLED,
)
"""Results that tell more than the numbers of nodes do."""


def blocks(answer: PlanAnswer) -> Iterator[Block]:
    """Yield the headline, the nodes that can go, and what keeps the others."""
    decision = answer.response.scale_down
    yield Sentence(headline(answer), Style.HEADLINE)
    yield from map(Sentence, (*_objective(answer), *_moves(decision), *_when(answer)))
    if answer.costs.known and answer.costs.sources:
        yield Sentence(answer.costs.sources, Style.MUTED)
    if told := telling_result(decision):
        yield Sentence(told, Style.WARNING)
    yield unneeded_table(answer)
    yield blockers.reasons_table(answer)


def telling_result(decision: plan_pb2.ScaleDownDecision) -> str:
    """Return the result as a sentence, if it tells more than the numbers of nodes do; else ""."""
    if decision.result not in _TELLING_RESULTS:
        return ""
    text, detail = RESULT_SENTENCES[decision.result], f": {decision.detail}" if decision.detail else ""
    return f"{text[:1].upper()}{text[1:]}{detail}."


def headline(answer: PlanAnswer) -> str:
    """Return the number and share of nodes that can go, and the saving."""
    total, names = answer.node_count, [one.node for one in going(answer.response)]
    if not names:
        return f"None of {counted(total, 'node')} can go." if total else "There are no nodes."
    share = percent(len(names) / total)
    return f"{len(names):,} of {counted(total, 'node')} can go ({share}). {_saving(answer, names)}"


def _objective(answer: PlanAnswer) -> Iterator[str]:
    """Yield what decided between plans, if that was money, and how far the bound is."""
    figures = answer.figures(plan_pb2.Decision.SCALE_DOWN)
    bound = figures.most_saved_per_hour
    if figures.objective == plan_pb2.Objective.MONEY and figures.removed_node_count and bound > 0:
        share = percent(min(figures.saved_per_hour / bound, 1.0))
        yield f"Optimised for cost: {share} of the theoretical maximum, which ignores disruption budgets and affinity."


def _moves(decision: plan_pb2.ScaleDownDecision) -> Iterator[str]:
    """Yield how many pods have to move."""
    if decision.unneeded:
        pods = len(decision.places.pods)
        fit = "1 pod has to move, and fits" if pods == 1 else f"{pods:,} pods have to move, and fit"
        yield f"{fit} on the nodes that stay, all at the same time." if pods else "No pod has to move."


def _saving(answer: PlanAnswer, nodes: Sequence[str]) -> str:
    """Return the cost of some nodes or, if no price is known, their capacity."""
    costs, saved = answer.costs, answer.figures(plan_pb2.Decision.SCALE_DOWN).saved_per_hour
    if not costs.known:
        cpu, memory = (_capacity(answer, nodes, resource) for resource in ("cpu", "memory"))
        frees = f"That frees {amount('cpu', cpu)} and {named_amount('memory', memory)}"
        share = f" ({percent(saved / costs.total)})" if costs.total else ""
        worth = f"about {money(saved)} of {money(costs.total)} an hour{share}, {saved * HOURS_A_MONTH:,.0f} a month"
        return f"{frees}: {worth} ({costs.assumption})."
    month = f"{saved * HOURS_A_MONTH:,.0f}"
    share = f" ({percent(saved / costs.total)})" if costs.total else ""
    return f"That saves {money(saved)} of {costs.amount(costs.total)} an hour{share}, {month} a month."


def _capacity(answer: PlanAnswer, nodes: Sequence[str], resource: str) -> int:
    """Return how much of a resource some nodes offer."""
    return sum(answer.view.allocatable(node).get(resource, 0) for node in nodes)


def _when(answer: PlanAnswer) -> Iterator[str]:
    """Yield which nodes go now, and what the rest wait for."""
    decision = answer.response.scale_down
    if not decision.unneeded:
        return
    now = len(decision.delete_empty) + len(decision.drain)
    drained = f" ({len(decision.drain)} after a drain)" if decision.drain else ""
    yield f"{_go(now)} now{drained}." if now else "None goes now."
    waiting = [one for one in going(answer.response) if one.reason and one.wave <= 1]
    timed = [one for one in waiting if one.HasField("goes_at")]
    if timed:
        left = duration(max(remaining_s(one, answer.now_ns) for one in timed))
        asked = duration(max(one.goes_at.ToNanoseconds() - one.since.ToNanoseconds() for one in timed) / 1e9)
        when = f"after {asked} of being unneeded"
        more = "" if left != asked else " Each run restarts that clock unless you pass --state."
        in_time = when if left == asked else f"in {left}, {when}"
        yield f"{len(timed):,} could be removed {in_time}{_at_most(answer, len(timed))}.{more}"
    others = Counter(one.detail or one.why for one in waiting if one not in timed)
    for text, count in others.most_common(3):
        yield f"{_go(count)} later: {text}."
    yield from _later_waves(answer)


def _later_waves(answer: PlanAnswer) -> Iterator[str]:
    """Yield how many nodes go in later waves."""
    waves = [one.wave for one in going(answer.response) if one.wave > 1]
    if waves:
        span = f"wave {max(waves)}" if min(waves) == max(waves) else f"waves {min(waves)} to {max(waves)}"
        follow = "follows" if len(waves) == 1 else "follow"
        yield f"{len(waves):,} more {follow} in {span}, as disruption budgets recover."


def _at_most(answer: PlanAnswer, count: int) -> str:
    """Return how many nodes may go at a time, if that is fewer than can go."""
    settings = answer.settings.scale_down
    given = settings.HasField("max_scale_down_parallelism")
    most = settings.max_scale_down_parallelism if given else DEFAULT_PARALLELISM
    return f", {most} at a time" if most < count else ""


def _go(count: int) -> str:
    """Return "1 goes", "2 go"."""
    return f"{count:,} {'goes' if count == 1 else 'go'}"


def unneeded_table(answer: PlanAnswer) -> Table:
    """Return the nodes that can go: most expensive first, then the least used."""
    lines = []
    for one in sorted(going(answer.response), key=lambda one: (-one.price_per_hour, one.utilization)):
        targets = Counter(sorted(answer.moves.get(one.node, {}).values()))
        places = [f"{node} ({count})" for node, count in targets.most_common()]
        price = answer.costs.text([one.node]) if answer.costs.known else ""
        where = some(places, len(places) if answer.verbose else 2) or NO_PODS
        when = moment(answer, one)
        if answer.verbose and when != NOW:
            when = f"{when} ({_Reason.Code.Name(one.reason)})"
        cells = (one.node, price, percent(one.utilization), str(targets.total()), when, where)
        lines.append(Line(cells))
    columns = ("node", "an hour", "used", "pods", "when", "its pods go to")
    words = ("node", "when", "its pods go to")
    return without_empty_columns(
        Table("What can go", columns, tuple(lines), sentences=words, is_folded=True, most=MOST_ROWS)
    )


def moment(answer: PlanAnswer, node: plan_pb2.NodeVerdict) -> str:
    """Return when a node goes that can go: now, in a wave, in a while, or later."""
    if node.fate == plan_pb2.NodeFate.GOES_NOW:
        return NOW
    if node.wave > 1:
        return f"in wave {node.wave}"
    return f"in {duration(remaining_s(node, answer.now_ns))}" if node.HasField("goes_at") else LATER
