"""Selectors of devices: CEL expressions about one variable, `device`, kept by expression and content of the device.

`device` has `driver` (string), `attributes[domain].id`, `capacity[domain].id` (quantity) and
`allowMultipleAllocations`, whatever feature gates say, as stored expressions may use what was once on. A name without
a domain is put under the driver's. An unknown domain is an empty map; an unknown name in it is an error when the
expression is evaluated.
Source: k8s.io/dynamic-resource-allocation/cel/compile.go, v0.36.3.
"""

from typing import Any

from trimtab.planner.devices.cel.program import Program
from trimtab.planner.devices.cel.syntax import ExpressionSyntaxError
from trimtab.planner.devices.cel.values import (
    BOOL,
    FREE,
    STRING,
    EvaluationError,
    ExpressionTypeError,
    Quantity,
    parse_semver,
    type_of,
)
from trimtab.planner.devices.model import SCALAR_KINDS, AttributeKind, DeviceContent, DeviceFeatures
from trimtab.planner.model.execution import reserve_memory

LONGEST = 10 * 1024
"""Bytes of an expression (`CELSelectorExpressionMaxLength`)."""

_ANSWER_BYTES = 300

_CAPACITY = type_of("map(string, map(string, quantity))")
_EMPTY: dict[str, Any] = {}


class SelectorError(Exception):
    """Raised for a selector that does not compile, or has no value for a device; the argument is for people."""


class AttributeDomains(dict[str, dict[str, Any]]):
    """Maps by domain; an unknown domain is an empty map."""

    def get(self, domain: str, _default: Any = None) -> dict[str, Any]:
        """Return the map of a domain."""
        return super().get(domain, _EMPTY)


class DeviceSelectors:
    """Evaluates selectors; each expression is compiled once and evaluated once for each driver and content."""

    def __init__(self, features: DeviceFeatures) -> None:
        self._lists = features.behavior.has_list_attributes
        # The type of attributes: "any" has no elements, "dyn" may.
        attribute = "dyn" if self._lists else "any"
        self._fields = {
            "device": {
                "driver": STRING,
                "attributes": type_of(f"map(string, map(string, {attribute}))"),
                "capacity": _CAPACITY,
                "allowMultipleAllocations": BOOL,
            }
        }
        self._result_types = {"bool", attribute, FREE.name}
        self._programs: dict[str, Program | SelectorError] = {}
        self._answers: dict[tuple[str, str, DeviceContent], bool | SelectorError] = {}
        self._variables: dict[tuple[str, DeviceContent], dict[str, Any] | SelectorError] = {}

    def matches(self, expression: str, driver: str, content: DeviceContent) -> bool:
        """Return whether a device matches. Raises SelectorError."""
        key = (expression, driver, content)
        answer = self._answers.get(key)
        if answer is None:
            reserve_memory(_ANSWER_BYTES, "answers of device selectors")
            answer = self._answers[key] = self._evaluated(expression, driver, content)
        if isinstance(answer, SelectorError):
            raise answer
        return answer

    def program(self, expression: str) -> Program:
        """Return the compiled expression. Raises SelectorError."""
        program = self._programs.get(expression)
        if program is None:
            program = self._programs[expression] = self._compiled(expression)
        if isinstance(program, SelectorError):
            raise program
        return program

    def _compiled(self, expression: str) -> Program | SelectorError:
        size = len(expression.encode(errors="surrogatepass"))
        if size > LONGEST:
            return SelectorError(f"CEL compile error: {size} bytes; the API allows {LONGEST}")
        try:
            program = Program(expression, {"device": type_of("device")}, self._fields)
        except (ExpressionSyntaxError, ExpressionTypeError) as problem:
            return SelectorError(f"CEL compile error: {problem}")
        except RecursionError:
            return SelectorError("CEL compile error: nested too deeply")
        if program.result_type.name not in self._result_types:
            return SelectorError(
                f"CEL compile error: must evaluate to bool or the unknown type, not {program.result_type}"
            )
        return program

    def _evaluated(self, expression: str, driver: str, content: DeviceContent) -> bool | SelectorError:
        try:
            value = self.program(expression).evaluate(self._device(driver, content))
        except SelectorError as error:
            return error
        except EvaluationError as problem:
            return SelectorError(f"CEL runtime error: {problem}")
        if not isinstance(value, bool):
            return SelectorError("CEL runtime error: the result could not be converted to bool")
        return value

    def _device(self, driver: str, content: DeviceContent) -> dict[str, Any]:
        key = (driver, content)
        variables = self._variables.get(key)
        if variables is None:
            try:
                variables = self._variables[key] = device_variables(driver, content, self._lists)
            except SelectorError as error:
                variables = self._variables[key] = error
        if isinstance(variables, SelectorError):
            raise variables
        return variables


def device_variables(driver: str, content: DeviceContent, lists: bool) -> dict[str, Any]:
    """Return the variables of expressions about a device. lists : lists are values. Raises SelectorError for an
    attribute without a value.
    """
    attributes: dict[str, dict[str, Any]] = {}
    for attribute in content.attributes:
        value: Any = attribute.value
        if attribute.kind is AttributeKind.VERSION:
            value = parse_semver(str(value))
        elif attribute.kind is AttributeKind.VERSIONS:
            value = tuple(map(parse_semver, value))
        has_kind = attribute.kind in SCALAR_KINDS or (lists and attribute.kind is not AttributeKind.UNKNOWN)
        if not has_kind or value is None or (isinstance(value, tuple) and None in value):
            raise SelectorError(f"CEL runtime error: attribute {attribute.name}: unsupported attribute value")
        domain, name = qualified(attribute.name, driver)
        attributes.setdefault(domain, {})[name] = value
    capacity: dict[str, dict[str, Any]] = {}
    for row in content.capacities:
        domain, name = qualified(row.name, driver)
        capacity.setdefault(domain, {})[name] = Quantity(row.value_nano)
    return {
        "device": {
            "driver": driver,
            "allowMultipleAllocations": content.allow_multiple_allocations,
            "attributes": AttributeDomains(attributes),
            "capacity": AttributeDomains(capacity),
        }
    }


def qualified(name: str, driver: str) -> tuple[str, str]:
    """Return the domain and the rest of a name; without a domain, it is the driver's."""
    domain, slash, rest = name.partition("/")
    return (domain, rest) if slash else (driver, name)
