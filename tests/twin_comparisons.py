"""Which kernels are compared with their naive twins, read from the syntax of the tests.

A kernel counts as compared if one test function, together with the functions of its module that it uses, calls code
that uses the kernel's module, calls code that uses the twin, and asserts.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.reference.predicates import compose as naive
from trimtab.planner.predicates import order
from trimtab.planner.predicates.counter_kind import CountedPredicate, CounterKind
from trimtab.planner.predicates.kernels import compose
from trimtab.planner.predicates.order import KINDS
from trimtab.planner.predicates.static import StaticPredicate

ROOT = Path(__file__).resolve().parents[1]
COLLECTED = {
    compose.__name__: frozenset(f"{compose.__package__}.{kind.field}" for kind in KINDS),
    naive.__name__: frozenset(twin.__name__ for twin in naive.TWINS.values()),
}
"""Modules that are imported by the list of predicates, or by a folder's content, not by name."""


class TestFunction(NamedTuple):
    """A test function. calls : modules of the functions that it calls, or that functions of its module call."""

    calls: frozenset[str]
    asserts: bool


def compared(tests: list[TestFunction], kernel: str, twin: str) -> bool:
    """Return whether any test compares a kernel's module with its twin."""
    return any(
        test.asserts
        and any(kernel in rests_on(module) for module in test.calls)
        and any(twin in rests_on(module) for module in test.calls if module.startswith("tests.reference"))
        for test in tests
    )


def functions_in(path: Path) -> Iterator[TestFunction]:
    """Yield the test functions of a file."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    origin = dict(_origins(module))
    parts = {
        node.name: node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }  # fmt: skip
    for name, node in parts.items():
        if name.startswith("test_") and isinstance(node, ast.FunctionDef):
            used = _with_parts(node, parts)
            called = frozenset(origin[one] for part in used for one in _called(part) if one in origin)
            yield TestFunction(called, any(isinstance(one, ast.Assert) for part in used for one in ast.walk(part)))


@cache
def rests_on(module: str) -> frozenset[str]:
    """Return a module of the planner or the twins, and all such modules that it imports directly or indirectly."""
    found, waiting = set(), [module]
    while waiting:
        one = waiting.pop()
        if one in found or _file_of(one) is None:
            continue
        found.add(one)
        waiting += _imported(one)
    return frozenset(found)


@cache
def _imported(module: str) -> frozenset[str]:
    """Return the modules of the names that a module imports. Each file is read once."""
    path = _file_of(module)
    assert path is not None
    origins = _origins(ast.parse(path.read_text(encoding="utf-8")))
    return COLLECTED.get(module, frozenset()) | {of for _, of in origins}


@cache
def _file_of(module: str) -> Path | None:
    if not module.startswith(("trimtab.planner", "tests.reference", "tests.builders", "tests.parity")):
        return None
    path = ROOT / module.removeprefix("trimtab.").replace(".", "/")
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.exists()), None)


def _origins(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield every imported name of a file with its module."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name.partition(".")[0], alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield alias.asname or alias.name, inner if _file_of(inner) else node.module


def _with_parts(node: ast.AST, parts: dict[str, ast.FunctionDef | ast.ClassDef]) -> list[ast.AST]:
    """Return a function with all functions and classes of its module that it uses directly or indirectly."""
    found: list[ast.AST] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.append(one)
            named = {name.id for name in ast.walk(one) if isinstance(name, ast.Name)}
            waiting += [parts[name] for name in sorted(named & parts.keys())]
    return found


def _called(node: ast.AST) -> Iterator[str]:
    """Yield the first name of every call: `module` of `module.function(…)`."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call):
            target: ast.AST = one.func
            while isinstance(target, ast.Attribute | ast.Subscript | ast.Call):
                target = target.func if isinstance(target, ast.Call) else target.value
            if isinstance(target, ast.Name):
                yield target.id


def declared() -> dict[str, list[StaticPredicate | CountedPredicate]]:
    """Return the listed predicates by the name of their module, which the list imports."""
    tree = ast.parse(Path(order.__file__).read_text(encoding="utf-8"))
    found: dict[str, list[StaticPredicate | CountedPredicate]] = {}
    for node in (one for one in tree.body if isinstance(one, ast.ImportFrom)):
        for alias in node.names:
            value = getattr(order, alias.name)
            if any(value is one for one in order.PREDICATES):
                found.setdefault(str(node.module).rpartition(".")[2], []).append(value)
    return found


def twins_of(kind: CounterKind) -> list[str]:
    """Return the twins of the predicates that use a kind of counters."""
    return [
        f"{naive.__package__}.{name}"
        for name, predicates in declared().items()
        if any(isinstance(one, CountedPredicate) and one.kind is kind for one in predicates)
    ]
