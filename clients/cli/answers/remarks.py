"""Remarks on the cluster besides the decisions: waiting pods, unready nodes, notes."""

from collections.abc import Iterator

from trimtab.clients.cli.amounts import counted, some
from trimtab.clients.cli.answers import scale_up
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.replacement import HINT
from trimtab.clients.cli.blocks import Block, Sentence, Style


def blocks(answer: PlanAnswer) -> Iterator[Block]:
    """Yield a sentence for each remark."""
    for text in (*_pods(answer), *answer.response.summary.notes, *_not_asked(answer)):
        yield Sentence(f"Note: {text}", Style.MUTED)
    if answer.verbose:
        found = answer.response.diagnostics
        nodes = f"{counted(found.node_count, 'node')} in {counted(found.node_class_count, 'class')}"
        pods = f"{counted(found.pod_count, 'pod')} in {counted(found.pod_class_count, 'class')}"
        yield Sentence(f"{nodes}, {pods}.", Style.MUTED)


def _pods(answer: PlanAnswer) -> Iterator[str]:
    """Yield a sentence for each kind of pod that a reader should know about."""
    waiting = answer.view.waiting_pods()
    if waiting and not scale_up.tells_of_pods(answer.response.scale_up):
        fits = "`trimtab explain FILE fit` says what fits"
        yield f"{_are(len(waiting), 'pod')} waiting for a node ({some(waiting, 2)}); {fits}."
    unready = [node.name for node in answer.view.snapshot.nodes if not node.ready]
    if unready:
        pods = answer.view.pod_count_on(unready)
        yield f"{_are(len(unready), 'node')} not ready ({some(unready, 2)}), with {counted(pods, 'pod')}."
    unsupported = answer.response.diagnostics.unsupported_pod_count
    if unsupported:
        yield f"{counted(unsupported, 'pod')} with a constraint that this build does not support: not moved."


def _not_asked(answer: PlanAnswer) -> Iterator[str]:
    """Yield how to ask for replacement, if scale-down was asked for alone and prices of node groups are known."""
    response = answer.response
    prices = {group.price_per_hour for group in answer.view.snapshot.node_groups if group.HasField("price_per_hour")}
    if response.HasField("scale_down") and not response.HasField("replacement") and len(prices) > 1:
        yield HINT


def _are(count: int, noun: str) -> str:
    """Return "1 pod is", "2 pods are"."""
    return f"{counted(count, noun)} {'is' if count == 1 else 'are'}"
