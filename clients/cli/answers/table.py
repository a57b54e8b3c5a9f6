"""How each decision is rendered; prints a whole answer. A decision that is not listed is rendered by its fields."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import Message
from rich.console import Console, RenderableType
from rich.markup import escape

from trimtab.clients.cli.answers import (
    any_decision,
    capacity_requests,
    pod_costs,
    remarks,
    replacement,
    scale_down,
    scale_up,
    slack,
    usage,
)
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.decisions import FIELDS, failed_fields
from trimtab.v1 import plan_pb2

Render = Callable[[PlanAnswer], Iterator[RenderableType]]
RENDERERS: Final[Mapping[str, Render]] = {
    "capacity_requests": capacity_requests.render,
    "slack": slack.render,
    "scale_up": scale_up.render,
    "scale_down": scale_down.render,
    "replacement": replacement.render,
    "pod_costs": pod_costs.render,
}
"""By field of `PlanResponse`, in the order of display; other decisions follow."""


def print_answer(console: Console, answer: PlanAnswer) -> None:
    """Print every decision of an answer, then the remarks on the cluster."""
    for part in rendered(answer):
        console.print(part)


def rendered(answer: PlanAnswer) -> Iterator[RenderableType]:
    """Yield an answer part by part."""
    failed = failed_fields(answer.response)
    parts: list[list[RenderableType]] = [[_failure(answer.response, field)] for field in failed]
    parts += [list(render(answer)) for field, render in RENDERERS.items() if _has(answer.response, field, failed)]
    others = without_renderer(answer.response)
    parts += [
        list(any_decision.render(field, result, answer.verbose))
        for field, result in others.items()
        if field not in failed
    ]
    for number, part in enumerate(part for part in parts if part):
        yield from ["", *part] if number else part
    yield from usage.render(answer)
    yield from remarks.render(answer)


def without_renderer(response: plan_pb2.PlanResponse) -> dict[str, Message]:
    """Return the results of decisions that have no renderer of their own, by field."""
    fields = [field for field in FIELDS if field not in RENDERERS and _has(response, field)]
    return {field: getattr(response, field) for field in fields}


def _failure(response: Any, field: str) -> str:
    """Return a line on a decision that ended with an error of the planner."""
    title = field.replace("_", "-").capitalize()
    return f"[bold red]{title} failed:[/bold red] {escape(getattr(response, field).detail)}"


def _has(response: Any, field: str, failed: Sequence[str] = ()) -> bool:
    return bool(response.HasField(field)) and field not in failed
