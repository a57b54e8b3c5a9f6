"""Text of the Common Expression Language to a tree: the grammar alone, no types and no meaning.

A tree is made of `SyntaxNode`s. Macros (`has`, `exists`, `cel.bind`) are calls here.
Source: the language definition of cel-spec, `doc/langdef.md`.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from trimtab.planner.devices.cel.values import Unsigned

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
    """A part of an expression."""

    kind: str
    """literal, name, select, index, call, list or map."""
    value: Any = None
    """The literal, the name, the field of a select, the function of a call."""
    args: list["SyntaxNode"] = field(default_factory=list)
    """Operand of a select, operand and key of an index, arguments, entries; those of a map in pairs."""
    target: "SyntaxNode | None" = None
    """Of a call of a member."""
    optional: bool = False
    """Of a select or an index that is written with a question mark."""
    optionals: frozenset[int] = frozenset()
    """The entries of a list or a map that are written with one."""


_QUOTES = r"\"\"\"|'''|\"|'"
_TOKEN = re.compile(
    rf"""
    (?P<space>[ \t\r\n\f]+|//[^\n]*)
  | (?P<bytes>(?:[bB][rR]?|[rR][bB])(?:{_QUOTES}))
  | (?P<string>[rR]?(?:{_QUOTES}))
  | (?P<float>[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
  | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<operator>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{{}}`])
    """,
    re.VERBOSE,
)
_ESCAPES = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))
_CODES = {"x": (16, 2), "X": (16, 2), "u": (16, 4), "U": (16, 8)}
_LEVELS = (("||",), ("&&",), ("<", "<=", ">=", ">", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"))
_CONSTANTS = {"true": True, "false": False, "null": None}


def parse(text: str) -> SyntaxNode:
    """Return the tree of an expression. Raises ExpressionSyntaxError."""
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
        kind, token, at = match.lastgroup or "", match.group(), match.end()
        if kind in {"string", "bytes"}:
            value, at = _quoted(text, at, token)
            tokens.append((kind, value))
        elif kind != "space":
            tokens.append((kind, token))
    return [*tokens, ("end", "end of the expression")]


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
    # A byte that is no character on its own is a surrogate, as `_code` makes it.
    return (value.encode(errors="surrogateescape") if "b" in prefix else value), at + len(quote)


def _escape(text: str, at: int, is_bytes: bool) -> tuple[str, int]:
    letter = text[at : at + 1]
    if letter in _ESCAPES:
        return _ESCAPES[letter], at + 1
    if letter in _CODES:
        base, length = _CODES[letter]
        return _code(text[at + 1 : at + 1 + length], base, length, is_bytes and length == 2), at + 1 + length
    if letter and letter in "0123":
        return _code(text[at : at + 3], 8, 3, is_bytes), at + 3
    raise ExpressionSyntaxError(f"unknown escape \\{letter}")


def _code(digits: str, base: int, length: int, is_byte: bool) -> str:
    try:
        code = int(digits, base) if len(digits) == length and digits.isalnum() else -1
        if 0xD800 <= code <= 0xDFFF:
            raise ValueError
        return chr(0xDC00 + code) if is_byte and code >= 0x80 else chr(code)
    except ValueError:
        raise ExpressionSyntaxError(f"invalid escape {digits!r}") from None


class _Parser:
    """A parser by recursive descent; `kind` and `text` are of the next token."""

    def __init__(self, tokens: list[tuple[str, Any]]) -> None:
        self._tokens = tokens
        self._at = self._depth = 0
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

    def _is(self, *operators: str) -> bool:
        return self.kind in {"operator", "name"} and self.text in operators

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
        while self._is(*_LEVELS[level]):
            tree = SyntaxNode("call", self._next(), [tree, self._binary(level + 1)])
        return tree

    def _unary(self) -> SyntaxNode:
        sign = self.text if self._is("!", "-") else ""
        count = 0
        while sign and self._skip(sign):
            count += 1
        if sign == "-" and self.kind in {"int", "float"}:
            return self._member(self._number(-1 if count % 2 else 1))
        tree = self._member(self._primary())
        return SyntaxNode("call", "neg" if sign == "-" else sign, [tree]) if count % 2 else tree

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
        name = self._identifier(RESERVED)
        if not optional and self._skip("("):
            return SyntaxNode("call", name, self._entries(")")[0], target=tree)
        return SyntaxNode("select", name, [tree], optional=optional)

    def _identifier(self, allowed: frozenset[str] = frozenset()) -> str:
        if self.kind != "name" or self.text in {"in", *_CONSTANTS}:
            raise ExpressionSyntaxError(f"expected a name, not {self.text!r}")
        if self.text in RESERVED - allowed:
            raise ExpressionSyntaxError(f"reserved word {self.text!r}")
        return str(self._next())

    def _primary(self) -> SyntaxNode:
        if self.kind in {"string", "bytes"}:
            return SyntaxNode("literal", self._next())
        if self.kind in {"int", "uint", "float"}:
            return self._number(1)
        if self.kind == "name" and self.text in _CONSTANTS:
            return SyntaxNode("literal", _CONSTANTS[self._next()])
        if self._skip("("):
            tree = self.expression()
            self._expect(")")
            return tree
        for opening, closing, kind in (("[", "]", "list"), ("{", "}", "map")):
            if self._skip(opening):
                entries, optionals = self._entries(closing)
                return SyntaxNode(kind, None, entries, optionals=optionals)
        self._skip(".")
        name = self._identifier()
        return SyntaxNode("call", name, self._entries(")")[0]) if self._skip("(") else SyntaxNode("name", name)

    def _number(self, sign: int) -> SyntaxNode:
        kind, text = self.kind, self._next()
        if kind == "float":
            return SyntaxNode("literal", sign * float(text))
        value = sign * int(text.rstrip("uU"), 16 if text.startswith("0x") else 10)
        low, high = (0, 2**64) if kind == "uint" else (-(2**63), 2**63)
        if not low <= value < high:
            raise ExpressionSyntaxError(f"number {value} is out of range")
        return SyntaxNode("literal", Unsigned(value) if kind == "uint" else value)

    def _entries(self, closing: str) -> tuple[list[SyntaxNode], frozenset[int]]:
        """Parse arguments, or the entries of a list or a map, which may end with a comma."""
        entries: list[SyntaxNode] = []
        optionals: list[int] = []
        count = 0
        while not self._skip(closing):
            if entries:
                self._expect(",")
                if closing != ")" and self._skip(closing):
                    break
            if closing != ")" and self._skip("?"):
                optionals.append(count)
            entries.append(self.expression())
            if closing == "}":
                self._expect(":")
                entries.append(self.expression())
            count += 1
        return entries, frozenset(optionals)
