"""Where code looks into the counters of predicates, read from its syntax.

Counters are the field `counters` of a state, arguments and results that are annotated as `Counters` or `CounterNotes`,
and every name that is bound to one of these. They may be handed on, compared with None and stored; reading an
attribute, an item or an element is looking into them, and so is importing a kind of counters.
"""

import ast
from collections.abc import Iterable, Iterator

from trimtab.planner.predicates.order import KINDS

FIELDS = {"counters"}
TYPES = {"Counters", "CounterNotes"}
KIND_MODULES = {kind.builder.__module__ for kind in KINDS}
GETTERS = {"getattr", "attrgetter", "vars", "tuple", "list", "iter", "zip", "enumerate", "map"}


def counters_returned_by(texts: Iterable[str]) -> set[str]:
    """Return the names of the functions of modules that return counters."""
    functions = (node for text in texts for node in ast.walk(ast.parse(text)))
    return {node.name for node in functions if isinstance(node, ast.FunctionDef) and _is_type(node.returns)}


def counters_read(text: str, returning: set[str]) -> list[int]:
    """Return the lines of a module that look into counters. returning : the functions that return some."""
    tree = ast.parse(text)
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    lines = set(_imports(tree)) | set(_paths(tree))
    for scope in [tree, *scopes]:
        lines |= set(_Scope(scope, returning).reads())
    return sorted(lines)


def _is_type(annotation: ast.expr | None) -> bool:
    return annotation is not None and any(isinstance(one, ast.Name) and one.id in TYPES for one in ast.walk(annotation))


def _imports(tree: ast.AST) -> Iterator[int]:
    """Yield where the arrays of a kind are imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in KIND_MODULES:
            yield node.lineno


def _paths(tree: ast.AST) -> Iterator[int]:
    """Yield where a text names an array of counters by its path."""
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if any(f"counters.{kind.field}" in text for kind in KINDS):
            yield node.lineno  # type: ignore[attr-defined]


class _Scope:
    """A function, a lambda or a module, and the names that are counters in it."""

    def __init__(self, scope: ast.AST, returning: set[str]) -> None:
        self._scope, self._returning = scope, returning
        self._names = set[str]()
        if isinstance(scope, ast.FunctionDef):
            arguments = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
            self._names = {one.arg for one in arguments if _is_type(one.annotation)}
        size = -1
        while size < len(self._names):  # a name may be bound to a name that is bound further below
            size = len(self._names)
            for node in ast.walk(scope):
                self._bind(node)

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind_target(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._bind_target(node.target, node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Lambda):
            for argument, value in zip(node.func.args.args, node.args, strict=False):
                self._names |= {argument.arg} if self._is_counters(value) else set()

    def _bind_target(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, of in zip(target.elts, value.elts, strict=False):
                self._bind_target(one, of)
        elif isinstance(target, ast.Name) and self._is_counters(value):
            self._names.add(target.id)

    def _is_counters(self, node: ast.expr | None) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._names
        if isinstance(node, ast.Attribute):
            return node.attr in FIELDS and not (isinstance(node.value, ast.Name) and node.value.id == "predicates")
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            return name in self._returning
        if isinstance(node, ast.IfExp):
            return self._is_counters(node.body) or self._is_counters(node.orelse)
        return False

    def reads(self) -> Iterator[int]:
        """Yield the lines at which counters are looked into."""
        for node in ast.walk(self._scope):
            if any(self._is_counters(one) for one in self._looked_into(node)):
                yield getattr(node, "lineno", getattr(getattr(node, "iter", None), "lineno", 0))

    def _looked_into(self, node: ast.AST) -> Iterator[ast.expr]:
        """Yield the expressions whose content a node reads."""
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
            yield node.value
        elif isinstance(node, ast.For | ast.comprehension):
            yield node.iter
        elif isinstance(node, ast.Assign) and any(isinstance(one, ast.Tuple) for one in node.targets):
            yield node.value
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in GETTERS:
                yield from node.args
        elif isinstance(node, ast.Match):
            yield node.subject
