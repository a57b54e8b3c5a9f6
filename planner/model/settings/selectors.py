"""Label selectors of settings."""

from typing import Final

from trimtab.planner.model.settings.reading import SettingsError
from trimtab.planner.model.values import LabelRequirement, Selector
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.snapshot_pb2 import LabelOperator

_WITH_VALUES: Final = (LabelOperator.IN, LabelOperator.NOT_IN)
_OPERATORS: Final = (*_WITH_VALUES, LabelOperator.EXISTS, LabelOperator.DOES_NOT_EXIST)


def selector(given: pb.Selector, path: str) -> Selector:
    """Return a selector's requirements, sorted; () selects everything. Raises SettingsError."""
    for label in given.match_labels:
        if not label:
            raise SettingsError(f"{path}.match_labels", "a label's key is empty")
    labels = sorted(given.match_labels.items())
    rows = [LabelRequirement(key, LabelOperator.IN, (value,)) for key, value in labels]
    rows += [_requirement(one, f"{path}.match_expressions[{i}]") for i, one in enumerate(given.match_expressions)]
    return tuple(rows)


def _requirement(given: pb.SelectorRequirement, path: str) -> LabelRequirement:
    if not given.key:
        raise SettingsError(f"{path}.key", "empty; name the label")
    operator = given.operator
    if operator not in _OPERATORS:
        raise SettingsError(f"{path}.operator", f"{operator} cannot be used; use IN, NOT_IN, EXISTS or DOES_NOT_EXIST")
    if (operator in _WITH_VALUES) != bool(given.values):
        raise SettingsError(f"{path}.values", "give values with IN and NOT_IN, and none with EXISTS and DOES_NOT_EXIST")
    return LabelRequirement(given.key, operator, tuple(given.values))
