"""Why a text is no JSON, in the words of Go's scanner.

Only texts that the fast decoder has refused come here: most are broken, and their senders search for these words. Some
are not: Go reads texts that are no valid UTF-8, or hold half of a surrogate pair, and puts U+FFFD in their place.

Each value takes one or two matches of a regular expression, and a text is looked at in pieces, so that the scanner can
run in a thread beside the event loop. How many values there may be is the caller's business.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, cast

from steelyard.kube.server.fairness import budgets

_END: Final = "unexpected end of JSON input"
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_DIGITS: Final = b"0123456789"
_HEX: Final = b"0123456789abcdefABCDEF"
_ESCAPES: Final = b'bfnrt\\/"'
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?")
_CONTENT: Final = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\(?:[bfnrt\\/"]|u[0-9a-fA-F]{4}))*+')
_PIECE: Final = 128 * 1024
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_OBJECT, _ARRAY, _QUOTE, _BACKSLASH, _COMMA = b'{["\\,'
_CLOSING: Final = {_OBJECT: ord("}"), _ARRAY: ord("]")}
_MOST_DIGITS: Final = 21
"""Of an integer of 64 bits, and its sign."""


class Unreadable(Exception):
    """A body that is no JSON or YAML; the text says why, in upstream's words."""


class SyntaxProblem(Exception):
    """Its text is Go's."""


class TooDeep(SyntaxProblem):
    """More levels than a body may have."""


def problem(data: bytes) -> str:
    """Empty for JSON."""
    try:
        check(data)
    except SyntaxProblem as error:
        return str(error)
    return ""


def check(data: bytes) -> None:
    """Raises SyntaxProblem for what is no JSON."""
    _Scanner(data).run()


def lenient(data: bytes) -> Any:
    """The value of a text that `check` has found to be JSON. Raises SyntaxProblem for a number beyond all bounds."""
    return _replaced(reread(data))


def reread(
    data: bytes,
    *,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
    parse_float: Callable[[str], Any] | None = None,
) -> Any:
    """The value of a JSON text by the decoder that can be told what to make of its parts."""
    other = parse_float or _float

    def integer(text: str) -> Any:
        """As the fast decoder has it: what does not fit 64 bits is a float."""
        exact = int(text) if len(text) <= _MOST_DIGITS else 1 << 64
        return exact if -(1 << 63) <= exact < 1 << 64 else other(text)

    text = data.decode("utf-8", "surrogateescape")
    return json.loads(text, strict=False, parse_int=integer, parse_float=other, object_pairs_hook=pairs)


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise SyntaxProblem(f"json: cannot unmarshal number {text} into Go value of type float64")
    return number


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_replaced(key): _replaced(each) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_replaced(each) for each in cast("list[Any]", value)]
    return value


class _Scanner:
    """Reads one value without recursion; `_at` is the place of the byte that is looked at."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def run(self) -> None:
        open_: list[int] = []
        while True:
            byte = self._next("looking for beginning of value")
            closing = _CLOSING.get(byte)
            if closing is not None:
                open_.append(byte)
                if len(open_) > budgets.MAX_DEPTH:
                    raise TooDeep("exceeded max depth")
                self._at += 1
                if self._skip_space() != closing:
                    if byte == _OBJECT:
                        self._key()
                    continue
                self._at += 1
                open_.pop()
            else:
                self._scalar(byte)
            if not self._continues(open_):
                return

    def _continues(self, open_: list[int]) -> bool:
        """Goes past what follows a value; whether another value is due."""
        while open_:
            if open_[-1] == _OBJECT:
                byte = self._next("after object key:value pair", b",}")
            else:
                byte = self._next("after array element", b",]")
            self._at += 1
            if byte == _COMMA:
                if open_[-1] == _OBJECT:
                    self._key()
                return True
            open_.pop()
        if self._skip_space() >= 0:
            raise self._problem("after top-level value")
        return False

    def _key(self) -> None:
        self._next("looking for beginning of object key string", b'"')
        self._string()
        self._next("after object key", b":")
        self._at += 1

    def _scalar(self, byte: int) -> None:
        if byte == _QUOTE:
            self._string()
        elif byte in _LITERALS:
            literal = _LITERALS[byte]
            if not self._data.startswith(literal, self._at):
                for expected in literal[1:]:
                    self._at += 1
                    self._expect(bytes([expected]), f"in literal {literal.decode()} (expecting {_shown(expected)})")
            self._at += len(literal)
        elif byte == ord("-") or byte in _DIGITS:
            self._number(byte)
        else:
            raise self._problem("looking for beginning of value")

    def _number(self, byte: int) -> None:
        found = _NUMBER.match(self._data, self._at)
        if found is not None:
            self._at = found.end()
            if self._peek() not in b".eE":
                return
            self._at = found.start()
        self._number_with_problem(byte)

    def _number_with_problem(self, byte: int) -> None:
        """Byte by byte, to find where it breaks off; what merely follows it is none of its business."""
        if byte == ord("-"):
            self._at += 1
            byte = self._expect(_DIGITS, "in numeric literal")
        self._at += 1
        if byte != ord("0"):
            self._digits()
        if self._peek() == ord("."):
            self._at += 1
            self._expect(_DIGITS, "after decimal point in numeric literal")
            self._digits()
        if self._peek() in b"eE":
            self._at += 1
            if self._peek() in b"+-":
                self._at += 1
            self._expect(_DIGITS, "in exponent of numeric literal")
            self._digits()

    def _digits(self) -> None:
        while self._peek() in _DIGITS:
            self._at += 1

    def _string(self) -> None:
        self._at += 1
        while True:
            found = cast("re.Match[bytes]", _CONTENT.match(self._data, self._at, self._at + _PIECE))
            self._at = found.end()
            byte = self._expect(None, "")
            if byte == _QUOTE:
                self._at += 1
                return
            if byte == _BACKSLASH:
                self._escape()
            elif byte < 0x20:
                raise self._problem("in string literal")

    def _escape(self) -> None:
        """One that is wrong, or cut by the end of a piece."""
        self._at += 1
        if self._expect(_ESCAPES + b"u", "in string escape code") == ord("u"):
            for _ in range(4):
                self._at += 1
                self._expect(_HEX, "in \\u hexadecimal character escape")
        self._at += 1

    def _peek(self) -> int:
        """A space where the text ends: it is no part of anything."""
        return self._data[self._at] if self._at < len(self._data) else ord(" ")

    def _expect(self, wanted: bytes | None, where: str) -> int:
        if self._at >= len(self._data):
            raise SyntaxProblem(_END)
        byte = self._data[self._at]
        if wanted is not None and byte not in wanted:
            raise self._problem(where)
        return byte

    def _next(self, where: str, wanted: bytes | None = None) -> int:
        self._skip_space()
        return self._expect(wanted, where)

    def _skip_space(self) -> int:
        """The byte after any space, -1 at the end."""
        data = self._data
        if self._at < len(data) and data[self._at] <= 0x20:
            self._at = cast("re.Match[bytes]", _SPACE.match(data, self._at)).end()
        return data[self._at] if self._at < len(data) else -1

    def _problem(self, where: str) -> SyntaxProblem:
        return SyntaxProblem(f"invalid character {_shown(self._data[self._at])} {where}")


_NAMED: Final = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 0x27: "\\'", 0x5C: "\\\\"}


def _shown(byte: int) -> str:
    """A byte as Go quotes a character."""
    char = chr(byte)
    if byte in _NAMED:
        char = _NAMED[byte]
    elif not char.isprintable():
        char = f"\\x{byte:02x}" if byte < 0x80 else f"\\u{byte:04x}"
    return f"'{char}'"
