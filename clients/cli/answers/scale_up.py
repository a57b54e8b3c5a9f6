"""Scale-up for people: which node groups grow, by how much, why, at what cost, and which pods stay pending."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from trimtab.clients.cli.amounts import counted, maximum, some
from trimtab.clients.cli.answers import expansion
from trimtab.clients.cli.answers.answer import PlanAnswer, money
from trimtab.clients.cli.blocks import Block, Line, Sentence, Style, Table, without_empty_columns
from trimtab.clients.cli.sentences import SCALE_UP_SENTENCES, SKIPPED_SENTENCES
from trimtab.clients.cluster_view import ClusterView, ShownPod, alone
from trimtab.places import count_places, shortfalls
from trimtab.prices import HOURS_A_MONTH
from trimtab.v1 import plan_pb2, reason_pb2

MOST_GANGS = 5


def lacking_lines(decision: plan_pb2.ScaleUpDecision, *, every: bool) -> Iterator[str]:
    """Yield what becomes of gangs, and a sentence for each without places. every : not only the first ones."""
    whole = [one for one in decision.gangs if not one.reason and one.placed_count]
    if whole:
        pods = sum(one.placed_count for one in whole)
        new = sum(one.on_new_nodes_count for one in whole)
        yield f"{counted(len(whole), 'gang')} can start whole: {counted(pods, 'pod')}, {new:,} of them on new nodes."
    lacking = [one for one in decision.gangs if one.reason]
    shown = lacking if every else lacking[:MOST_GANGS]
    yield from (f"Gang {gang_sentence(one)}" for one in shown)
    if len(lacking) > len(shown):
        yield f"{counted(len(lacking) - len(shown), 'more gang')} without places (--verbose shows all)."


def gang_sentence(gang: plan_pb2.GangResult) -> str:
    """Return what becomes of a gang, with its name."""
    if not gang.reason:
        domain = f", all in {gang.domain}" if gang.domain else ""
        running = gang.bound_count + gang.placed_count
        return f"{gang.group} can start whole: {running:,} of at least {gang.min_count:,} pods have places{domain}."
    return f"{gang.group} gets no places: {gang.detail} ({reason_pb2.GangReason.Code.Name(gang.reason)})."


def gang_of(view: ClusterView, pod: ShownPod, decision: plan_pb2.ScaleUpDecision) -> plan_pb2.GangResult | None:
    """Return what a decision says of the gang of a pod; None if it is in none."""
    key = view.group_of(pod)
    return result_of(key, decision) if key else None


def result_of(key: str, decision: plan_pb2.ScaleUpDecision) -> plan_pb2.GangResult | None:
    """Return what a decision says of a gang, "namespace/name"; None if nothing."""
    return next((gang for gang in decision.gangs if gang.group == key), None)


MOST_ROWS = 10
"""Rows of a table without `--verbose`."""
_Result = reason_pb2.ScaleUpResult


def blocks(answer: PlanAnswer) -> Iterator[Block]:
    """Yield the headline, the node groups that grow, and the pods that stay pending."""
    decision = answer.response.scale_up
    if answer.response.HasField("scale_down") and is_quiet(decision):
        return
    yield Sentence(headline(answer), Style.HEADLINE)
    yield from map(Sentence, (*without_new_nodes(decision), *lacking_lines(decision, every=answer.verbose)))
    lost = sum(not option.chosen for option in decision.options)
    remark = f"{counted(lost, 'other option')} lost: --verbose shows why." if lost and not answer.verbose else ""
    yield growth_table(answer)._replace(note=remark)
    yield pending_table(answer)
    yield from expansion.tables(decision)


def is_quiet(decision: plan_pb2.ScaleUpDecision) -> bool:
    """Whether no pod waits; then no line is shown beside the nodes that can go."""
    return decision.result == _Result.SCALE_UP_NOT_NEEDED and not tells_of_pods(decision)


def tells_of_pods(decision: plan_pb2.ScaleUpDecision) -> bool:
    """Whether the decision says what becomes of waiting pods."""
    return bool(decision.splits or decision.unschedulable or decision.skipped or decision.places.pods)


def headline(answer: PlanAnswer) -> str:
    """Return which groups grow, by how many nodes and at what cost, or why none grows."""
    decision = answer.response.scale_up
    detail = f": {decision.detail}" if decision.detail else ""
    if decision.splits:
        groups = counted(len(decision.splits), "node group")
        verb = "grows" if len(decision.splits) == 1 else "grow"
        nodes = counted(sum(split.new_size - split.current_size for split in decision.splits), "node")
        return f"{groups} {verb} by {nodes} for {_served(answer)}.{_cost(answer)}{detail}"
    if decision.unschedulable:
        count = sum(len(one.pods) for one in decision.unschedulable)
        return f"No node group can grow for {counted(count, 'pod')}{detail}."
    text = SCALE_UP_SENTENCES[decision.result]
    return f"{text[:1].upper()}{text[1:]}{detail}."


def _served(answer: PlanAnswer) -> str:
    """Return how many pods and placeholders the new nodes are for."""
    names = [pod for pods in answer.on_new_nodes.values() for pod in pods]
    placeholders = {placeholder.name for placeholder in answer.response.slack.placeholders}
    kept = sum(name in placeholders for name in names)
    parts = [counted(len(names) - kept, "pod")] if len(names) > kept or not kept else []
    return " and ".join([*parts, *([counted(kept, "placeholder")] if kept else [])])


def _cost(answer: PlanAnswer) -> str:
    """Return the cluster's cost before and after, if prices are known."""
    figures, costs = answer.figures(plan_pb2.Decision.SCALE_UP), answer.costs
    more, after = answer.response.scale_up.price_per_hour, figures.after.price_per_hour
    if not more and figures.bought_per_hour and costs.assumption:
        month = f"{HOURS_A_MONTH * figures.bought_per_hour:,.0f} a month"
        about = f"that costs about {money(figures.bought_per_hour)} an hour"
        return f" No price is known; {about}, {month} ({costs.assumption})."
    if not more:
        return " No price is known."
    unknown = sum(not split.HasField("price_per_hour") for split in answer.response.scale_up.splits)
    without = f"; {counted(unknown, 'node group')} without a price" if unknown else ""
    # Known and assumed prices are never added.
    change = f" ({money(after - more)} → {money(after)})" if costs.known else ""
    return f" That costs {costs.amount(more)} an hour{change}, {HOURS_A_MONTH * more:,.0f} a month{without}."


def without_new_nodes(decision: plan_pb2.ScaleUpDecision) -> Iterator[str]:
    """Yield in plain sentences where waiting pods go that need no new node, and which pods are not served."""
    count = count_places(decision.places)
    places = (
        (count.existing, "existing nodes"),
        (count.upcoming, "nodes requested before, which have not registered yet"),
    )
    for placed, where in places:
        if placed:
            verb = "fits" if placed == 1 else "fit"
            yield f"{counted(placed, 'pending pod')} {verb} on {where}."
    if decision.after_new_nodes:
        yield (
            f"Of these, {counted(len(decision.after_new_nodes), 'pod')} can be bound only after pods run on the new "
            "nodes: topology spread, affinity or their gangs depend on them."
        )
    skipped: dict[int, list[str]] = defaultdict(list)
    for one in decision.skipped:
        skipped[one.reason].append(one.pod)
    for reason, pods in sorted(skipped.items()):
        why = SKIPPED_SENTENCES[reason_pb2.SkippedPodReason.Code.ValueType(reason)]
        yield f"No node is added for {counted(len(pods), 'pod')} ({some(pods, 2)}): {why}."


def growth_table(answer: PlanAnswer) -> Table:
    """Return a row for each node group that grows, the one for the most pods first."""
    decision, pods = answer.response.scale_up, answer.on_new_nodes
    splits = sorted(decision.splits, key=lambda split: (-len(pods[split.node_group]), split.node_group))
    lines = []
    for split in splits:
        price, known = split.price_per_hour, split.HasField("price_per_hour")
        cells = (
            split.node_group,
            f"{split.current_size:,} → {split.new_size:,}",
            maximum(split.max_size),
            f"{len(pods[split.node_group]):,}",
            money(price) if known else "",
            f"{HOURS_A_MONTH * price:,.0f}" if known else "",
            expansion.chosen_because(decision, split.node_group),
        )
        lines.append(Line(cells, detail=f"for {_owners(answer, pods[split.node_group])}"))
    columns = ("node group", "nodes", "at most", "pods", "an hour", "a month", "because")
    words = ("node group", "because")
    return without_empty_columns(Table("What grows", columns, tuple(lines), sentences=words, most=MOST_ROWS))


def _owners(answer: PlanAnswer, pods: Sequence[str]) -> str:
    """Return the controllers of pods, those with the most pods first; for placeholders, their number."""
    placeholders = {placeholder.name for placeholder in answer.response.slack.placeholders}
    counts = Counter("placeholders" if pod in placeholders else answer.view.controller_text(pod) for pod in pods)
    texts = [owner if owner.startswith("pod ") else f"{owner} ({count})" for owner, count in counts.most_common()]
    return some(texts, len(texts) if answer.verbose else 2)


def pending(answer: PlanAnswer) -> list[tuple[tuple[str, str], list[tuple[str, plan_pb2.Shortfall]]]]:
    """Return the pods that stay pending by controller and reason, the most pods first; those without controller
    together.
    """
    alike: dict[tuple[str, str], list[tuple[str, plan_pb2.Shortfall]]] = defaultdict(list)
    for pod, shortfall in shortfalls(answer.response.scale_up).items():
        alike[answer.view.owner_text(pod), shortfall.detail].append((pod, shortfall))
    named = [((owner or alone([pod for pod, _ in pods]), why), pods) for (owner, why), pods in alike.items()]
    return sorted(named, key=lambda item: (-len(item[1]), item[0]))


def pending_table(answer: PlanAnswer) -> Table:
    """Return a row for each controller and each reason why its pods stay pending."""
    lines = []
    for (owner, detail), pods in pending(answer):
        groups = (f"{names}: {text}" for names, text in _by_group(pods[0][1]))
        lines.append(Line((f"{len(pods):,}", owner, detail), (*groups, ", ".join(pod for pod, _ in pods))))
    columns = ("pods", "of", "because")
    return Table("What stays pending", columns, tuple(lines), sentences=columns[1:], most=MOST_ROWS, heading=1)


def _by_group(shortfall: plan_pb2.Shortfall) -> Iterator[tuple[str, str]]:
    """Yield the node groups with the same reason, and its code."""
    groups: dict[str, list[str]] = defaultdict(list)
    for group, reason in sorted(shortfall.reasons.items()):
        text = reason_pb2.NodeGroupReason.Code.Name(reason)
        if group in shortfall.failed_predicates:
            text = reason_pb2.PredicateReason.Code.Name(shortfall.failed_predicates[group])
        groups[text].append(group)
    for text, names in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        yield some(names, 5), text
