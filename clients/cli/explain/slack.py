"""Slack as a whole, or one placeholder: how much is requested, how much there is and where, what it costs, what it
reserves. Built from the planner's answer: slack gives the placeholders and their nodes, scale-up the new nodes that
they wait for, scale-down the nodes that stay for them. A placeholder costs the share of its node's price that it takes
of the node: the larger of the shares of cpu and memory.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from trimtab.clients.cli.amounts import amount, counted, named_amount, percent, some
from trimtab.clients.cli.answers.answer import Costs
from trimtab.clients.cli.answers.slack import RESULTS, amounts_text, gangs_present, kept_free, set_of
from trimtab.clients.cli.blocks import Sentence, Style, led
from trimtab.clients.cli.decisions import asking, default_decisions
from trimtab.clients.cli.prices import Prices
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.planner_client import PlannerClient
from trimtab.clients.verdicts import going
from trimtab.places import on_new_nodes
from trimtab.v1 import plan_pb2, reason_pb2

_NO_GROWTH = "no node group grows for it now"
_FOR_SLACK = reason_pb2.UnremovableReason.NEEDED_FOR_SLACK
_KINDS = {
    plan_pb2.PlaceholderKind.UNSPECIFIED: "of unknown kind",
    plan_pb2.PlaceholderKind.STANDARD: "a share of an average node, for any pod",
    plan_pb2.PlaceholderKind.LARGEST: "as large as the largest pod, for any pod",
    plan_pb2.PlaceholderKind.WORKLOAD: "a copy of the pods of an annotated workload",
    plan_pb2.PlaceholderKind.CAPACITY_BUFFER: "requested by a CapacityBuffer",
}


@dataclass(frozen=True)
class SlackExplanation:
    """The planner's answer about slack. staying : nodes that stay, or are not deleted now, because slack needs them.
    view : the snapshot; costs : computes what nodes cost.
    """

    view: ClusterView
    answer: plan_pb2.PlanResponse
    staying: tuple[str, ...]
    costs: Costs

    @property
    def placeholders(self) -> Sequence[plan_pb2.Placeholder]:
        """All placeholders, grouped by set."""
        return self.answer.slack.placeholders

    def group_for(self, name: str) -> str:
        """Return the node group that grows for a placeholder, "" = none."""
        return next((group for group, pods in self._on_new_nodes.items() if name in pods), "")

    def groups_for_gang(self, placeholder: plan_pb2.Placeholder) -> str:
        """Return the node groups that grow for others of a placeholder's gang, "" = none, or it is in none."""
        if not placeholder.is_in_gang:
            return ""
        mine = {one.name for one in self.placeholders if set_of(one) == set_of(placeholder)}
        return ", ".join(group for group, pods in self._on_new_nodes.items() if mine & {*pods})

    @cached_property
    def _on_new_nodes(self) -> dict[str, list[str]]:
        return on_new_nodes(self.answer.scale_up)

    def why_waiting(self, name: str) -> str:
        """Return why no node group grows for a placeholder, in a sentence; "" if it has a node or is not decided."""
        return self._why_waiting.get(name, "")

    @cached_property
    def _why_waiting(self) -> dict[str, str]:
        rows = self.answer.scale_up.waiting_placeholders
        return {name: row.detail for row in rows for name in row.pods}

    def share(self, placeholder: plan_pb2.Placeholder) -> float:
        """Return the share of its node that a placeholder takes, 0 if it is on none."""
        if not placeholder.node:
            return 0.0
        has = self.view.allocatable(placeholder.node)
        sizes = (("cpu", placeholder.cpu_milli), ("memory", placeholder.memory_bytes))
        return max((size / has[name] for name, size in sizes if has.get(name)), default=0.0)

    def price(self, placeholder: plan_pb2.Placeholder) -> float:
        """Return the hourly cost of a placeholder's room, 0 if it is not known."""
        if not self.costs.known:
            return 0.0
        return self.share(placeholder) * self.costs.of([placeholder.node])


def explain_slack(
    planner: PlannerClient, view: ClusterView, request: plan_pb2.PlanRequest, prices: Prices | None = None
) -> SlackExplanation:
    """Ask the planner for slack and its effects on the other decisions. prices : of a file."""
    chosen = [plan_pb2.Decision.SLACK, *default_decisions(request.settings, view.snapshot)]
    wanted = asking(request, (one for one in chosen if one != plan_pb2.Decision.POD_COSTS))
    answer = planner.plan(view.snapshot, wanted)
    stay = [one.node for one in answer.nodes if one.reason == _FOR_SLACK]
    return SlackExplanation(view, answer, tuple(stay), Costs(answer, view, prices))


def slack_sentences(explanation: SlackExplanation) -> Iterator[Sentence]:
    """Yield the explanation of slack as a whole, as sentences."""
    slack = explanation.answer.slack
    yield led(Style.HEADLINE, "Slack", f": {RESULTS[slack.result]}.")
    if slack.desired:
        yield Sentence(f"Requested: at least {amounts_text(slack.desired)}.")
        yield Sentence(f"Kept free: {kept_free(slack)}{_cost(explanation.costs, slack.price_per_hour)}.")
    for name, rows in groupby(explanation.placeholders, key=set_of):
        yield from _set_sentences(explanation, name, list(rows))
    if slack.objects:
        yield Sentence("")
    for one in slack.objects:
        why = f": {one.problem}" if one.problem else ""
        asked = counted(one.asked_count, "pod")
        yield Sentence(f"{one.object} requests room for {asked}, {one.present_count:,} present{why}.")
        if one.asked_gang_count:
            yield Sentence(f"{gangs_present(one)}.", indent=2)
    yield Sentence("")
    if explanation.staying:
        verb = "stays" if len(explanation.staying) == 1 else "stay"
        nodes = some(explanation.staying, 5)
        yield Sentence(f"{counted(len(explanation.staying), 'node')} {verb} because of slack: {nodes}.")
    else:
        yield Sentence("No node stays because of slack.")
    if slack.pushed_out:
        yield Sentence(f"Displaced from their nodes: {some(list(slack.pushed_out), 5)}.")
    yield from (Sentence(f"! {problem}", Style.WARNING) for problem in slack.problems)


def _set_sentences(
    explanation: SlackExplanation, name: str, rows: Sequence[plan_pb2.Placeholder]
) -> Iterator[Sentence]:
    """Yield what a set of equal placeholders reserves, where, and what those without node wait for."""
    price = sum(explanation.price(row) for row in rows)
    what = f"{counted(len(rows), 'placeholder')} of {_size(rows[0])} each, {_KINDS[rows[0].kind]}"
    yield led(Style.HEADLINE, name, f": {what}{_cost(explanation.costs, price)}.")
    nodes = Counter(row.node for row in rows if row.node)
    for node, count in sorted(nodes.items()):
        yield Sentence(f"{count:,} on {node}", indent=2)
    groups = Counter(_waits_for(explanation, row) for row in rows if not row.node)
    for grows, count in sorted(groups.items()):
        yield Sentence(f"{count:,} {'waits' if count == 1 else 'wait'} {grows}", indent=2)


def _waits_for(explanation: SlackExplanation, placeholder: plan_pb2.Placeholder) -> str:
    """Return what a placeholder without a node waits for."""
    group, others = explanation.group_for(placeholder.name), explanation.groups_for_gang(placeholder)
    if group:
        return f"for a new node of {group}"
    if others:
        return f"for the rest of the gang, on new nodes of {others}"
    return f"for room; {explanation.why_waiting(placeholder.name) or _NO_GROWTH}"


def placeholder_sentences(explanation: SlackExplanation, placeholder: plan_pb2.Placeholder) -> Iterator[Sentence]:
    """Yield the explanation of one placeholder, as sentences."""
    view = explanation.view
    alike = sum(set_of(other) == set_of(placeholder) for other in explanation.placeholders)
    yield led(
        Style.HEADLINE,
        f"Placeholder {placeholder.name}",
        f", one of {alike:,}: it keeps {_size(placeholder)} free, {_KINDS[placeholder.kind]}.",
    )
    if placeholder.for_object:
        yield Sentence(f"It is for {placeholder.for_object}.")
    if placeholder.pool:
        yield Sentence(f"The settings of pool {placeholder.pool} ask for it.")
    if placeholder.is_in_gang:
        yield Sentence("All placeholders of its gang are on nodes, or none is.")
    if not placeholder.node:
        group, others = explanation.group_for(placeholder.name), explanation.groups_for_gang(placeholder)
        if others and not group:
            grow = f"node group {others} grows for the rest of it"
            yield led(Style.WARNING, "It waits with its gang", f": a node has room for it, and {grow}.")
        elif group:
            yield led(Style.WARNING, "It waits for a new node", f": node group {group} grows for it.")
        else:
            why = explanation.why_waiting(placeholder.name) or _NO_GROWTH
            yield led(Style.WARNING, "It waits for room", f": no node has room for it; {why}.")
        return
    beside_it = sum(other.node == placeholder.node for other in explanation.placeholders) - 1
    pods = len(view.pods_on(placeholder.node))
    group = view.nodes[placeholder.node].node_group
    of = f" of node group {group}" if group else ""
    beside = f"beside {counted(pods, 'pod')} and {counted(beside_it, 'other placeholder')}"
    yield Sentence(f"It is on {placeholder.node}{of}, {beside}.")
    cost = _cost(explanation.costs, explanation.price(placeholder))
    yield Sentence(f"It takes {percent(explanation.share(placeholder))} of that node{cost}.")
    if placeholder.node in explanation.staying:
        yield Sentence(f"Slack keeps {placeholder.node}: without that node there is no room for it.")
    elif any(entry.node == placeholder.node for entry in going(explanation.answer)):
        yield Sentence(f"It blocks nothing: {placeholder.node} can go, as there is room for it elsewhere.")
    else:
        yield Sentence(f"It blocks nothing: {placeholder.node} stays for another reason.")


def _size(placeholder: plan_pb2.Placeholder) -> str:
    return f"{amount('cpu', placeholder.cpu_milli)} and {named_amount('memory', placeholder.memory_bytes)}"


def _cost(costs: Costs, price: float) -> str:
    """Return the cost of room, "" if no price is known."""
    return f", which costs {costs.rate(price, decimals=2)}" if price else ""
