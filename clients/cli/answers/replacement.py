"""Replacement for people: what the cluster costs before and after, the waves, the plans from careful to bold, and what
keeps the other nodes, in money.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from trimtab.clients.cli.amounts import counted, duration, percent, some
from trimtab.clients.cli.answers.answer import PlanAnswer, money
from trimtab.clients.cli.blocks import COLORS, NO_PODS, Block, Chart, Line, Sentence, Style, Table, rows
from trimtab.clients.cli.plot_figure import CHOSEN, OTHERS, PlotFigure, finished
from trimtab.clients.cli.sentences import REPLACEMENT_SENTENCES
from trimtab.clients.verdicts import not_replaced
from trimtab.places import moves_by_node
from trimtab.prices import HOURS_A_MONTH
from trimtab.reason_texts import LIMIT_SENTENCES
from trimtab.v1 import plan_pb2, reason_pb2

MOST_NODES: Final = 200
"""Nodes of a reason that a click shows."""
WAVES_NOTE: Final = (
    "The new nodes of a wave are ready before its first pod is evicted; a wave begins when the pods of the wave before "
    "run again."
)
KEPT_NOTE: Final = "What replacing each node alone would save at most, if the condition were lifted."
MOST_ROWS: Final = 10
"""Rows of tables without `--verbose`."""
HINT: Final = "`--decision scale-down --decision replacement` also looks for cheaper nodes in place of some."
WAVE_COLUMNS: Final = ("wave", "new nodes", "nodes that leave", "pods moved", "saves an hour", "cost then")
FRONTIER_COLUMNS: Final = ("waves", "leave", "come", "pods", "an hour", "a month", "Balanced", "pays in", "stopped by")
_Result = reason_pb2.ReplacementResult
_LIMIT_NAMES: Final = {name: LIMIT_SENTENCES[code] for name, code in reason_pb2.ReplacementLimit.Code.items()}


class KeptFor(NamedTuple):
    """Nodes that stay for the same reason, the one with most to save first. saving_per_hour : of all of them, if each
    were replaced alone.
    """

    why: str
    nodes: Sequence[plan_pb2.NodeVerdict]
    saving_per_hour: float


def blocks(answer: PlanAnswer) -> Iterator[Block]:
    """Yield the money, the waves, the plans from careful to bold, and what keeps the other nodes."""
    decision = answer.response.replacement
    yield Sentence(headline(answer), Style.HEADLINE)
    if not answer.response.HasField("scale_down") and answer.costs.known and answer.costs.sources:
        yield Sentence(answer.costs.sources, Style.MUTED)
    if text := unpriced(answer):
        yield Sentence(text)
    if decision.incomplete:
        yield Sentence("The search ended with its time or its bound; a later plan may save more.")
    yield from tables(answer)
    if answer.verbose and decision.excluded:
        yield Sentence(f"No new node of: {', '.join(sorted(decision.excluded))}.")


def headline(answer: PlanAnswer) -> str:
    """Return how many nodes leave and come, in how many waves, and the saving; else why none is replaced."""
    decision, figures = answer.response.replacement, answer.figures(plan_pb2.Decision.REPLACEMENT)
    if not decision.waves:
        return f"No node is replaced: {outcome_text(decision)}."
    leaving, new = figures.removed_node_count, figures.added_node_count
    saved, before = figures.saved_per_hour - figures.bought_per_hour, before_per_hour(answer)
    currency = answer.costs.named
    share = f" ({percent(saved / before)})" if before else ""
    what = f"{counted(leaving, 'node')} {'leaves' if leaving == 1 else 'leave'}"
    comes = f"{counted(new, 'new node')} {'comes' if new == 1 else 'come'}" if new else "no new node comes"
    month = f"{saved * HOURS_A_MONTH:,.0f}"
    saves = f"That saves {money(saved)} of {money(before)}{currency} an hour{share}, {month} a month."
    return f"Replacement: {what}, {comes}, in {counted(len(decision.waves), 'wave')}. {saves}"


def outcome_text(decision: plan_pb2.ReplacementDecision) -> str:
    """Return in one clause why no node is replaced. A detail of names of limits is shown in words."""
    text = REPLACEMENT_SENTENCES[decision.result]
    if not decision.detail:
        return text
    names = [one.strip() for one in decision.detail.split(",")]
    detail = "; ".join(_LIMIT_NAMES[one] for one in names) if set(names) <= set(_LIMIT_NAMES) else decision.detail
    return f"{text} ({detail})"


def amounts(answer: PlanAnswer) -> list[tuple[str, float]]:
    """Return each line of money with its amount for one hour; empty = no price is known."""
    figures, now = answer.figures(plan_pb2.Decision.REPLACEMENT), answer.summary.now.price_per_hour
    if not answer.costs.known:
        return []
    found, before = [("now", now)], before_per_hour(answer)
    if answer.response.HasField("scale_down"):
        found.append(("scale-down alone", before))
    found.append(("with replacement", figures.after.price_per_hour))
    if figures.HasField("most_saved_per_hour"):
        found.append(("no cluster of these node groups below", before - figures.most_saved_per_hour))
    return found


def before_per_hour(answer: PlanAnswer) -> float:
    """Return what the cluster costs for one hour before the replacement, after the decisions before it."""
    figures = answer.figures(plan_pb2.Decision.REPLACEMENT)
    return figures.after.price_per_hour + figures.saved_per_hour - figures.bought_per_hour


def unpriced(answer: PlanAnswer) -> str:
    """Return a sentence on nodes that are in no sum, "" = there are none."""
    count = answer.summary.now.unpriced_node_count
    if not count:
        return ""
    verb, they = ("is", "it stays, and is") if count == 1 else ("are", "they stay, and are")
    return f"{counted(count, 'node')} {verb} of no node group with a price: {they} in no sum."


def groups_text(wave: plan_pb2.ReplacementWave) -> str:
    """Return the new nodes of a wave by node group: "2 of small, 1 of large"."""
    counts = Counter(new_node.node_group for new_node in wave.new_nodes)
    return ", ".join(f"{count} of {group}" for group, count in sorted(counts.items()))


def frontier_chart(answer: PlanAnswer) -> Chart | None:
    """Return what the cluster costs an hour over the pods that each plan moves, None = there are no plans."""
    decision = answer.response.replacement
    if not decision.frontier:
        return None
    figures, before = answer.figures(plan_pb2.Decision.REPLACEMENT), before_per_hour(answer)
    plans = [(one.evicted_pod_count, round(before - one.saving_per_hour, 4)) for one in decision.frontier]
    texts = [f"{one.leaving_node_count} leave, {one.new_node_count} come" for one in decision.frontier]
    figure, bound = PlotFigure(), round(before - figures.most_saved_per_hour, 4)
    points = [(0, round(before, 4)), *plans]
    figure.add_line("plans", *map(list, zip(*points, strict=True)), color=COLORS[0])
    for name, marker in (("other plans", OTHERS), ("chosen", CHOSEN)):
        marks = zip(plans, texts, decision.frontier, strict=True)
        found = [(*plan, text) for plan, text, one in marks if one.chosen == (name == "chosen")]
        if found:
            figure.add_marks(name, found, **marker)
    if figures.HasField("most_saved_per_hour"):
        figure.add_line("no cluster below", [0, points[-1][0]], [bound, bound], color=COLORS[4], dash="dot")
    told = "; ".join(f"{money(cost)} with {pods:,} pods moved" for pods, cost in points)
    title = "What replacement saves for how many moves"
    return Chart(title, f"Cost of an hour: {told}.", finished(figure, "cost of an hour", "pods moved"))


def wave_rows(answer: PlanAnswer, most_names: int = 2) -> Iterator[tuple[str, ...]]:
    """Yield a row for each wave: `WAVE_COLUMNS`. "cost then" is what the cluster costs after it."""
    decision = answer.response.replacement
    cost, most = before_per_hour(answer), 10_000 if answer.verbose else most_names
    for number, wave in enumerate(decision.waves, 1):
        cost -= wave.saving_per_hour
        names = some([one.node for one in wave.leaving], most)
        yield (
            f"{number}",
            groups_text(wave) or "none",
            f"{len(wave.leaving)}: {names}",
            f"{wave.evicted_pod_count:,}",
            money(wave.saving_per_hour),
            money(cost),
        )


def frontier_rows(decision: plan_pb2.ReplacementDecision) -> Iterator[tuple[str, ...]]:
    """Yield a row for each plan from careful to bold: `FRONTIER_COLUMNS`."""
    for number, one in enumerate(decision.frontier, 1):
        stop = LIMIT_SENTENCES[one.stopped_by] if one.stopped_by or number == len(decision.frontier) else ""
        detail = f": {one.detail}" if one.detail else ""
        chosen = "chosen" if one.chosen else ""
        pays = one.payback_time.ToNanoseconds() / 1e9
        yield (
            f"{one.wave_count}",
            f"{one.leaving_node_count:,}",
            f"{one.new_node_count:,}",
            _disturbed(one),
            money(one.saving_per_hour),
            f"{one.saving_per_hour * HOURS_A_MONTH:,.0f}",
            f"{one.balanced_score:.2f}" if one.HasField("balanced_score") else "",
            (duration(pays) if pays >= 1 else "at once") if one.HasField("payback_time") else "never",
            "; ".join(filter(None, (chosen, f"{stop}{detail}"))),
        )


def _disturbed(option: plan_pb2.ReplacementOption) -> str:
    """Return how many pods move, and how many running gangs that disturbs, if any."""
    gangs = option.disturbed_gang_count
    more = f" ({counted(gangs, 'gang')})" if gangs else ""
    return f"{option.evicted_pod_count:,}{more}"


def kept_by_reason(answer: plan_pb2.PlanResponse) -> list[KeptFor]:
    """Return the nodes that stay by the condition that keeps them, the most money first."""
    alike: dict[str, list[plan_pb2.NodeVerdict]] = {}
    for one in not_replaced(answer):
        alike.setdefault(one.not_replaced.why, []).append(one)
    found = [
        KeptFor(
            why,
            sorted(nodes, key=lambda one: (-one.not_replaced.saving_per_hour, one.node)),
            sum(one.not_replaced.saving_per_hour for one in nodes),
        )
        for why, nodes in alike.items()
    ]
    return sorted(found, key=lambda one: (-one.saving_per_hour, -len(one.nodes), one.why))


def example(kept: KeptFor) -> str:
    """Return the node, or the pod in its way, that keeps most."""
    first = kept.nodes[0]
    return first.not_replaced.blocking_pod or first.node


def tables(answer: PlanAnswer) -> Iterator[Table]:
    """Yield money, waves, the nodes that leave, the plans from careful to bold, and what keeps the other nodes."""
    decision = answer.response.replacement
    money_lines = [(text, money(hour), f"{hour * HOURS_A_MONTH:,.0f}") for text, hour in amounts(answer)]
    yield Table("What the cluster costs", ("", "an hour", "a month"), rows(money_lines), sentences=("",))
    if decision.waves:
        yield Table("Waves", WAVE_COLUMNS, rows(list(wave_rows(answer))), WAVES_NOTE, sentences=WAVE_COLUMNS[1:3])
        yield _leaving(answer)
    if decision.frontier:
        plans = rows(list(frontier_rows(decision)))
        yield Table("From careful to bold", FRONTIER_COLUMNS, plans, sentences=FRONTIER_COLUMNS[-1:])
    if any(not_replaced(answer.response)):
        yield _kept(answer)


def _leaving(answer: PlanAnswer) -> Table:
    """Return the nodes that leave, with where their pods go."""
    lines = []
    for number, wave in enumerate(answer.response.replacement.waves, 1):
        moves = moves_by_node(wave.places)
        for one in wave.leaving:
            to_nodes = Counter(sorted(moves.get(one.node, {}).values()))
            places = [f"{to} ({count})" for to, count in to_nodes.most_common()]
            where = some(places, len(places) if answer.verbose else 2) or NO_PODS
            cells = (one.node, one.node_group, money(one.price_per_hour), f"{to_nodes.total()}", f"{number}", where)
            lines.append(Line(cells))
    columns = ("node", "node group", "an hour", "pods", "wave", "its pods go to")
    words = ("node", "node group", "its pods go to")
    return Table("What leaves", columns, tuple(lines), sentences=words, is_folded=True, most=MOST_ROWS)


def _kept(answer: PlanAnswer) -> Table:
    """Return what keeps the other nodes, by what replacing each alone would save at most."""
    count = sum(1 for _ in not_replaced(answer.response))
    which = "other " if answer.response.replacement.waves else ""
    title = f"What keeps the {which}{'node' if count == 1 else f'{count:,} nodes'} with a price"
    lines = []
    for kept in kept_by_reason(answer.response):
        more = tuple(
            f"{node}: {money(one.saving_per_hour)}{f', {one.blocking_pod}' if one.blocking_pod else ''}"
            for node, one in ((node.node, node.not_replaced) for node in kept.nodes[:MOST_NODES])
        )
        cells = (f"{len(kept.nodes):,}", money(kept.saving_per_hour), f"{kept.why} (such as {example(kept)})")
        lines.append(Line(cells, more))
    columns = ("nodes", "an hour at most", "because")
    return Table(title, columns, tuple(lines), KEPT_NOTE, sentences=columns[-1:], is_folded=True, heading=2)
