"""Why a node is replaced, by what and when, or which condition keeps it from being replaced, in money.

Built from the planner's answer over the same snapshot.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.answers.answer import Costs
from trimtab.clients.cli.answers.replacement import groups_text, outcome_text
from trimtab.clients.cli.blocks import Sentence, Style, led
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.verdicts import not_replaced
from trimtab.places import moves_by_node
from trimtab.v1 import plan_pb2, reason_pb2

_Limit = reason_pb2.ReplacementLimit


@dataclass(frozen=True)
class ReplacedNodeExplanation:
    """The replacement of a node; at most one of `leaving` and `kept` is set, and none for a node that scale-down
    removes. `name` : of the node; is_asked : whether plans of this cluster replace nodes without being told to; wave :
    number of the wave in which it leaves, 0 = it does not leave; costs : prices, for their currency.
    """

    name: str
    decision: plan_pb2.ReplacementDecision
    is_asked: bool
    wave: int
    leaving: plan_pb2.ReplacedNode | None
    kept: plan_pb2.NotReplaced | None
    costs: Costs

    @cached_property
    def moves(self) -> dict[str, str]:
        """Where its pods would go, by pod."""
        return moves_by_node(self.decision.waves[self.wave - 1].places).get(self.name, {}) if self.wave else {}

    @property
    def comes(self) -> Sequence[plan_pb2.ReplacementNode]:
        """The new nodes of the plan that take pods of it."""
        if self.leaving is None:
            return ()
        taking = set(self.moves.values())
        return [new for wave in self.decision.waves for new in wave.new_nodes if new.name in taking]


def has_price(view: ClusterView, name: str) -> bool:
    """Return whether a node of a node group has a price, without which it is never replaced."""
    return view.nodes[name].node_group in view.groups and view.price(name) is not None


def explain_replacement(
    name: str, answer: plan_pb2.PlanResponse, costs: Costs, *, is_asked: bool
) -> ReplacedNodeExplanation:
    """Find a node in the decision."""
    decision = answer.replacement
    found = ((at, one) for at, wave in enumerate(decision.waves, 1) for one in wave.leaving if one.node == name)
    wave, leaving = next(found, (0, None))
    kept = next((one.not_replaced for one in not_replaced(answer) if one.node == name), None)
    return ReplacedNodeExplanation(name, decision, is_asked, wave, leaving, kept, costs)


def replacement_sentences(explanation: ReplacedNodeExplanation) -> Iterator[Sentence]:
    """Yield the explanation as sentences; nothing for a node that scale-down removes."""
    if explanation.leaving is not None:
        yield from _leaving_sentences(explanation, explanation.leaving)
    elif explanation.kept is not None:
        yield from _kept_sentences(explanation, explanation.kept)


def _leaving_sentences(explanation: ReplacedNodeExplanation, node: plan_pb2.ReplacedNode) -> Iterator[Sentence]:
    """Yield in which wave it leaves, by what it is replaced, and where its pods would go."""
    wave = explanation.decision.waves[explanation.wave - 1]
    others, count = len(wave.leaving) - 1, len(wave.new_nodes)
    nodes = "this node" + (f" and {counted(others, 'other')}" if others else "")
    amount = explanation.costs.amount
    price = amount(sum(new_node.price_per_hour for new_node in wave.new_nodes))
    new = f"{counted(count, 'new node')} ({groups_text(wave)}, {price} an hour)"
    if not explanation.is_asked:
        what = f"With `--decision replacement`, {f'{new} would replace {nodes}' if count else f'{nodes} would leave'}"
    elif count:
        what = f"{new} {'replaces' if count == 1 else 'replace'} {nodes}"
    else:
        what = f"T{nodes[1:]} {'leave' if others else 'leaves'}"
    number = f"wave {explanation.wave} of {len(explanation.decision.waves)}"
    saving = explanation.costs.rate(wave.saving_per_hour)
    yield led(Style.GOOD, what, f" in {number}, saving {saving}. It costs {amount(node.price_per_hour)} an hour now.")
    if explanation.wave > 1:
        yield Sentence(f"The wave begins once the pods of wave {explanation.wave - 1} run again.")
    for to, count in Counter(sorted(explanation.moves.values())).most_common():
        yield Sentence(f"{counted(count, 'pod')} → {to}", indent=2)


def _kept_sentences(explanation: ReplacedNodeExplanation, node: plan_pb2.NotReplaced) -> Iterator[Sentence]:
    """Yield the condition that keeps it, and what replacing it alone would save at most without it."""
    decision, code = explanation.decision, _Limit.Code.Name(node.reason)
    what = "It is not replaced" if explanation.is_asked else "`--decision replacement` would not replace it"
    yield led(Style.WARNING, what, f": {node.why} ({code}).")
    if node.blocking_pod:
        yield Sentence(f"Pod {node.blocking_pod} is in the way.")
    if node.reason == _Limit.NOTHING_CHEAPER or not node.saving_per_hour:
        yield Sentence("Its pods find no room elsewhere for less than it costs.")
        return
    lifted = "With that" if node.reason == _Limit.NOT_EVALUATED else "Without that condition"
    yield Sentence(f"{lifted}, replacing it alone would save at most {explanation.costs.rate(node.saving_per_hour)}.")
    if not decision.waves and decision.detail:
        yield Sentence(f"As a whole: {outcome_text(decision)}.")
