"""Expressions to functions: types are checked, overloads chosen, and what remains is evaluated for each input.

The cost of an evaluation is counted as it goes: 1 for each name, field and call, 10 for a list, 30 for a map, and what
reading values costs. At the limit the evaluation ends with a problem; so it does at the limit of its work
(`values.spend`), as the cost of the API server knows no copies. The limits of the request are asked all along.
Source: cel-go v0.26, checker and interpreter.
"""

from collections.abc import Callable, Mapping
from typing import Any

from trimtab.planner.devices.cel.functions import FUNCTIONS
from trimtab.planner.devices.cel.logic import MISSING, EvaluationFrame, Step, Typed, either, truth
from trimtab.planner.devices.cel.macros import MACROS, Macro
from trimtab.planner.devices.cel.syntax import SyntaxNode, parse
from trimtab.planner.devices.cel.texts import compiled
from trimtab.planner.devices.cel.types import BOOL, DYN, OPEN, ExpressionTypeError, fits, joined, select
from trimtab.planner.devices.cel.values import (
    NO_VALUE,
    CelType,
    EvaluationError,
    OptionalValue,
    bounded_work,
    extent,
    is_key,
    kind_of,
    spend,
)

LIST_COST, MAP_COST = 10, 30
LARGEST_CONSTANT_COST = 10_000
_CONVERSIONS = frozenset({"bool", "bytes", "double", "dyn", "int", "string", "type", "uint"})
NAMESPACES = frozenset({"cel", "sets", "strings", "lists", "optional", "math"})


class Program:
    """A compiled expression. `result_type` as the compiler knows it."""

    __slots__ = ("_run", "result_type")

    def __init__(
        self, text: str, variables: Mapping[str, CelType], fields: Mapping[str, Mapping[str, CelType]]
    ) -> None:
        """Compile. fields : of the types that have some, by name. Raises ExpressionSyntaxError or
        ExpressionTypeError.
        """
        self.result_type, self._run = Compiler(fields).compile(parse(text), dict(variables))

    def evaluate(self, names: dict[str, Any], limit: int) -> tuple[Any, int]:
        """Return the value and its cost. Raises EvaluationError, and what the limits of the request raise."""
        frame = EvaluationFrame(names, limit)
        try:
            with bounded_work():
                return self._run(frame), frame.cost
        except RecursionError:
            raise EvaluationError("nested too deeply") from None


class Compiler:
    """Compiles trees; `scope` holds the types of names."""

    def __init__(self, fields: Mapping[str, Mapping[str, CelType]]) -> None:
        self._fields = fields
        self._kinds: dict[str, Callable[[SyntaxNode, dict[str, CelType]], Typed]] = {
            "literal": self._literal,
            "name": self._name,
            "select": self._select,
            "index": self._index,
            "call": self._call,
            "list": self._list,
            "map": self._map,
        }

    def compile(self, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
        """Return the type of a tree and how it is evaluated. Raises ExpressionTypeError."""
        return self._kinds[node.kind](node, scope)

    def _literal(self, node: SyntaxNode, _scope: dict[str, CelType]) -> Typed:
        value = node.value
        return CelType(kind_of(value)), lambda _frame: value

    def _name(self, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
        name = node.value
        if name not in scope:
            if name in _TYPE_NAMES:
                return CelType("type"), lambda _frame: CelType(name)
            raise ExpressionTypeError(f"undeclared reference to '{name}'")

        def read(frame: EvaluationFrame) -> Any:
            frame.charge(1)
            return frame.names[name]

        return scope[name], read

    def _select(self, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
        kind, value_of = self.compile(node.args[0], scope)
        name = node.value
        inner = kind.parameters[0] if kind.name == "optional" else kind
        result = self.field_type(inner, name)
        if not (node.optional or kind.name == "optional"):
            return result, lambda frame: _field(frame, value_of(frame), name)
        return CelType("optional", (result,)), lambda frame: _optional_entry(frame, value_of(frame), name)

    def field_type(self, kind: CelType, name: str) -> CelType:
        """Return the type of a field. Raises ExpressionTypeError if values of the type have none of this name."""
        if kind.name in OPEN:
            return DYN
        if kind.name == "map":
            return kind.parameters[1]
        found = self._fields.get(kind.name, {})
        if name in found:
            return found[name]
        if kind.name in self._fields:
            raise ExpressionTypeError(f"undefined field '{name}'")
        raise ExpressionTypeError(f"type '{kind}' does not support field selection")

    def _index(self, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
        kind, value_of = self.compile(node.args[0], scope)
        key_kind, key_of = self.compile(node.args[1], scope)
        inner = kind.parameters[0] if kind.name == "optional" else kind
        result = _element_type(inner, key_kind)
        if not (node.optional or kind.name == "optional"):
            return result, lambda frame: _entry(frame, value_of(frame), key_of(frame))
        return CelType("optional", (result,)), lambda frame: _optional_entry(frame, value_of(frame), key_of(frame))

    def _list(self, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
        typed = [self.compile(one, scope) for one in node.args]
        optionals = node.optionals
        kinds = [kind.parameters[0] if at in optionals else kind for at, (kind, _) in enumerate(typed)]
        steps = [step for _, step in typed]
        cost = 0 if is_constant(node) else LIST_COST

        def make(frame: EvaluationFrame) -> Any:
            values = [step(frame) for step in steps]
            frame.charge(cost)
            return tuple(
                value.value if at in optionals else value
                for at, value in enumerate(values)
                if at not in optionals or value.has_value
            )

        return CelType("list", (joined(kinds, is_literal=True),)), make

    def _map(self, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
        keys = [self.compile(one, scope) for one in node.args[::2]]
        values = [self.compile(one, scope) for one in node.args[1::2]]
        optionals = node.optionals
        kinds = [kind.parameters[0] if at in optionals else kind for at, (kind, _) in enumerate(values)]
        cost = 0 if is_constant(node) else MAP_COST

        def make(frame: EvaluationFrame) -> Any:
            made: dict[Any, Any] = {}
            for at, ((_, key_of), (_, value_of)) in enumerate(zip(keys, values, strict=True)):
                key, value = key_of(frame), value_of(frame)
                if not is_key(key):
                    raise EvaluationError(f"unsupported key type: {kind_of(key)}")
                if at not in optionals:
                    made[key] = value
                elif value.has_value:
                    made[key] = value.value
            frame.charge(cost)
            return made

        key_kind = joined([kind for kind, _ in keys], True)
        if key_kind.parameters:
            raise ExpressionTypeError(f"unsupported key type: {key_kind.name}")
        return CelType("map", (key_kind, joined(kinds, True))), make

    def _call(self, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
        name, target = node.value, node.target
        if target is None and name in {"&&", "||", "?:"}:
            return self._logic(name, node.args, scope)
        macro = _macro_of(node)
        if macro is not None:
            return macro(self, node, scope)
        if target is not None and target.kind == "name" and target.value not in scope:
            qualified = f"{target.value}.{name}"
            if (qualified, False) in FUNCTIONS:
                name, target = qualified, None
        overloads = FUNCTIONS.get((name, target is not None))
        if overloads is None:
            raise ExpressionTypeError(f"undeclared reference to '{name}'")
        typed = [self.compile(one, scope) for one in ([] if target is None else [target]) + node.args]
        chosen, result = select(overloads, name, [kind for kind, _ in typed])
        steps = [step for _, step in typed]
        free = name == "in" and is_constant(node.args[1])

        def call(frame: EvaluationFrame) -> Any:
            values = [step(frame) for step in steps]
            spend(sum(map(extent, values)))
            for one in chosen:
                if one.takes(values):
                    frame.charge(0 if free else 1 if one.cost is None else one.cost(*values))
                    return one.call(*values)
            raise EvaluationError(f"no such overload: {name}({', '.join(map(kind_of, values))})")

        return result, _folded(name, node.args, call)

    def _logic(self, name: str, args: list[SyntaxNode], scope: dict[str, CelType]) -> Typed:
        typed = [self.compile(one, scope) for one in args]
        for kind, _ in typed[:1] if name == "?:" else typed:
            if not fits(BOOL, kind):
                raise ExpressionTypeError(f"found no matching overload for '{name}' applied to ({kind})")
        steps = [step for _, step in typed]
        if name == "?:":
            result = joined([kind for kind, _ in typed[1:]])
            return result, lambda frame: steps[1 if truth(steps[0](frame)) else 2](frame)
        return BOOL, lambda frame: either(name == "||", frame, steps)


def is_constant(node: SyntaxNode) -> bool:
    """Return whether a list, a map or a literal is known before evaluation."""
    if node.kind in {"list", "map"}:
        return not node.optionals and all(map(is_constant, node.args))
    return node.kind == "literal"


def _folded(name: str, args: list[SyntaxNode], call: Step) -> Step:
    """Evaluate what the real compiler evaluates. Raises ExpressionTypeError where that fails."""
    last = args[-1].value if args and args[-1].kind == "literal" else None
    if name == "matches" and isinstance(last, str):
        try:
            compiled(last)
        except EvaluationError as problem:
            raise ExpressionTypeError(f"invalid matches argument: {problem}") from None
    if name not in _CONVERSIONS or not args or args[0].kind != "literal":
        return call
    try:
        value = call(EvaluationFrame({}, LARGEST_CONSTANT_COST))
    except EvaluationError as problem:
        raise ExpressionTypeError(str(problem)) from None
    return lambda _frame: value


def _macro_of(node: SyntaxNode) -> Macro | None:
    if node.target is not None and node.target.kind == "name" and node.target.value == "cel":
        return MACROS.get((f"cel.{node.value}", len(node.args), False))
    return MACROS.get((node.value, len(node.args), node.target is not None))


def _element_type(kind: CelType, key: CelType) -> CelType:
    if kind.name in OPEN:
        return DYN
    if kind.name == "list" and fits(CelType("int"), key):
        return kind.parameters[0]
    if kind.name == "map" and fits(kind.parameters[0], key):
        return kind.parameters[1]
    raise ExpressionTypeError(f"found no matching overload for '_[_]' applied to ({kind}, {key})")


def _field(frame: EvaluationFrame, value: Any, name: str) -> Any:
    frame.charge(1)
    if not isinstance(value, Mapping):
        raise EvaluationError(f"no such overload: {kind_of(value)}.{name}")
    found = value.get(name, MISSING)
    if found is MISSING:
        raise EvaluationError(f"no such key: {name}")
    return found


def _entry(frame: EvaluationFrame, value: Any, key: Any) -> Any:
    frame.charge(1)
    if isinstance(value, Mapping):
        found = value.get(key, MISSING) if is_key(key) else MISSING
        if found is MISSING:
            raise EvaluationError(f"no such key: {key if is_key(key) else kind_of(key)}")
        return found
    if isinstance(value, tuple) and kind_of(key) in {"int", "uint"}:
        if not 0 <= key < len(value):
            raise EvaluationError(f"index out of bounds: {key}")
        return value[key]
    raise EvaluationError(f"no such overload: {kind_of(value)}[{kind_of(key)}]")


def _optional_entry(frame: EvaluationFrame, value: Any, key: Any) -> Any:
    if isinstance(value, OptionalValue):
        if not value.has_value:
            return NO_VALUE
        value = value.value
    if isinstance(value, tuple) and isinstance(key, int) and not 0 <= key < len(value):
        return NO_VALUE
    if isinstance(value, Mapping) and (not is_key(key) or value.get(key, MISSING) is MISSING):
        frame.charge(1)
        return NO_VALUE
    return OptionalValue(True, _entry(frame, value, key))


_TYPE_NAMES = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"})
