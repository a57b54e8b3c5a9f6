"""Pod deletion costs for people: groups, their pods in the order of removal, and what each strategy adds."""

from collections.abc import Iterator

from trimtab.clients.cli.amounts import counted, shown_of
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.blocks import Block, Sentence, Style, Table, rows
from trimtab.clients.cli.sentences import POD_COST_SENTENCES
from trimtab.places import ranks_of
from trimtab.v1 import plan_pb2, reason_pb2

MOST_GROUPS, MOST_PODS = 5, 6
"""Groups, and pods of each, shown without `--verbose`."""
_Strategy = plan_pb2.PodCostStrategy.Code


def blocks(answer: PlanAnswer) -> Iterator[Block]:
    """Yield the headline, tables of the ranked groups, and why others are not ranked."""
    groups = answer.response.pod_costs.groups
    ranked = [group for group in groups if group.complete]
    yield Sentence(headline(answer), Style.HEADLINE)
    yield from _tables(ranked, answer.verbose)
    if any(cost > 0 for group in ranked for cost in group.costs):
        yield Sentence("Pods with a cost above 0 are needed by a running gang: they go last, gang by gang.")
    left = [(group.owner, _why(group, answer.verbose)) for group in groups if not group.complete]
    columns = ("group", "because")
    yield Table("Groups left to their controllers", columns, rows(left), sentences=columns, most=MOST_GROUPS)


def headline(answer: PlanAnswer) -> str:
    """Return how many groups and pods are ranked."""
    groups = answer.response.pod_costs.groups
    if not answer.settings.pod_costs.targets:
        return "No pod is ranked: the settings have no podCosts.targets."
    if not groups:
        return "No pod is ranked: the targets select none that a known controller owns."
    ranked = [group for group in groups if group.complete]
    pods = counted(sum(len(group.pods) for group in ranked), "pod")
    return f"{len(ranked):,} of {counted(len(groups), 'group')} {'is' if len(ranked) == 1 else 'are'} ranked: {pods}."


def _tables(groups: list[plan_pb2.PodCostGroup], verbose: bool) -> Iterator[Table]:
    """Yield one table for all groups of a target, as its strategies are the same."""
    for number in sorted({group.target for group in groups}):
        mine = [group for group in groups if group.target == number]
        shown = mine if verbose else mine[:MOST_GROUPS]
        title = f"Pods in the order of removal, target {number}{shown_of(len(shown), len(mine))}"
        lines = [cells for group in shown for cells in _rows(group, len(group.pods) if verbose else MOST_PODS)]
        columns = ("group", "pod", "cost", *(_name(share) for share in mine[0].shares))
        yield Table(title, columns, rows(lines), sentences=columns[:2], is_folded=True)


def _rows(group: plan_pb2.PodCostGroup, most: int) -> Iterator[tuple[str, ...]]:
    columns = [(ranks_of(share.ranks), ranks_of(share.own_ranks)) for share in group.shares]
    for place, pod in enumerate(group.pods[:most]):
        parts = [f"{ranks[place]:.3g} ({own_ranks[place]:g})" for ranks, own_ranks in columns]
        owner = group.owner if place == 0 else _remark(group) if place == 1 else ""
        yield (owner, pod.partition("/")[2], f"{group.costs[place]}", *parts)
    if len(group.pods) > most:
        yield ("", f"… and {len(group.pods) - most} more", "", *([""] * len(columns)))


def _remark(group: plan_pb2.PodCostGroup) -> str:
    """Return remarks on a group besides its order."""
    if group.waits_for:
        return f"waits for {group.waits_for}"
    return "one at a time" if group.ranked_after_each_removal else ""


def _name(share: plan_pb2.PodCostShare) -> str:
    """Return a strategy's column heading: the name of what it adds, with its own rank in brackets."""
    return _Strategy.Name(share.strategy).lower().replace("_", " ")


def _why(group: plan_pb2.PodCostGroup, verbose: bool) -> str:
    text = POD_COST_SENTENCES[group.reason]
    detail = f" ({group.detail})" if group.detail else ""
    code = f" {reason_pb2.PodCostGroupReason.Code.Name(group.reason)}" if verbose else ""
    return f"{text}{detail}{code}"
