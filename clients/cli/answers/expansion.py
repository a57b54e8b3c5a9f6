"""The choice of the expanders: why an option won, and why the others lost. The last expander in a chain to be used made
the decision: the next one is used only while several options are rated equal.
"""

from collections.abc import Callable, Iterator
from typing import Final

from trimtab.clients.cli.amounts import counted, percent
from trimtab.clients.cli.answers.answer import money
from trimtab.clients.cli.blocks import Table, rows
from trimtab.clients.cli.sentences import EXPANDER_NAMES, NODE_GROUP_SENTENCES
from trimtab.v1 import plan_pb2, reason_pb2

_Expander = plan_pb2.Expander
_SCORES: Final[dict[int, Callable[[float], str]]] = {
    # The score is the sum of the idle shares of cpu and memory.
    _Expander.LEAST_WASTE: lambda score: f"{percent(-score / 2)} of cpu and memory idle",
    _Expander.MOST_PODS: lambda score: counted(round(score), "pod"),
    _Expander.LEAST_NODES: lambda score: counted(round(-score), "node"),
    _Expander.PRICE: lambda score: f"rated {-score:.2f}, the lower the better",
    _Expander.PRIORITY: lambda score: f"rank {score:.0f}" if score > float("-inf") else "no rank",
    _Expander.HIGHEST_PRIORITY: lambda score: f"priority {score:.0f}",
    _Expander.BALANCED: lambda score: f"{counted(round(-score), 'node')} above the smallest similar group",
}
"""Meaning of each expander's score."""


def chosen_because(decision: plan_pb2.ScaleUpDecision, group: str) -> str:
    """Return in one clause why a node group grows."""
    own = [option for option in decision.options if option.node_group == group]
    chosen = next((option for option in own if option.chosen), None)
    if chosen is None:
        # The nodes of a choice are balanced across similar groups.
        return "shares with a similar node group"
    expander = _last(chosen)
    if expander == _Expander.CHEAPEST_PLAN:
        return EXPANDER_NAMES[_Expander.CHEAPEST_PLAN]
    if sum(option.choice == chosen.choice for option in decision.options) == 1:
        return "the only one that helps"
    return _with_score(chosen, expander)


def lost_because(option: plan_pb2.ScaleUpOption) -> str:
    """Return in one clause why an option was not chosen."""
    if option.reason != reason_pb2.NodeGroupReason.NOT_CHOSEN:
        return NODE_GROUP_SENTENCES[option.reason]
    if option.decided_by == _Expander.RANDOM:
        return "not drawn" if _is_drawn(option) else "equally good; lost the tie-break"
    return f"worse by {_with_score(option, option.decided_by)}"


def tables(decision: plan_pb2.ScaleUpDecision) -> Iterator[Table]:
    """Yield a table of the options of each choice, and one of the groups that have none."""
    by_choice: dict[int, list[plan_pb2.ScaleUpOption]] = {}
    for option in decision.options:
        by_choice.setdefault(option.choice, []).append(option)
    words = ("node group", "because")
    for number, options in sorted(by_choice.items()):
        columns = ("node group", "nodes", "pods", "an hour", "because")
        yield Table(f"Choice {number + 1}", columns, rows(list(map(_cells, options))), sentences=words, is_extra=True)
    if decision.excluded:
        lines = [
            (group, f"{NODE_GROUP_SENTENCES[reason]} ({reason_pb2.NodeGroupReason.Code.Name(reason)})")
            for group, reason in sorted(decision.excluded.items())
        ]
        yield Table("Node groups without an option", words, rows(lines), sentences=words, is_extra=True)


def _cells(option: plan_pb2.ScaleUpOption) -> tuple[str, ...]:
    """Return an option as a row."""
    price = money(option.price_per_hour) if option.HasField("price_per_hour") else ""
    text = f"chosen, {_with_score(option, _last(option))}" if option.chosen else lost_because(option)
    return option.node_group, f"{option.node_count:,}", f"{option.pod_count:,}", price, text


def _last(option: plan_pb2.ScaleUpOption) -> int:
    """Return the last expander that rated an option."""
    return option.scores[-1].expander if option.scores else _Expander.UNSPECIFIED


def _is_drawn(option: plan_pb2.ScaleUpOption) -> bool:
    """Return whether RANDOM is the only expander: nothing was compared."""
    return [score.expander for score in option.scores] == [_Expander.RANDOM]


def _with_score(option: plan_pb2.ScaleUpOption, expander: int) -> str:
    """Return an expander with its score for the option."""
    if expander == _Expander.RANDOM:
        return "drawn by the request's seed" if _is_drawn(option) else "equally good; won the tie-break by the seed"
    name = EXPANDER_NAMES[_Expander.Code.ValueType(expander)]
    score = next((one.score for one in option.scores if one.expander == expander), None)
    meaning = _SCORES.get(expander)
    return f"{name}: {meaning(score)}" if meaning and score is not None else name
