"""What the contract's options say of settings holds in the planner: every range and every default, and no setting is
forgotten."""

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import ParseDict

from trimtab.planner.capacity_requests.requests import resolve_capacity_requests
from trimtab.planner.model.settings import SettingsError, resolve_planner, resolve_scale_down, resolve_scale_up
from trimtab.planner.pod_costs.settings import resolve_pod_costs
from trimtab.planner.replacement.settings import resolve_replacement
from trimtab.planner.slack.settings import resolve_slack
from trimtab.setting_options import fields_below, option_of
from trimtab.v1 import plan_pb2

RESOLVERS = (
    resolve_planner, resolve_scale_down, resolve_scale_up, resolve_slack, resolve_replacement, resolve_pod_costs,
    resolve_capacity_requests,
)  # fmt: skip
DURATION = "google.protobuf.Duration"


def paths(kind: Any = plan_pb2.PlanSettings.DESCRIPTOR, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each setting that is in no list and no map."""
    for field in kind.fields:
        inner = field.message_type
        if field.is_repeated:
            continue
        if inner is None or inner.full_name == DURATION:
            yield (*before, field.name)
        else:
            yield from paths(inner, (*before, field.name))


def field_of(path: tuple[str, ...]) -> FieldDescriptor:
    kind = plan_pb2.PlanSettings.DESCRIPTOR
    for name in path[:-1]:
        kind = kind.fields_by_name[name].message_type
    return kind.fields_by_name[path[-1]]


def with_value(path: tuple[str, ...], value: object) -> plan_pb2.PlanSettings:
    """Return settings with one value, given as in a settings file."""
    given: Any = value
    for name in reversed(path):
        given = {name: given}
    return ParseDict(given, plan_pb2.PlanSettings())


def refused(path: tuple[str, ...]) -> list[object]:
    """Return values just outside of what the option of a setting allows."""
    field, option = field_of(path), option_of(field_of(path))
    is_duration = field.message_type is not None
    if field.enum_type is not None:
        return [999]
    step = 1 if field.cpp_type in {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64} else 0.001
    values: list[float] = []
    if option.HasField("least") or is_duration:
        values.append(option.least - (0 if option.exclusive else step))
    if option.HasField("most"):
        values.append(option.most + step)
    return [f"{value}s" if is_duration else int(value) if step == 1 else value for value in values]


CASES = [(path, value) for path in paths() for value in refused(path)]


@pytest.mark.parametrize(("path", "value"), CASES, ids=[f"{'.'.join(path)} {value}" for path, value in CASES])
def test_a_value_outside_of_the_contracts_range_is_refused_with_its_path(path: tuple[str, ...], value: object) -> None:
    problems = []
    for resolve in RESOLVERS:
        try:
            resolve(with_value(path, value))
        except SettingsError as error:
            problems.append(error)
    assert {error.field for error in problems} == {".".join(path)}


SAME_AS_NONE = ("slack", "extra_capacity_min_rate")
"""An amount of 0 for each resource is kept apart from no amount, and asks for as little."""
DEFAULTS = [(path, option_of(field_of(path)).default_value) for path in paths() if path != SAME_AS_NONE]


@pytest.mark.parametrize(
    ("path", "text"), [one for one in DEFAULTS if one[1]], ids=[".".join(path) for path, text in DEFAULTS if text]
)
def test_the_default_of_the_contract_is_what_an_absent_setting_means(path: tuple[str, ...], text: str) -> None:
    value = text if field_of(path).cpp_type != FieldDescriptor.CPPTYPE_BOOL else text == "true"
    for resolve in RESOLVERS:
        given, absent = resolve(with_value(path, value)), resolve(plan_pb2.PlanSettings())
        assert given == absent


def test_a_range_never_excludes_its_default() -> None:
    assert {path for path, value in CASES if str(value) == option_of(field_of(path)).default_value} == set()


def test_no_two_settings_have_the_same_flag() -> None:
    flags = [flag for field in fields_below(plan_pb2.PlanSettings.DESCRIPTOR) for flag in option_of(field).upstream]
    named = [flag for flag in flags if flag.startswith("--")]
    assert sorted(named) == sorted(set(named))
