"""What an evaluation of an expression needs at each step: variables, cost, truth, presence.

Source: cel-go v0.26, interpreter.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from trimtab.planner.devices.cel.syntax import SyntaxNode
from trimtab.planner.devices.cel.values import CelType, EvaluationError, OptionalValue, kind_of

MISSING = object()
"""In place of a value that a map does not have."""


class EvaluationFrame:
    """What an evaluation may read and how much it has cost. names : variables by name; limit : the highest cost."""

    __slots__ = ("cost", "limit", "names")

    def __init__(self, names: dict[str, Any], limit: int) -> None:
        self.names = names
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> None:
        """Count a cost. Raises EvaluationError at the limit."""
        self.cost += cost
        if self.cost > self.limit:
            raise EvaluationCostError("operation cancelled: actual cost limit exceeded")


class EvaluationCostError(EvaluationError):
    """Raised when an evaluation costs more than its limit; nothing absorbs it."""


Step = Callable[[EvaluationFrame], Any]
Typed = tuple[CelType, Step]


class ExpressionCompiler(Protocol):
    """What macros need of the compiler."""

    def compile(self, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
        """Return the type of a tree and how it is evaluated."""

    def field_type(self, kind: CelType, name: str) -> CelType:
        """Return the type of a field."""


def truth(value: Any) -> bool:
    """Return a truth value. Raises EvaluationError if the value is none."""
    if isinstance(value, bool):
        return value
    raise EvaluationError(f"no such overload: {kind_of(value)} is no bool")


def either(wanted: bool, frame: EvaluationFrame, steps: Iterable[Step]) -> bool:
    """Return `wanted` if a step says so, even if another has no value; otherwise raise the first problem, if any."""
    problem: EvaluationError | None = None
    for step in steps:
        try:
            if truth(step(frame)) is wanted:
                return wanted
        except EvaluationCostError:
            raise
        except EvaluationError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return not wanted


def has_field(frame: EvaluationFrame, value: Any, name: str) -> bool:
    """Return whether a map has a field; nothing is charged."""
    if isinstance(value, OptionalValue):
        return value.has_value and has_field(frame, value.value, name)
    if isinstance(value, tuple):
        raise EvaluationError("unsupported index type 'string' in list")
    if not isinstance(value, Mapping):
        return False
    return value.get(name, MISSING) is not MISSING
