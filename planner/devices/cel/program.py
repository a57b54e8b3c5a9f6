"""Expressions to functions: types are checked, overloads chosen, and what remains is evaluated for each input.

An evaluation counts what it does, one for each step and what reading and writing values takes (`values.spend`), so no
expression holds a processor or the memory; the limits of the request are asked all along.
Source: cel-go v0.26, checker, interpreter, parser/macro.go, ext/bindings.go, ext/comprehensions.go.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from trimtab.planner.devices.cel.functions import FUNCTIONS
from trimtab.planner.devices.cel.syntax import SyntaxNode, parse
from trimtab.planner.devices.cel.texts import regular_expression
from trimtab.planner.devices.cel.values import (
    BOOL,
    DYN,
    FREE,
    INT,
    NO_VALUE,
    OPEN,
    CelType,
    EvaluationCostError,
    EvaluationError,
    ExpressionTypeError,
    OptionalValue,
    bounded_work,
    extent,
    fits,
    is_key,
    joined,
    kind_of,
    select,
    spend,
)

Scope = dict[str, CelType]
Names = dict[str, Any]
"""Values of variables while an expression is evaluated."""
Step = Callable[[Names], Any]
Typed = tuple[CelType, Step]
MISSING: Final = object()
"""In place of a value that a map does not have."""
_CONVERSIONS = frozenset({"bool", "bytes", "double", "dyn", "int", "string", "type", "uint"})
_TYPE_NAMES = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"})
_LOOPS: Final = {
    **{(name, 2): (1, False, False) for name in ("all", "exists", "exists_one")},
    **{(name, 3): (2, False, False) for name in ("all", "exists", "existsOne")},
    ("filter", 2): (1, True, False),
    ("map", 2): (1, False, True),
    ("map", 3): (1, True, True),
    **{(name, 3): (2, False, True) for name in ("transformList", "transformMap")},
    **{(name, 4): (2, True, True) for name in ("transformList", "transformMap")},
}
"""Comprehensions by name and number of arguments: number of variables, and whether a filter and a value follow them."""


class Program:
    """A compiled expression. `result_type` as the compiler knows it."""

    __slots__ = ("_run", "result_type")

    def __init__(self, text: str, variables: Scope, fields: Mapping[str, Scope]) -> None:
        """Compile. fields : of the types that have some, by name. Raises ExpressionSyntaxError or
        ExpressionTypeError.
        """
        self.result_type, self._run = _Compiler(fields).compile(parse(text), variables)

    def evaluate(self, names: Names) -> Any:
        """Return the value. Raises EvaluationError, and what the limits of the request raise."""
        try:
            with bounded_work():
                return self._run(names)
        except RecursionError:
            raise EvaluationError("nested too deeply") from None


class _Bound:
    """The value of `cel.bind`, evaluated when it is first read."""

    __slots__ = ("_names", "_step", "_value")

    def __init__(self, step: Step, names: Names) -> None:
        self._step, self._names, self._value = step, names, MISSING

    def value(self) -> Any:
        """Return the value."""
        if self._value is MISSING:
            self._value = self._step(self._names)
        return self._value


def _read(names: Names, name: str) -> Any:
    value = names[name]
    return value.value() if type(value) is _Bound else value


class _Compiler:
    def __init__(self, fields: Mapping[str, Scope]) -> None:
        self._fields = fields

    def compile(self, node: SyntaxNode, scope: Scope) -> Typed:
        """Return the type of a tree and how it is evaluated. Raises ExpressionTypeError."""
        typed: Typed = getattr(self, f"_{node.kind}")(node, scope)
        return typed

    def _literal(self, node: SyntaxNode, _scope: Scope) -> Typed:
        value = node.value
        return CelType(kind_of(value)), lambda _names: value

    def _name(self, node: SyntaxNode, scope: Scope) -> Typed:
        name = node.value
        if name in scope:
            return scope[name], lambda names: _read(names, name)
        if name in _TYPE_NAMES:
            return CelType("type"), lambda _names: CelType(name)
        raise ExpressionTypeError(f"undeclared reference to '{name}'")

    def _select(self, node: SyntaxNode, scope: Scope) -> Typed:
        kind, value_of = self.compile(node.args[0], scope)
        name = node.value
        result = self._field_type(_content(kind), name)
        if not (node.optional or kind.name == "optional"):
            return result, lambda names: _field(value_of(names), name)
        return CelType("optional", (result,)), lambda names: _optional_entry(value_of(names), name)

    def _field_type(self, kind: CelType, name: str) -> CelType:
        if kind.name in OPEN:
            return DYN
        if kind.name == "map":
            return kind.parameters[1]
        if kind.name not in self._fields:
            raise ExpressionTypeError(f"type '{kind}' does not support field selection")
        if name not in self._fields[kind.name]:
            raise ExpressionTypeError(f"undefined field '{name}'")
        return self._fields[kind.name][name]

    def _index(self, node: SyntaxNode, scope: Scope) -> Typed:
        (kind, value_of), (key_kind, key_of) = (self.compile(argument, scope) for argument in node.args)
        result = _element_type(_content(kind), key_kind)
        if not (node.optional or kind.name == "optional"):
            return result, lambda names: _entry(value_of(names), key_of(names))
        return CelType("optional", (result,)), lambda names: _optional_entry(value_of(names), key_of(names))

    def _list(self, node: SyntaxNode, scope: Scope) -> Typed:
        kinds, values_of = self._values(node.args, node.optionals, scope)

        def make(names: Names) -> Any:
            spend(len(node.args))
            return tuple([value for value in values_of(names) if value is not MISSING])

        return CelType("list", (joined(kinds, is_literal=True) if kinds else FREE,)), make

    def _map(self, node: SyntaxNode, scope: Scope) -> Typed:
        kinds, keys_of = self._values(node.args[::2], frozenset(), scope)
        value_kinds, values_of = self._values(node.args[1::2], node.optionals, scope)
        key_kind = joined(kinds, is_literal=True)
        if key_kind.parameters:
            raise ExpressionTypeError(f"unsupported key type: {key_kind.name}")

        def make(names: Names) -> Any:
            spend(len(node.args))
            entries_by_key: dict[Any, Any] = {}
            for key, value in zip(keys_of(names), values_of(names), strict=True):
                if not is_key(key):
                    raise EvaluationError(f"unsupported key type: {kind_of(key)}")
                if value is not MISSING:
                    entries_by_key[key] = value
            return entries_by_key

        return CelType("map", (key_kind, joined(value_kinds, is_literal=True))), make

    def _values(
        self, nodes: list[SyntaxNode], optionals: frozenset[int], scope: Scope
    ) -> tuple[list[CelType], Callable[[Names], Iterator[Any]]]:
        """Compile entries; the values of empty optional ones are MISSING."""
        typed = [self.compile(child, scope) for child in nodes]
        kinds = [kind.parameters[0] if at in optionals else kind for at, (kind, _) in enumerate(typed)]

        def values(names: Names) -> Iterator[Any]:
            for at, (_, step) in enumerate(typed):
                value = step(names)
                yield value if at not in optionals else value.value if value.has_value else MISSING

        return kinds, values

    def _call(self, node: SyntaxNode, scope: Scope) -> Typed:
        macro = self._macro(node, scope)
        if macro is not None:
            return macro
        name, target, args = node.value, node.target, node.args
        if (f"{_namespace(target, scope)}.{name}", False) in FUNCTIONS:
            name, target = f"{_namespace(target, scope)}.{name}", None
        overloads = FUNCTIONS.get((name, target is not None))
        if overloads is None:
            raise ExpressionTypeError(f"undeclared reference to '{name}'")
        typed = [self.compile(argument, scope) for argument in ([] if target is None else [target]) + args]
        chosen, result = select(overloads, name, [kind for kind, _ in typed])
        if name == "in" and args[1].kind == "list" and not args[1].args:
            return result, lambda _names: False  # whatever the element is
        steps = [step for _, step in typed]

        def call(names: Names) -> Any:
            values = [step(names) for step in steps]
            spend(1 + sum(map(extent, values)))
            for candidate in chosen:
                if candidate.takes(values):
                    return candidate.call(*values)
            raise EvaluationError(f"no such overload: {name}({', '.join(map(kind_of, values))})")

        if name in {"or", "orValue"} and typed[0][0].name == "optional":
            return result, lambda names: _alternative(name, steps, names)
        return result, _folded(node, call)

    def _macro(self, node: SyntaxNode, scope: Scope) -> Typed | None:
        name, target, args = node.value, node.target, node.args
        if target is None:
            if name in {"&&", "||", "?:"}:
                return self._logic(name, args, scope)
            return self._has(args[0], scope) if name == "has" and len(args) == 1 else None
        if (_namespace(target, scope), name, len(args)) == ("cel", "bind", 3):
            return self._bind(args, scope)
        if name in {"optMap", "optFlatMap"} and len(args) == 2:
            return self._opt_map(name, target, args, scope)
        return self._loop(name, target, args, scope) if (name, len(args)) in _LOOPS else None

    def _logic(self, name: str, args: list[SyntaxNode], scope: Scope) -> Typed:
        typed = [self.compile(argument, scope) for argument in args]
        for kind, _ in typed[:1] if name == "?:" else typed:
            if not fits(BOOL, kind):
                raise ExpressionTypeError(f"found no matching overload for '{name}' applied to ({kind})")
        steps = [step for _, step in typed]
        if name == "?:":
            result = joined([kind for kind, _ in typed[1:]])
            return result, lambda names: steps[1 if _truth(steps[0](names)) else 2](names)
        return BOOL, lambda names: _either(name == "||", lambda step: step(names), steps)

    def _has(self, argument: SyntaxNode, scope: Scope) -> Typed:
        if argument.kind != "select":
            raise ExpressionTypeError("invalid argument to has() macro")
        kind, value_of = self.compile(argument.args[0], scope)
        self._field_type(_content(kind), argument.value)
        return BOOL, lambda names: _has_field(value_of(names), argument.value)

    def _bind(self, args: list[SyntaxNode], scope: Scope) -> Typed:
        name = _variable(args[0])
        kind, value_of = self.compile(args[1], scope)
        result, body = self.compile(args[2], {**scope, name: kind})
        return result, lambda names: body({**names, name: _Bound(value_of, names)})

    def _opt_map(self, macro: str, target: SyntaxNode, args: list[SyntaxNode], scope: Scope) -> Typed:
        kind, value_of = self.compile(target, scope)
        if not fits(CelType("optional", (DYN,)), kind):
            raise ExpressionTypeError(f"found no matching overload for '{macro}' applied to ({kind})")
        name, is_flat = _variable(args[0]), macro == "optFlatMap"
        result, body = self.compile(args[1], {**scope, name: kind.parameters[0] if kind.parameters else DYN})

        def run(names: Names) -> Any:
            value = value_of(names)
            if not value.has_value:
                return NO_VALUE
            content = body({**names, name: value.value})
            return content if is_flat else OptionalValue(True, content)

        return (result if is_flat else CelType("optional", (result,))), run

    def _loop(self, macro: str, target: SyntaxNode, args: list[SyntaxNode], scope: Scope) -> Typed:
        """Compile a comprehension: `all` and `exists`, or what makes something of the elements that pass a test."""
        count, has_filter, has_value = _LOOPS[macro, len(args)]
        range_kind, range_of = self.compile(target, scope)
        variables = tuple(map(_variable, args[:count]))
        if len(set(variables)) < count:
            raise ExpressionTypeError("variables of a comprehension need different names")
        kinds = _loop_types(range_kind, count)
        inner = {**scope, **dict(zip(variables, kinds, strict=True))}
        is_test = not (has_filter or has_value)
        test_kind, test = self.compile(args[count], inner) if is_test or has_filter else (BOOL, None)
        if not fits(BOOL, test_kind):
            raise ExpressionTypeError(f"expected type 'bool' but found '{test_kind}'")
        if test is not None and macro in {"all", "exists"}:
            wanted, step = macro == "exists", test
            return BOOL, lambda names: _either(wanted, step, _elements(range_of(names), variables, names))
        kind, value_of = self.compile(args[-1] if has_value else SyntaxNode("name", variables[0]), inner)

        def made(names: Names) -> list[tuple[Any, Any]]:
            elements = []
            for inside in _elements(range_of(names), variables, names):
                if test is None or _truth(test(inside)):
                    elements.append((inside[variables[0]], value_of(inside)))
            return elements

        if is_test:
            return BOOL, lambda names: len(made(names)) == 1
        if macro == "transformMap":
            return CelType("map", (kinds[0], kind)), lambda names: dict(made(names))
        return CelType("list", (kind,)), lambda names: tuple([value for _, value in made(names)])


def _namespace(target: SyntaxNode | None, scope: Scope) -> str:
    """Return the name before a function's, such as "sets", "" = there is none, or a variable."""
    return target.value if target is not None and target.kind == "name" and target.value not in scope else ""


def _content(kind: CelType) -> CelType:
    return kind.parameters[0] if kind.name == "optional" else kind


def _variable(node: SyntaxNode) -> str:
    if node.kind != "name":
        raise ExpressionTypeError("argument must be a simple name")
    return str(node.value)


def _loop_types(kind: CelType, count: int) -> tuple[CelType, ...]:
    """Return the types of a comprehension's variables: index or key, and value."""
    if kind.name == "list":
        return (INT, kind.parameters[0])[-count:]
    if kind.name == "map":
        return kind.parameters[:count]
    if kind.name == "dyn":
        return (DYN, DYN)[:count]
    raise ExpressionTypeError(f"expression of type '{kind}' cannot be range of a comprehension")


def _elements(values: Any, variables: tuple[str, ...], names: Names) -> Iterator[Names]:
    """Yield the variables of each turn of a comprehension."""
    if kind_of(values) not in {"list", "map"}:
        raise EvaluationError(f"no such overload: a comprehension over {kind_of(values)}")
    inside = dict(names)
    for key, value in enumerate(values) if type(values) is tuple else values.items():
        spend(2)
        single = value if type(values) is tuple else key
        inside.update(zip(variables, (key, value) if len(variables) == 2 else (single,), strict=True))
        yield inside


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise EvaluationError(f"no such overload: {kind_of(value)} is no bool")


def _either(wanted: bool, test: Callable[[Any], Any], items: Iterable[Any]) -> bool:
    """Return `wanted` if the test of an item says so, even if another has no value; otherwise raise the first problem,
    if any."""
    problem: EvaluationError | None = None
    for item in items:
        try:
            if _truth(test(item)) is wanted:
                return wanted
        except EvaluationCostError:
            raise
        except EvaluationError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return not wanted


def _alternative(name: str, steps: list[Step], names: Names) -> Any:
    """Evaluate what stands for an empty optional value only if it is empty."""
    value = steps[0](names)
    if not value.has_value:
        return steps[1](names)
    return value.value if name == "orValue" else value


def _folded(node: SyntaxNode, call: Step) -> Step:
    """Evaluate what the real compiler evaluates; the node becomes a literal. Raises ExpressionTypeError where that
    fails."""
    name, args = node.value, node.args
    try:
        if name == "matches" and args[-1].kind == "literal" and isinstance(args[-1].value, str):
            regular_expression(args[-1].value)
        if name in _CONVERSIONS and args and args[0].kind == "literal":
            value = call({})
            node.kind, node.value = "literal", value
            return lambda _names: value
    except EvaluationError as problem:
        raise ExpressionTypeError(str(problem)) from None
    return call


def _element_type(kind: CelType, key: CelType) -> CelType:
    if kind.name in OPEN:
        return DYN
    if kind.name == "list" and fits(INT, key):
        return kind.parameters[0]
    if kind.name == "map" and fits(kind.parameters[0], key):
        return kind.parameters[1]
    raise ExpressionTypeError(f"found no matching overload for '_[_]' applied to ({kind}, {key})")


def _has_field(value: Any, name: str) -> bool:
    if isinstance(value, OptionalValue):
        return value.has_value and _has_field(value.value, name)
    if type(value) is tuple:
        raise EvaluationError("unsupported index type 'string' in list")
    return isinstance(value, dict) and value.get(name, MISSING) is not MISSING


def _field(value: Any, name: str) -> Any:
    if type(value) is tuple:
        raise EvaluationError(f"no such overload: list.{name}")
    return _entry(value, name)


def _entry(value: Any, key: Any) -> Any:
    spend(1)
    if isinstance(value, dict):
        entry = value.get(key, MISSING) if is_key(key) else MISSING
        if entry is MISSING:
            raise EvaluationError(f"no such key: {key if is_key(key) else kind_of(key)}")
        return entry
    if type(value) is tuple and kind_of(key) in {"int", "uint"}:
        if not 0 <= key < len(value):
            raise EvaluationError(f"index out of bounds: {key}")
        return value[key]
    raise EvaluationError(f"no such overload: {kind_of(value)}[{kind_of(key)}]")


def _optional_entry(value: Any, key: Any) -> Any:
    if isinstance(value, OptionalValue):
        if not value.has_value:
            return NO_VALUE
        value = value.value
    is_outside = type(value) is tuple and isinstance(key, int) and not 0 <= key < len(value)
    is_missing = isinstance(value, dict) and (not is_key(key) or value.get(key, MISSING) is MISSING)
    return NO_VALUE if is_outside or is_missing else OptionalValue(True, _entry(value, key))
