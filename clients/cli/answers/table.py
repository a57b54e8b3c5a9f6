"""How each decision is rendered; prints a whole answer. A decision that is not listed is rendered by its fields."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from google.protobuf.message import Message
from rich.console import Console, RenderableType

from trimtab.clients.cli.answers import any_decision, pod_costs, remarks, scale_down, scale_up, slack
from trimtab.clients.cli.answers.answer import Answer
from trimtab.clients.decisions import FIELDS
from trimtab.v1 import plan_pb2

Render = Callable[[Answer], Iterator[RenderableType]]
RENDERERS: Final[Mapping[str, Render]] = {
    "slack": slack.render,
    "scale_up": scale_up.render,
    "scale_down": scale_down.render,
    "pod_costs": pod_costs.render,
}
"""By field of `PlanResponse`, in the order of display; other decisions follow."""


def print_answer(console: Console, answer: Answer) -> None:
    """Print every decision of an answer, then the remarks on the cluster."""
    for part in rendered(answer):
        console.print(part)


def rendered(answer: Answer) -> Iterator[RenderableType]:
    """Yield an answer part by part."""
    parts = [list(render(answer)) for field, render in RENDERERS.items() if _has(answer.response, field)]
    others = without_renderer(answer.response)
    parts += [list(any_decision.render(field, result, answer.verbose)) for field, result in others.items()]
    for number, part in enumerate(part for part in parts if part):
        yield from ["", *part] if number else part
    yield from remarks.render(answer)


def without_renderer(response: plan_pb2.PlanResponse) -> dict[str, Message]:
    """Return the results of decisions that have no renderer of their own, by field."""
    fields = [field for field in FIELDS if field not in RENDERERS and _has(response, field)]
    return {field: getattr(response, field) for field in fields}


def _has(response: Any, field: str) -> bool:
    return bool(response.HasField(field))
