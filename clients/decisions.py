"""Decisions of the contract by the names that users write, such as "scale-down", and by their fields in messages.
Derived from the contract: a decision that it gains is known here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from trimtab.v1 import plan_pb2

Code: TypeAlias = plan_pb2.Decision.Code.ValueType
FIELDS: Final[Mapping[str, Code]] = MappingProxyType(
    {name.lower(): code for name, code in plan_pb2.Decision.Code.items() if code}
)
"""By the name of its field in `PlanSettings`, `PlanState` and `PlanResponse`, in the order of their numbers."""
NAMES: Final[Mapping[str, Code]] = MappingProxyType({field.replace("_", "-"): code for field, code in FIELDS.items()})
"""By the name that users write."""


def failed_fields(answer: plan_pb2.PlanResponse) -> list[str]:
    """Return the fields of the decisions that ended with an error of the planner, in the order of the answer. Their
    results have no content, and no order may follow from them.
    """
    return [plan_pb2.Decision.Code.Name(one.decision).lower() for one in answer.diagnostics.decisions if one.failed]


def decision_of(name: str) -> Code:
    """Return the decision that a user names: "scale-down", also as SCALE_DOWN. Raises ValueError."""
    key = name.strip().lower().replace("_", "-")
    if key not in NAMES:
        raise ValueError(f"there is no such decision; there are {', '.join(NAMES)}")
    return NAMES[key]
