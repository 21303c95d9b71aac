"""Expressions into trees, macros recognised.

Grammar and precedence are those of the CEL specification, with optional selection (`a.?b`, `a[?b]`) and literals that
leave out absent entries (`[?x]`, `{?k: x}`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, cast

from steelyard.kube.cel import lexer, values
from steelyard.kube.cel.ast import (
    Call,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    Macro,
    MapLiteral,
    Node,
    Select,
)
from steelyard.kube.cel.lexer import Token
from steelyard.kube.cel.problems import CompileError, Problem

_RELATIONS: Final = ("<", "<=", ">=", ">", "==", "!=", "in")
_RESERVED: Final = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package"),
        *("namespace", "return", "var", "void", "while"),
    )
)
_BEGINNINGS: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_DEEPEST: Final = 250
_SIMPLE: Final = {"all": 2, "exists": 2, "exists_one": 2, "existsOne": 2, "filter": 2, "map": 2}
_TWO_VARIABLES: Final = ("all", "exists", "exists_one", "existsOne")
_TRANSFORMS: Final = ("transformList", "transformMap", "transformMapEntry")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse(source: str) -> Node:
    """Raises CompileError."""
    return _Parser(source).whole()


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = lexer.tokens(source)
        self._index = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._expression()
        if self._here.kind != "end":
            raise self._unexpected("<EOF>")
        return node

    @property
    def _here(self) -> Token:
        return self._tokens[self._index]

    def _next(self) -> Token:
        token = self._tokens[self._index]
        self._index += 1
        return token

    def _is(self, *marks: str) -> bool:
        token = self._here
        return token.kind == "mark" and token.text in marks

    def _take(self, mark: str) -> Token:
        if not self._is(mark):
            raise self._unexpected(f"'{mark}'")
        return self._next()

    def _error(self, position: int, text: str) -> CompileError:
        return CompileError(self._source, [Problem(position, text)])

    def _unexpected(self, expecting: str) -> CompileError:
        token = self._here
        word = "extraneous" if token.kind != "end" and expecting == "<EOF>" else "mismatched"
        return self._error(token.position, f"Syntax error: {word} input '{token.text}' expecting {expecting}")

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(self._here.position, f"expression recursion limit exceeded: {_DEEPEST}")
        node = self._or()
        if self._is("?"):
            position = self._next().position
            then = self._or()
            self._take(":")
            node = Call(position, "_?_:_", None, [node, then, self._expression()])
        self._depth -= 1
        return node

    def _or(self) -> Node:
        return self._chain("||", "_||_", self._and)

    def _and(self) -> Node:
        return self._chain("&&", "_&&_", self._relation)

    def _chain(self, mark: str, function: str, inner: Callable[[], Node]) -> Node:
        node = inner()
        while self._is(mark):
            position = self._next().position
            node = Call(position, function, None, [node, inner()])
        return node

    def _relation(self) -> Node:
        node = self._sum()
        while self._is(*_RELATIONS):
            token = self._next()
            function = "@in" if token.text == "in" else f"_{token.text}_"
            node = Call(token.position, function, None, [node, self._sum()])
        return node

    def _sum(self) -> Node:
        node = self._product()
        while self._is("+", "-"):
            token = self._next()
            node = Call(token.position, f"_{token.text}_", None, [node, self._product()])
        return node

    def _product(self) -> Node:
        node = self._unary()
        while self._is("*", "/", "%"):
            token = self._next()
            node = Call(token.position, f"_{token.text}_", None, [node, self._unary()])
        return node

    def _unary(self) -> Node:
        if not self._is("!", "-"):
            return self._member()
        first = self._here
        count = 0
        while self._is(first.text):
            self._next()
            count += 1
        after = self._here
        is_number = after.kind == "constant" and type(after.value) in (int, float)
        if first.text == "-" and is_number and after.position == first.position + count:
            self._tokens[self._index] = Token("constant", "-" + after.text, after.position - 1, -after.value)
            count -= 1
        node = self._member()
        if count % 2 == 0:
            return node
        return Call(first.position, "!_" if first.text == "!" else "-_", None, [node])

    def _member(self) -> Node:
        node = self._primary()
        while True:
            if self._is("."):
                position = self._next().position
                node = self._selected(node, position)
            elif self._is("["):
                position = self._next().position
                is_optional = self._is("?")
                if is_optional:
                    self._next()
                index = self._expression()
                self._take("]")
                node = Call(position, "_[?_]" if is_optional else "_[_]", None, [node, index])
            else:
                return node

    def _selected(self, operand: Node, position: int) -> Node:
        is_optional = self._is("?")
        if is_optional:
            self._next()
        token = self._next()
        if token.kind != "name" and _IDENTIFIER.fullmatch(token.text) is None:
            self._index -= 1
            raise self._unexpected("IDENTIFIER")
        if self._is("(") and not is_optional:
            opening = self._next().position
            return self._macro(operand, token.text, self._list(")"), opening)
        return Select(position, operand, token.text, is_optional=is_optional)

    def _list(self, closing: str) -> list[Node]:
        found: list[Node] = []
        while not self._is(closing):
            found.append(self._expression())
            if not self._is(","):
                break
            self._next()
            if closing == ")" and self._is(closing):
                raise self._unexpected(_BEGINNINGS)
        self._take(closing)
        return found

    def _primary(self) -> Node:
        token = self._next()
        if token.kind == "constant":
            if type(token.value) is int and token.value > values.MAX_INT:
                raise self._error(token.position, "invalid int literal")
            return Constant(token.position, token.value)
        if token.kind == "mark" and token.text == "(":
            node = self._expression()
            self._take(")")
            return node
        if token.kind == "mark" and token.text == "[":
            return self._list_literal(token.position)
        if token.kind == "mark" and token.text == "{":
            return self._map_literal(token.position)
        leading = ""
        if token.kind == "mark" and token.text == ".":
            leading, token = ".", self._next()
        if token.kind != "name":
            self._index -= 1
            raise self._unexpected(_BEGINNINGS)
        if token.text in _RESERVED:
            raise self._error(token.position, f"reserved identifier: {token.text}")
        if self._is("("):
            opening = self._next().position
            return self._call(token.text, self._list(")"), opening)
        return Identifier(token.position, leading + token.text)

    def _list_literal(self, position: int) -> Node:
        elements: list[Node] = []
        optional: set[int] = set()
        while not self._is("]"):
            if self._is("?"):
                self._next()
                optional.add(len(elements))
            elements.append(self._expression())
            if not self._is(","):
                break
            self._next()
        self._take("]")
        return ListLiteral(position, elements, frozenset(optional))

    def _map_literal(self, position: int) -> Node:
        entries: list[tuple[Node, Node, bool]] = []
        while not self._is("}"):
            is_optional = self._is("?")
            if is_optional:
                self._next()
            key = self._expression()
            self._take(":")
            entries.append((key, self._expression(), is_optional))
            if not self._is(","):
                break
            self._next()
        self._take("}")
        return MapLiteral(position, entries)

    def _call(self, function: str, arguments: list[Node], position: int) -> Node:
        if function == "has" and len(arguments) == 1:
            selected = arguments[0]
            if not isinstance(selected, Select) or selected.is_optional:
                raise self._error(_place(selected), "invalid argument to has() macro")
            selected.is_test = True
            selected.position = position
            return selected
        return Call(position, function, None, arguments)

    def _macro(self, operand: Node, name: str, arguments: list[Node], position: int) -> Node:
        count = len(arguments)
        if name == "map" and count == 3:
            variables, condition, result = self._names(arguments[:1]), arguments[1], arguments[2]
        elif _SIMPLE.get(name) == count:
            variables = self._names(arguments[:1])
            condition, result = (None, arguments[1]) if name == "map" else (arguments[1], None)
        elif name in _TWO_VARIABLES and count == 3:
            variables, condition, result = self._names(arguments[:2]), arguments[2], None
        elif name in _TRANSFORMS and count in (3, 4):
            variables, result = self._names(arguments[:2]), arguments[-1]
            condition = arguments[2] if count == 4 else None
        elif name in ("optMap", "optFlatMap") and count == 2:
            variables, condition, result = self._names(arguments[:1]), None, arguments[1]
        else:
            return Call(position, name, operand, arguments)
        macro = cast(Macro, "exists_one" if name == "existsOne" else name)
        return Comprehension(position, macro, operand, variables, condition, result)

    def _names(self, nodes: list[Node]) -> tuple[str, ...]:
        names: list[str] = []
        for node in nodes:
            if not isinstance(node, Identifier):
                text = "argument must be a simple name" if len(nodes) > 1 else "argument is not an identifier"
                raise self._error(_place(node), text)
            if node.name in names:
                raise self._error(node.position, f"duplicate variable name: {node.name}")
            names.append(node.name)
        return tuple(names)


def _place(node: Node) -> int:
    return node.position
