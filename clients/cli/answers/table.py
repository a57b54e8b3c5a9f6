"""The ordered table of decisions and how each is rendered; prints a whole answer."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import yaml
from google.protobuf.message import Message
from rich.console import Console, RenderableType
from rich.markup import escape
from trimtab.v1 import plan_pb2

from clients.cli.answers import pod_costs, remarks, scale_down, scale_up, slack
from clients.cli.answers.answer import Answer
from clients.cli.output import as_document

Render = Callable[[Answer], Iterator[RenderableType]]


class Rendering(NamedTuple):
    """One decision: its field of `PlanResponse`, and its renderer."""

    decision: plan_pb2.Decision.Code.ValueType
    field: str
    render: Render


RENDERINGS = (
    Rendering(plan_pb2.Decision.SLACK, "slack", slack.render),
    Rendering(plan_pb2.Decision.SCALE_UP, "scale_up", scale_up.render),
    Rendering(plan_pb2.Decision.SCALE_DOWN, "scale_down", scale_down.render),
    Rendering(plan_pb2.Decision.POD_COSTS, "pod_costs", pod_costs.render),
)
"""Decisions in display order. One that is not listed is printed as YAML."""


def print_answer(console: Console, answer: Answer) -> None:
    """Print every decision of an answer, then the remarks on the cluster."""
    for part in rendered(answer):
        console.print(part)


def rendered(answer: Answer) -> Iterator[RenderableType]:
    """Yield an answer part by part."""
    known = {one.field for one in RENDERINGS}
    present = [one for one in RENDERINGS if answer.response.HasField(one.field)]  # type: ignore[arg-type]
    parts = [part for part in (list(one.render(answer)) for one in present) if part]
    for number, part in enumerate(parts):
        yield from ["", *part] if number else part
    for field, value in answer.response.ListFields():
        if field.name in _decision_fields() - known and isinstance(value, Message):
            yield f"[bold]{field.name}[/bold]\n{escape(yaml.safe_dump(as_document(value), sort_keys=False))}"
    yield from remarks.render(answer)


def _decision_fields() -> set[str]:
    """Return the names of the fields of `PlanResponse` that hold decisions."""
    codes = (name for name, value in plan_pb2.Decision.Code.items() if value)
    return {name.lower() for name in codes}
