"""A grid of settings: every combination of values of some fields, over one set of settings.

Decides to which field a path refers ("scaleDown.utilizationThreshold") and how values are parsed: as YAML. Errors name
the path and the value.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trimtab.clients.json_form import json_form, with_value
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.common.documents.loading import DocumentError, load_document
from trimtab.v1 import plan_pb2

Json = dict[str, Any]


class NamedSettings(NamedTuple):
    """Settings and their name in comparisons. file : "" = from no file. settings : of plans."""

    name: str
    settings: plan_pb2.PlanSettings
    file: str = ""


class SweptField(NamedTuple):
    """A field and the values that it takes. `path` : its name in the settings, as in JSON, with dots."""

    path: str
    values: tuple[Any, ...]


def read_axis(text: str) -> SweptField:
    """Read "PATH=VALUE,VALUE,…". Raises ScenarioError."""
    path, separator, values = text.partition("=")
    if not separator or not path or not values:
        raise ScenarioError(f"--sweep {text}: give PATH=VALUE,…, such as scaleDown.utilizationThreshold=0.4,0.5,0.6")
    try:
        return SweptField(path, tuple(load_document(value) for value in values.split(",")))
    except DocumentError:
        raise ScenarioError(f"--sweep {text}: a value cannot be read") from None


def grid(
    bases: Sequence[NamedSettings], axes: Sequence[SweptField], read: Callable[[Json], plan_pb2.PlanSettings]
) -> list[NamedSettings]:
    """Return every combination, in the given order; without axes the settings themselves. Raises ScenarioError.

    read : makes settings of a document, and raises ValueError for what it cannot mean
    """
    paths = [axis.path for axis in axes]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise ScenarioError(f"--sweep {twice}: it is given twice; give all values of a field at once")
    found = []
    for base in bases:
        for values in itertools.product(*(axis.values for axis in axes)):
            chosen = list(zip(axes, values, strict=True))
            name = " ".join([base.name, *(f"{axis.path.rpartition('.')[2]}={value}" for axis, value in chosen)])
            settings = base.settings
            for axis, value in chosen:
                settings = _with(settings, axis.path, value, read)
            found.append(NamedSettings(name, settings, base.file))
    return found


def _with(
    settings: plan_pb2.PlanSettings, path: str, value: Any, read: Callable[[Json], plan_pb2.PlanSettings]
) -> plan_pb2.PlanSettings:
    """Return settings with one field set."""
    try:
        return read(with_value(json_form(settings), path, value))
    except ValueError as error:
        raise ScenarioError(f"--sweep {path}={value}: {error}") from None
