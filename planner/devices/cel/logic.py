"""What an evaluation of an expression needs at each step: variables, cost, work, truth, presence.

Cost is what the API server counts, which knows no copies; work is what this interpreter really does, in elements that
are read or written, and bounded too: an expression cannot hold a processor or the memory whatever it costs.

Source: cel-go v0.26, interpreter.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from trimtab.planner.devices.cel.syntax import SyntaxNode
from trimtab.planner.devices.cel.values import CelType, EvaluationCostError, EvaluationError, OptionalValue, kind_of
from trimtab.planner.model.execution import check_limits

MISSING = object()
"""In place of a value that a map does not have."""
_CHECK_EVERY: Final = 4096
"""Cost between two questions for the limits of the request: some milliseconds."""


class EvaluationFrame:
    """What an evaluation may read and how much it has cost. names : variables by name; limit : the highest cost."""

    __slots__ = ("_check_at", "cost", "limit", "names")

    def __init__(self, names: dict[str, Any], limit: int) -> None:
        self.names = names
        self.cost = 0
        self.limit = limit
        self._check_at = _CHECK_EVERY

    def charge(self, cost: int) -> None:
        """Count a cost. Raises EvaluationError at the limit."""
        self.cost += cost
        if self.cost > self.limit:
            raise EvaluationCostError("operation cancelled: actual cost limit exceeded")
        if self.cost > self._check_at:
            self._check_at = self.cost + _CHECK_EVERY
            check_limits()


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
