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
from typing import Any

from rich.markup import escape

from trimtab.clients.cli.amounts import amount, counted, named_amount, percent, some
from trimtab.clients.cli.answers.answer import Costs, money
from trimtab.clients.cli.answers.slack import RESULTS, gangs_present, kept_free, set_of
from trimtab.clients.cli.decisions import default_decisions
from trimtab.clients.cli.output import as_document
from trimtab.clients.cli.planners import PlannerAccess
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.verdicts import going
from trimtab.places import on_new_nodes
from trimtab.prices import HOURS_A_MONTH
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
        return {name: one.detail for one in rows for name in one.pods}

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


def explain_slack(planner: PlannerAccess, view: ClusterView, request: plan_pb2.PlanRequest) -> SlackExplanation:
    """Ask the planner for slack and its effects on the other decisions."""
    wanted = plan_pb2.PlanRequest()
    wanted.CopyFrom(request)
    chosen = [plan_pb2.Decision.SLACK, *default_decisions(request.settings, view.snapshot)]
    wanted.decisions.extend(dict.fromkeys(one for one in chosen if one != plan_pb2.Decision.POD_COSTS))
    answer = planner.plan(view.snapshot, wanted)
    stay = [one.node for one in answer.nodes if one.reason == _FOR_SLACK]
    return SlackExplanation(view, answer, tuple(stay), Costs(answer, view))


def slack_document(explanation: SlackExplanation) -> dict[str, Any]:
    """Return the explanation of slack as a whole, for programs."""
    slack = as_document(explanation.answer.slack)
    slack.pop("dictionary", None)
    slack["placeholders"] = [placeholder_document(explanation, one) for one in explanation.placeholders]
    return slack | {"nodesThatStay": list(explanation.staying)}


def placeholder_document(explanation: SlackExplanation, one: plan_pb2.Placeholder) -> dict[str, Any]:
    """Return the explanation of one placeholder, for programs."""
    return {
        "name": one.name,
        "kind": plan_pb2.PlaceholderKind.Code.Name(one.kind),
        "for": one.for_object,
        "pool": one.pool,
        "cpuMilli": str(one.cpu_milli),
        "memoryBytes": str(one.memory_bytes),
        "node": one.node,
        "nodeGroup": explanation.group_for(one.name),
        "shareOfNode": explanation.share(one),
        "pricePerHour": explanation.price(one),
        "nodeStaysForSlack": one.node in explanation.staying,
    }


def slack_lines(explanation: SlackExplanation) -> Iterator[str]:
    """Yield the explanation of slack as a whole, as lines of rich text."""
    slack = explanation.answer.slack
    yield f"[bold]Slack[/bold]: {RESULTS[slack.result]}."
    if slack.desired:
        yield f"Requested: at least {_amounts(slack.desired)}."
        yield f"Kept free: {kept_free(slack)}{_cost(slack.price_per_hour)}."
    for name, rows in groupby(explanation.placeholders, key=set_of):
        yield ""
        yield from _set_lines(explanation, name, list(rows))
    if slack.objects:
        yield ""
    for one in slack.objects:
        why = f": {one.problem}" if one.problem else ""
        yield escape(
            f"{one.object} requests room for {counted(one.asked_count, 'pod')}, {one.present_count:,} present{why}."
        )
        if one.asked_gang_count:
            yield escape(f"  {gangs_present(one)}.")
    yield ""
    if explanation.staying:
        verb = "stays" if len(explanation.staying) == 1 else "stay"
        nodes = escape(some(explanation.staying, 5))
        yield f"{counted(len(explanation.staying), 'node')} {verb} because of slack: [cyan]{nodes}[/cyan]."
    else:
        yield "No node stays because of slack."
    if slack.pushed_out:
        yield escape(f"Displaced from their nodes: {some(list(slack.pushed_out), 5)}.")
    yield from (escape(f"! {problem}") for problem in slack.problems)


def _set_lines(explanation: SlackExplanation, name: str, rows: Sequence[plan_pb2.Placeholder]) -> Iterator[str]:
    """Yield what a set of equal placeholders reserves, where, and what those without node wait for."""
    price = sum(explanation.price(one) for one in rows)
    yield (
        f"[bold]{escape(name)}[/bold]: {counted(len(rows), 'placeholder')} of {_size(rows[0])} each, "
        f"{_KINDS[rows[0].kind]}{_cost(price)}."
    )
    nodes = Counter(one.node for one in rows if one.node)
    for node, count in sorted(nodes.items()):
        yield f"  {count:,} on [cyan]{escape(node)}[/cyan]"
    groups = Counter(_waits_for(explanation, one) for one in rows if not one.node)
    for grows, count in sorted(groups.items()):
        yield f"  {count:,} {'waits' if count == 1 else 'wait'} {grows}"


def _waits_for(explanation: SlackExplanation, one: plan_pb2.Placeholder) -> str:
    """Return what a placeholder without a node waits for, as rich text."""
    group, others = explanation.group_for(one.name), explanation.groups_for_gang(one)
    if group:
        return f"for a new node of [cyan]{escape(group)}[/cyan]"
    if others:
        return f"for the rest of the gang, on new nodes of [cyan]{escape(others)}[/cyan]"
    return f"for room; {escape(explanation.why_waiting(one.name) or _NO_GROWTH)}"


def placeholder_lines(explanation: SlackExplanation, one: plan_pb2.Placeholder) -> Iterator[str]:
    """Yield the explanation of one placeholder, as lines of rich text."""
    view = explanation.view
    alike = sum(set_of(other) == set_of(one) for other in explanation.placeholders)
    yield (
        f"[bold]Placeholder {escape(one.name)}[/bold], one of {alike:,}: it keeps {_size(one)} free, "
        f"{_KINDS[one.kind]}."
    )
    if one.for_object:
        yield f"It is for [cyan]{escape(one.for_object)}[/cyan]."
    if one.pool:
        yield f"The settings of pool {escape(one.pool)} ask for it."
    if one.is_in_gang:
        yield "All placeholders of its gang are on nodes, or none is."
    if not one.node:
        group, others = explanation.group_for(one.name), explanation.groups_for_gang(one)
        if others and not group:
            grow = f"node group [cyan]{escape(others)}[/cyan] grows for the rest of it"
            yield f"[yellow]It waits with its gang[/yellow]: a node has room for it, and {grow}."
        elif group:
            yield f"[yellow]It waits for a new node[/yellow]: node group [cyan]{escape(group)}[/cyan] grows for it."
        else:
            why = explanation.why_waiting(one.name) or _NO_GROWTH
            yield f"[yellow]It waits for room[/yellow]: no node has room for it; {escape(why)}."
        return
    beside_it = sum(other.node == one.node for other in explanation.placeholders) - 1
    pods = len(view.pods_on(one.node))
    group = view.nodes[one.node].node_group
    of = f" of node group {escape(group)}" if group else ""
    beside = f"beside {counted(pods, 'pod')} and {counted(beside_it, 'other placeholder')}"
    yield f"It is on [cyan]{escape(one.node)}[/cyan]{of}, {beside}."
    yield f"It takes {percent(explanation.share(one))} of that node{_cost(explanation.price(one))}."
    if one.node in explanation.staying:
        yield f"Slack keeps [cyan]{escape(one.node)}[/cyan]: without that node there is no room for it."
    elif any(entry.node == one.node for entry in going(explanation.answer)):
        yield f"It blocks nothing: [cyan]{escape(one.node)}[/cyan] can go, as there is room for it elsewhere."
    else:
        yield f"It blocks nothing: [cyan]{escape(one.node)}[/cyan] stays for another reason."


def _size(one: plan_pb2.Placeholder) -> str:
    return f"{amount('cpu', one.cpu_milli)} and {named_amount('memory', one.memory_bytes)}"


def _amounts(amounts: Any) -> str:
    return ", ".join(named_amount(name, value) for name, value in sorted(amounts.items()))


def _cost(price: float) -> str:
    """Return the cost of room, "" if no price is known."""
    return f", which costs {money(price)} an hour, {money(HOURS_A_MONTH * price)} a month" if price else ""
