"""Slack for people: how much room is requested, how much there is, where, and what it costs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from trimtab.clients.cli.amounts import amount, named_amount, some
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.blocks import Block, Sentence, Style, Table, rows
from trimtab.reason_texts import clauses
from trimtab.v1 import plan_pb2, reason_pb2

_Result = reason_pb2.SlackResult
RESULTS = clauses(_Result)


def blocks(answer: PlanAnswer) -> Iterator[Block]:
    """Yield the result, the amounts, the sets of placeholders, and what was in the way."""
    slack = answer.response.slack
    yield Sentence(f"Slack: {RESULTS[slack.result]}.", Style.HEADLINE)
    if slack.desired:
        yield Sentence(f"Requested: at least {amounts_text(slack.desired)}.")
        yield Sentence(f"Kept free: {kept_free(slack)}{_price(answer)}.")
    for one in slack.objects:
        if one.asked_gang_count:
            yield Sentence(f"{one.object}: {gangs_present(one)}.")
    if slack.pushed_out:
        yield Sentence(f"Displaced from their nodes: {some(list(slack.pushed_out))}.")
    yield from (Sentence(f"! {problem}", Style.WARNING) for problem in slack.problems)
    yield _table(slack.placeholders, every=answer.verbose)


def kept_free(slack: plan_pb2.SlackDecision) -> str:
    """Return how much room there is, and why it is more than requested."""
    is_more = any(slack.present.get(name, 0) > amount for name, amount in slack.desired.items())
    rounded = ", as placeholders are whole" if is_more else ""
    return f"{amounts_text(slack.present) or 'nothing'}{rounded}"


def gangs_present(slack_object: plan_pb2.SlackObject) -> str:
    """Return how many gangs that an object requests have room, which is for all of their pods or for none."""
    of, key = slack_object.asked_gang_count, slack_object.topology_key
    where = f", each on nodes with one value of {key}" if key else ""
    present, size = slack_object.present_gang_count, slack_object.asked_count // of
    have = "has" if present == 1 else "have"
    return f"{present:,} of {of:,} gangs of {size:,} pods {have} room, all or none{where}"


def set_of(placeholder: plan_pb2.Placeholder) -> str:
    """Return the name of the set that a placeholder belongs to."""
    return placeholder.name.rpartition("-")[0]


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Return amounts by resource."""
    return ", ".join(named_amount(name, value) for name, value in sorted(amounts.items()))


def _price(answer: PlanAnswer) -> str:
    hour = answer.response.slack.price_per_hour
    if not hour:  # unknown, or nothing
        return ""
    return f", which costs {answer.costs.rate(hour, decimals=2)}"


def _table(placeholders: Sequence[plan_pb2.Placeholder], every: bool) -> Table:
    """Return a row for each set: the size of its placeholders, how many there are, and where."""
    lines = []
    for name, alike in groupby(placeholders, key=set_of):
        found = list(alike)
        nodes = Counter(one.node for one in found if one.node)
        shown = [f"{node} ({times})" if times > 1 else node for node, times in sorted(nodes.items())]
        where = ", ".join(shown) if every else some(shown)
        held = f"{amount('cpu', found[0].cpu_milli)}, {amount('memory', found[0].memory_bytes)}"
        waiting = sum(not one.node for one in found)
        lines.append((name, held, f"{len(found):,}", f"{waiting:,}" if waiting else "", where))
    columns = ("room for", "blocks", "number", "waiting", "on nodes")
    words = ("room for", "blocks", "on nodes")
    return Table("Room that slack holds", columns, rows(lines), sentences=words)
