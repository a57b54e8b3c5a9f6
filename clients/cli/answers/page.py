"""The page of a plan: its decisions in the order of display, each as blocks of a module of its own, then what to change
and remarks. A decision without a module is shown by its fields. Builders read the answer, the snapshot and the
settings; they never decide.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import Message
from rich.console import Console

from trimtab.clients.cli.answers import (
    any_decision,
    capacity_requests,
    pod_costs,
    replacement,
    scale_down,
    scale_up,
    slack,
    summary,
)
from trimtab.clients.cli.answers.advice import changes_of
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.maps import planned_maps
from trimtab.clients.cli.answers.summary import usage_tables
from trimtab.clients.cli.blocks import AnswerPage, Block, Sentence, Style
from trimtab.clients.cli.terminal import print_page
from trimtab.clients.decisions import FIELDS, failed_fields
from trimtab.v1 import plan_pb2

BLOCKS: Final[Mapping[str, Callable[[PlanAnswer], Iterator[Block]]]] = {
    "capacity_requests": capacity_requests.blocks,
    "slack": slack.blocks,
    "scale_up": scale_up.blocks,
    "scale_down": scale_down.blocks,
    "replacement": replacement.blocks,
    "pod_costs": pod_costs.blocks,
}
"""By field of `PlanResponse`, in the order of display; other decisions follow."""


def plan_page(answer: PlanAnswer, name: str = "", *, with_pictures: bool = False) -> AnswerPage:
    """Return the page of an answered plan. name : of the cluster; with_pictures : also facts, key figures, maps, charts
    and all nodes, which a terminal has no room for.
    """
    what = "what the cluster needs, and what it can do without"
    title = f"{name}: {what}" if name else f"{what[0].upper()}{what[1:]}"
    return AnswerPage(title, tuple(_blocks(answer, name, with_pictures)))


def _blocks(answer: PlanAnswer, name: str, with_pictures: bool) -> Iterator[Block]:
    response, has_nodes = answer.response, bool(answer.view.nodes)
    if with_pictures:
        yield summary.facts(answer, name)
        yield summary.key_figures(answer.summary, answer.costs.currency)
    failed = failed_fields(response)
    for field in failed:
        title = field.replace("_", "-").capitalize()
        yield Sentence(f"{title} failed: {getattr(response, field).detail}", Style.FAILURE)
    for field, blocks in BLOCKS.items():
        if _has(response, field, failed):
            yield from blocks(answer)
    for field, result in without_blocks(response).items():
        if field not in failed:
            yield from any_decision.blocks(field, result)
    yield from summary.net_lines(answer)
    yield from summary.unpriced(answer)
    if with_pictures:
        yield planned_maps(answer)
        if chart := replacement.frontier_chart(answer):
            yield chart
    yield from usage_tables(answer)
    if answer.advice is not None:
        yield changes_of(answer)
    yield from summary.blocks(answer)
    if has_nodes and (with_pictures or answer.verbose):
        yield summary.every_node(answer)


def print_answer(console: Console, answer: PlanAnswer) -> None:
    """Print every decision of an answer, then the remarks on the cluster."""
    print_page(console, plan_page(answer), verbose=answer.verbose)


def without_blocks(response: plan_pb2.PlanResponse) -> dict[str, Message]:
    """Return the results of decisions that have no module of their own, by field."""
    fields = [field for field in FIELDS if field not in BLOCKS and _has(response, field)]
    return {field: getattr(response, field) for field in fields}


def _has(response: Any, field: str, failed: Sequence[str] = ()) -> bool:
    return bool(response.HasField(field)) and field not in failed
