"""Text of the Common Expression Language to a tree: the grammar alone, no types and no meaning.

A tree is made of `SyntaxNode`s. Macros (`has`, `exists`, `cel.bind`) are calls here.
Source: the language definition of cel-spec, `doc/langdef.md`.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from trimtab.planner.devices.cel.values import Unsigned

LARGEST_EXPRESSION: Final = 10 * 1024
"""Bytes of an expression that the API server accepts (`CELSelectorExpressionMaxLength`)."""

DEEPEST: Final = 50
"""Nested parts of an expression; cel-go stops at 250, and nothing here may exhaust Python's stack."""

RESERVED: Final = frozenset({
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
    "namespace", "return", "var", "void", "while",
})  # fmt: skip


class ExpressionSyntaxError(Exception):
    """Raised for a text that is no expression; the argument is for people."""


@dataclass(slots=True)
class SyntaxNode:
    """A part of an expression. kind : "literal" (value), "name" (value), "select" (args[0], field name in `value`),
    "index" (args), "call" (function in `value`, `target` or None, args), "list" (args), "map" (args in pairs);
    optional : of "select" and "index", written with a question mark; optionals : of "list" and "map", the entries with
    one.
    """

    kind: str
    value: Any = None
    args: list["SyntaxNode"] = field(default_factory=list)
    target: "SyntaxNode | None" = None
    optional: bool = False
    optionals: frozenset[int] = frozenset()


_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n\f]+|//[^\n]*)
  | (?P<bytes>[bB][rR]?(?:\"\"\"|'''|"|')|[rR][bB](?:\"\"\"|'''|"|'))
  | (?P<string>[rR]?(?:\"\"\"|'''|"|'))
  | (?P<float>[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
  | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<operator>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}`])
    """,
    re.VERBOSE,
)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPES |= {one: one for one in "\\?\"'`"}
_LEVELS = (("||",), ("&&",), ("<", "<=", ">=", ">", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"))
_LITERALS = {"true": True, "false": False, "null": None}


def parse(text: str) -> SyntaxNode:
    """Return the tree of an expression. Raises ExpressionSyntaxError."""
    if len(text.encode()) > LARGEST_EXPRESSION:
        raise ExpressionSyntaxError(f"longer than {LARGEST_EXPRESSION} bytes")
    parser = _Parser(_tokens(text))
    tree = parser.expression()
    if parser.kind != "end":
        raise ExpressionSyntaxError(f"unexpected {parser.text!r}")
    return tree


def _tokens(text: str) -> list[tuple[str, Any]]:
    tokens: list[tuple[str, Any]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionSyntaxError(f"unexpected {text[at]!r}")
        kind, found = match.lastgroup or "", match.group()
        at = match.end()
        if kind in {"string", "bytes"}:
            value, at = _quoted(text, at, found)
            tokens.append((kind, value))
        elif kind != "space":
            tokens.append((kind, found))
    tokens.append(("end", "end of the expression"))
    return tokens


def _quoted(text: str, at: int, opening: str) -> tuple[str | bytes, int]:
    prefix = opening.rstrip("\"'").lower()
    quote = opening[len(prefix) :]
    out: list[str] = []
    while not text.startswith(quote, at):
        if at >= len(text) or (text[at] in "\r\n" and len(quote) == 1):
            raise ExpressionSyntaxError("a string does not end")
        if text[at] == "\\" and "r" not in prefix:
            piece, at = _escape(text, at + 1, "b" in prefix)
            out.append(piece)
        else:
            out.append(text[at])
            at += 1
    value = "".join(out)
    at += len(quote)
    if "b" not in prefix:
        return value, at
    return b"".join(
        one.encode() if ord(one) < 0xDC80 or ord(one) > 0xDCFF else bytes([ord(one) - 0xDC00]) for one in out
    ), at


def _escape(text: str, at: int, is_bytes: bool) -> tuple[str, int]:
    letter = text[at : at + 1]
    if letter in _ESCAPES and letter:
        return _ESCAPES[letter], at + 1
    for first, base, length in (("x", 16, 2), ("X", 16, 2), ("u", 16, 4), ("U", 16, 8)):
        if letter == first:
            return _coded(text[at + 1 : at + 1 + length], base, length, is_bytes and length == 2), at + 1 + length
    if letter and letter in "0123":
        return _coded(text[at : at + 3], 8, 3, is_bytes), at + 3
    raise ExpressionSyntaxError(f"unknown escape \\{letter}")


def _coded(digits: str, base: int, length: int, is_byte: bool) -> str:
    try:
        code = int(digits, base) if len(digits) == length and digits.isalnum() else -1
        # A byte that is no character on its own: as Python marks it when it decodes with surrogates.
        return chr(0xDC00 + code) if is_byte and code >= 0x80 else chr(code)
    except ValueError:
        raise ExpressionSyntaxError(f"invalid escape {digits!r}") from None


class _Parser:
    """A parser by recursive descent; `kind` and `text` are of the next token."""

    def __init__(self, tokens: list[tuple[str, Any]]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self.kind, self.text = tokens[0]

    def expression(self) -> SyntaxNode:
        """Parse a ternary expression or what binds stronger."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise ExpressionSyntaxError("nested too deeply")
        tree = self._binary(0)
        if self._skip("?"):
            yes = self._binary(0)
            self._expect(":")
            tree = SyntaxNode("call", "?:", [tree, yes, self.expression()])
        self._depth -= 1
        return tree

    def _next(self) -> Any:
        text = self.text
        self._at += 1
        self.kind, self.text = self._tokens[self._at]
        return text

    def _is(self, operator: str) -> bool:
        return self.kind in {"operator", "name"} and self.text == operator

    def _skip(self, operator: str) -> bool:
        if not self._is(operator):
            return False
        self._next()
        return True

    def _expect(self, operator: str) -> None:
        if not self._skip(operator):
            raise ExpressionSyntaxError(f"expected {operator!r}, not {self.text!r}")

    def _binary(self, level: int) -> SyntaxNode:
        if level == len(_LEVELS):
            return self._unary()
        tree = self._binary(level + 1)
        while self.kind in {"operator", "name"} and self.text in _LEVELS[level]:
            operator = self._next()
            tree = SyntaxNode("call", operator, [tree, self._binary(level + 1)])
        return tree

    def _unary(self) -> SyntaxNode:
        for operator in ("!", "-"):
            count = 0
            while self._is(operator):
                self._next()
                count += 1
            if not count:
                continue
            if operator == "-" and self.kind in {"int", "float"}:
                return self._member(self._negative(count))
            tree = self._member(self._primary())
            return SyntaxNode("call", operator if operator == "!" else "neg", [tree]) if count % 2 else tree
        return self._member(self._primary())

    def _negative(self, count: int) -> SyntaxNode:
        number = self._number()
        if count % 2:
            number.value = -number.value
        return self._in_range(number)

    def _member(self, tree: SyntaxNode) -> SyntaxNode:
        while True:
            if self._skip("."):
                tree = self._field(tree)
            elif self._skip("["):
                optional = self._skip("?")
                tree = SyntaxNode("index", None, [tree, self.expression()], optional=optional)
                self._expect("]")
            else:
                return tree

    def _field(self, tree: SyntaxNode) -> SyntaxNode:
        optional = self._skip("?")
        name = self._identifier(after_dot=True)
        if self._is("(") and not optional:
            self._next()
            return SyntaxNode("call", name, self._arguments(")"), target=tree)
        return SyntaxNode("select", name, [tree], optional=optional)

    def _identifier(self, after_dot: bool = False) -> str:
        if self.kind != "name" or self.text in {"in", "true", "false", "null"}:
            raise ExpressionSyntaxError(f"expected a name, not {self.text!r}")
        if self.text in RESERVED and not after_dot:
            raise ExpressionSyntaxError(f"reserved word {self.text!r}")
        return str(self._next())

    def _primary(self) -> SyntaxNode:
        if self.kind in {"string", "bytes"}:
            return SyntaxNode("literal", self._next())
        if self.kind in {"int", "uint", "float"}:
            return self._in_range(self._number())
        if self.kind == "name" and self.text in _LITERALS:
            return SyntaxNode("literal", _LITERALS[self._next()])
        if self._skip("("):
            tree = self.expression()
            self._expect(")")
            return tree
        if self._skip("["):
            return self._list()
        if self._skip("{"):
            return self._map()
        self._skip(".")
        name = self._identifier()
        if self._skip("("):
            return SyntaxNode("call", name, self._arguments(")"))
        return SyntaxNode("name", name)

    def _number(self) -> SyntaxNode:
        kind, text = self.kind, self._next()
        if kind == "float":
            return SyntaxNode("literal", float(text))
        digits = text.rstrip("uU") if kind == "uint" else text
        value = int(digits, 16) if digits.startswith("0x") else int(digits)
        return SyntaxNode("literal", Unsigned(value) if kind == "uint" else value)

    @staticmethod
    def _in_range(number: SyntaxNode) -> SyntaxNode:
        value = number.value
        low, high = (0, 2**64) if isinstance(value, Unsigned) else (-(2**63), 2**63)
        if isinstance(value, int) and not low <= value < high:
            raise ExpressionSyntaxError(f"number {value} is out of range")
        return number

    def _arguments(self, closing: str) -> list[SyntaxNode]:
        arguments: list[SyntaxNode] = []
        while not self._skip(closing):
            if arguments:
                self._expect(",")
            arguments.append(self.expression())
        return arguments

    def _list(self) -> SyntaxNode:
        entries: list[SyntaxNode] = []
        optionals: list[int] = []
        while not self._skip("]"):
            if entries:
                self._expect(",")
                if self._skip("]"):
                    break
            if self._skip("?"):
                optionals.append(len(entries))
            entries.append(self.expression())
        return SyntaxNode("list", None, entries, optionals=frozenset(optionals))

    def _map(self) -> SyntaxNode:
        entries: list[SyntaxNode] = []
        optionals: list[int] = []
        while not self._skip("}"):
            if entries:
                self._expect(",")
                if self._skip("}"):
                    break
            if self._skip("?"):
                optionals.append(len(entries) // 2)
            entries.append(self.expression())
            self._expect(":")
            entries.append(self.expression())
        return SyntaxNode("map", None, entries, optionals=frozenset(optionals))
