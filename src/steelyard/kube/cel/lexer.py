"""Expressions into tokens: names, numbers, strings with their escapes, and the marks between them."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

from steelyard.frozen import frozen
from steelyard.kube.cel import values
from steelyard.kube.cel.problems import CompileError, Problem


@frozen
class Token:
    kind: Literal["name", "constant", "mark", "end"]
    text: str
    position: int
    value: Any = None


_TOKEN: Final = re.compile(
    r"""(?P<space>[\t \r\n\f]+|//[^\n]*)
    |(?P<string>(?:[rR][bB]?|[bB][rR]?)?(?:\"\"\"|'''|"|'))
    |(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<int>0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<quoted>`[A-Za-z0-9_.\-/\ ]+`)
    |(?P<mark>&&|\|\||==|!=|<=|>=|[<>+\-*/%!?:.,()\[\]{}])""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<plain>[abfnrtv\\?\"'`])|[xX](?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})"
    r"|U(?P<U>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<bad>.?))",
    re.DOTALL,
)
_PLAIN: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_KEYWORDS: Final = {"true": True, "false": False, "null": None}


def tokens(source: str) -> list[Token]:
    found: list[Token] = []
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise _unrecognised(source, position)
        kind, text = str(match.lastgroup), match[0]
        end = match.end()
        if kind == "string":
            value, end = _string(source, position, text)
            found.append(Token("constant", source[position:end], position, value))
        elif kind == "float":
            found.append(Token("constant", text, position, float(text)))
        elif kind == "int":
            found.append(Token("constant", text, position, _integer(source, position, text)))
        elif kind == "name" and text in _KEYWORDS:
            found.append(Token("constant", text, position, _KEYWORDS[text]))
        elif kind == "name" and text == "in":
            found.append(Token("mark", text, position))
        elif kind == "name":
            found.append(Token("name", text, position))
        elif kind == "quoted":
            raise CompileError(source, [Problem(position, "unsupported syntax: '`'")])
        elif kind == "mark":
            found.append(Token("mark", text, position))
        position = end
    found.append(Token("end", "<EOF>", len(source)))
    return found


def _unrecognised(source: str, position: int) -> CompileError:
    text = f"Syntax error: token recognition error at: '{source[position]}'"
    return CompileError(source, [Problem(position, text)])


def _integer(source: str, position: int, text: str) -> int:
    is_unsigned = text[-1] in "uU"
    number = int(text.rstrip("uU"), 0) if text[:2] in ("0x", "0X") else int(text.rstrip("uU"))
    if is_unsigned:
        if number > values.MAX_UINT:
            raise CompileError(source, [Problem(position, "invalid uint literal")])
        return values.UInt(number)
    # One more than the largest is kept for the minus sign in front of it.
    if number > values.MAX_INT + 1:
        raise CompileError(source, [Problem(position, "invalid int literal")])
    return number


def _string(source: str, position: int, opening: str) -> tuple[str | bytes, int]:
    quote = opening.lstrip("rRbB")
    prefix = opening[: -len(quote)].lower()
    start = index = position + len(opening)
    while not source.startswith(quote, index):
        if index >= len(source) or (len(quote) == 1 and source[index] in "\r\n"):
            raise _unrecognised(source, position)
        index += 2 if source[index] == "\\" and "r" not in prefix else 1
    body = source[start:index]
    is_bytes = "b" in prefix
    if "r" in prefix or "\\" not in body:
        return (body.encode() if is_bytes else body), index + len(quote)
    parts: list[str | bytes] = []
    last = 0
    for match in _ESCAPE.finditer(body):
        parts.append(body[last : match.start()])
        parts.append(_unescaped(source, position, match, is_bytes))
        last = match.end()
    parts.append(body[last:])
    if is_bytes:
        joined: str | bytes = b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    else:
        joined = "".join(str(part) for part in parts)
    return joined, index + len(quote)


def _unescaped(source: str, position: int, match: re.Match[str], is_bytes: bool) -> str | bytes:
    kind, text = str(match.lastgroup), str(match[str(match.lastgroup)])
    if kind == "plain":
        return _PLAIN.get(text, text)
    if kind == "bad" or (is_bytes and kind in "uU"):
        raise CompileError(source, [Problem(position, f"Syntax error: token recognition error at: '{match[0]}'")])
    code = int(text, 8 if kind == "octal" else 16)
    if is_bytes:
        return bytes([code])
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise CompileError(source, [Problem(position, "invalid string literal")])
    return chr(code)
