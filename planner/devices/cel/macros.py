"""Macros of expressions: `has`, `cel.bind`, comprehensions with one and two variables, `optMap`.

A comprehension charges, beside its parts, what the loop of the real interpreter costs for each element.
Source: cel-go v0.26, parser/macro.go, ext/bindings.go, ext/comprehensions.go.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trimtab.planner.devices.cel.logic import (
    EvaluationFrame,
    ExpressionCompiler,
    Step,
    Typed,
    either,
    has_field,
    truth,
)
from trimtab.planner.devices.cel.syntax import SyntaxNode
from trimtab.planner.devices.cel.types import BOOL, DYN, INT, ExpressionTypeError, fits
from trimtab.planner.devices.cel.values import NO_VALUE, CelType, EvaluationError, OptionalValue, kind_of, spend

Macro = Callable[[ExpressionCompiler, SyntaxNode, dict[str, CelType]], Typed]


def _variable(node: SyntaxNode) -> str:
    if node.kind != "name":
        raise ExpressionTypeError("argument must be a simple name")
    return str(node.value)


@contextmanager
def _bound(frame: EvaluationFrame, names: tuple[str, ...]) -> Iterator[None]:
    kept = {name: frame.names[name] for name in names if name in frame.names}
    try:
        yield
    finally:
        for name in names:
            frame.names.pop(name, None)
        frame.names.update(kept)


def _has(compiler: ExpressionCompiler, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
    argument = node.args[0]
    if argument.kind != "select":
        raise ExpressionTypeError("invalid argument to has() macro")
    kind, value_of = compiler.compile(argument.args[0], scope)
    compiler.field_type(kind.parameters[0] if kind.name == "optional" else kind, argument.value)
    name = argument.value
    return BOOL, lambda frame: has_field(frame, value_of(frame), name)


def _bind(compiler: ExpressionCompiler, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
    name = _variable(node.args[0])
    kind, value_of = compiler.compile(node.args[1], scope)
    result, body = compiler.compile(node.args[2], {**scope, name: kind})

    def run(frame: EvaluationFrame) -> Any:
        value = value_of(frame)
        with _bound(frame, (name,)):
            frame.names[name] = value
            return body(frame)

    return result, run


LIST_COST = 10


def _opt_map(compiler: ExpressionCompiler, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
    if node.target is None:
        raise ExpressionTypeError(f"{node.value} needs an optional value")
    kind, value_of = compiler.compile(node.target, scope)
    if not fits(CelType("optional", (DYN,)), kind):
        raise ExpressionTypeError(f"found no matching overload for '{node.value}' applied to ({kind})")
    name = _variable(node.args[0])
    inner = kind.parameters[0] if kind.parameters else DYN
    result, body = compiler.compile(node.args[1], {**scope, name: inner})
    flat = node.value == "optFlatMap"

    def run(frame: EvaluationFrame) -> Any:
        value = value_of(frame)
        if not value.has_value:
            return NO_VALUE
        with _bound(frame, (name,)):
            frame.names[name] = value.value
            found = body(frame)
        return found if flat else OptionalValue(True, found)

    return (result if flat else CelType("optional", (result,))), run


class ComprehensionLoop:
    """The range of a comprehension and its variables: one, or two (index or key, and value)."""

    def __init__(
        self, compiler: ExpressionCompiler, node: SyntaxNode, scope: dict[str, CelType], variables: int
    ) -> None:
        if node.target is None:
            raise ExpressionTypeError(f"{node.value} needs a list or a map")
        kind, self._range_of = compiler.compile(node.target, scope)
        self.names = tuple(_variable(one) for one in node.args[:variables])
        if len(set(self.names)) < variables:
            raise ExpressionTypeError("variables of a comprehension need different names")
        types = self._types(kind, variables)
        self.scope = {**scope, **dict(zip(self.names, types, strict=True))}
        self.is_list = kind.name != "map"

    @staticmethod
    def _types(kind: CelType, variables: int) -> tuple[CelType, ...]:
        if kind.name == "list":
            return (INT, kind.parameters[0])[-variables:]
        if kind.name == "map":
            return kind.parameters[:variables]
        if kind.name == "dyn":
            return (DYN, DYN)[:variables]
        raise ExpressionTypeError(f"expression of type '{kind}' cannot be range of a comprehension")

    def elements(self, frame: EvaluationFrame) -> Iterator[None]:
        """Yield once for each element, with the variables set."""
        values = self._range_of(frame)
        pairs: Iterator[tuple[Any, Any]]
        if isinstance(values, tuple):
            pairs = iter(enumerate(values))
        elif isinstance(values, Mapping):
            pairs = iter(values.items())
        else:
            raise EvaluationError(f"no such overload: a comprehension over {kind_of(values)}")
        with _bound(frame, self.names):
            for key, value in pairs:
                spend(1)
                single = value if isinstance(values, tuple) else key
                frame.names.update(zip(self.names, (key, value) if len(self.names) == 2 else (single,), strict=True))
                yield


def _test_step(compiler: ExpressionCompiler, node: SyntaxNode, loop: ComprehensionLoop) -> Step:
    kind, step = compiler.compile(node, loop.scope)
    if not fits(BOOL, kind):
        raise ExpressionTypeError(f"expected type 'bool' but found '{kind}'")
    return step


def _quantifier(variables: int) -> Macro:
    def macro(compiler: ExpressionCompiler, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
        loop = ComprehensionLoop(compiler, node, scope, variables)
        test = _test_step(compiler, node.args[-1], loop)
        wanted = node.value == "exists"

        def run(frame: EvaluationFrame) -> bool:
            def tests() -> Iterator[Step]:
                for _ in loop.elements(frame):
                    frame.charge(3 if wanted else 2)
                    yield test
                    frame.charge(1)

            found = either(wanted, frame, tests())
            frame.charge(1)
            return found

        return BOOL, run

    return macro


def _exists_one(variables: int) -> Macro:
    def macro(compiler: ExpressionCompiler, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
        loop = ComprehensionLoop(compiler, node, scope, variables)
        test = _test_step(compiler, node.args[-1], loop)

        def run(frame: EvaluationFrame) -> bool:
            count = 0
            for _ in loop.elements(frame):
                count += truth(test(frame))
                frame.charge(1)
            frame.charge(2)
            return count == 1

        return BOOL, run

    return macro


def _listing(variables: int, filters: bool, transforms: bool) -> Macro:
    """Return `filter` (filters), `map` (transforms) or both."""

    def macro(compiler: ExpressionCompiler, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
        loop = ComprehensionLoop(compiler, node, scope, variables)
        test = _test_step(compiler, node.args[variables], loop) if filters else None
        last = node.args[-1] if transforms else SyntaxNode("name", loop.names[0])
        kind, transform = compiler.compile(last, loop.scope)

        def run(frame: EvaluationFrame) -> Any:
            out: list[Any] = []
            for _ in loop.elements(frame):
                if test is not None and not truth(test(frame)):
                    frame.charge(1)
                    continue
                out.append(transform(frame))
                frame.charge(LIST_COST + 2)
            frame.charge(LIST_COST + 1)
            return tuple(out)

        return CelType("list", (kind,)), run

    return macro


def _transform_map(filters: bool) -> Macro:
    def macro(compiler: ExpressionCompiler, node: SyntaxNode, scope: dict[str, CelType]) -> Typed:
        loop = ComprehensionLoop(compiler, node, scope, 2)
        test = _test_step(compiler, node.args[2], loop) if filters else None
        kind, transform = compiler.compile(node.args[-1], loop.scope)

        def run(frame: EvaluationFrame) -> Any:
            out: dict[Any, Any] = {}
            for _ in loop.elements(frame):
                key = frame.names[loop.names[0]]
                if test is None or truth(test(frame)):
                    out[key] = transform(frame)
                    frame.charge(LIST_COST)
            frame.charge(3 * LIST_COST)
            return out

        return CelType("map", (loop.scope[loop.names[0]], kind)), run

    return macro


MACROS: dict[tuple[str, int, bool], Macro] = {
    ("has", 1, False): _has,
    ("cel.bind", 3, False): _bind,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_map,
    ("all", 2, True): _quantifier(1),
    ("exists", 2, True): _quantifier(1),
    ("all", 3, True): _quantifier(2),
    ("exists", 3, True): _quantifier(2),
    ("exists_one", 2, True): _exists_one(1),
    ("existsOne", 2, True): _exists_one(1),
    ("existsOne", 3, True): _exists_one(2),
    ("filter", 2, True): _listing(1, filters=True, transforms=False),
    ("map", 2, True): _listing(1, filters=False, transforms=True),
    ("map", 3, True): _listing(1, filters=True, transforms=True),
    ("transformList", 3, True): _listing(2, filters=False, transforms=True),
    ("transformList", 4, True): _listing(2, filters=True, transforms=True),
    ("transformMap", 3, True): _transform_map(filters=False),
    ("transformMap", 4, True): _transform_map(filters=True),
}
"""(name, number of arguments, is a member) to how it is compiled."""
