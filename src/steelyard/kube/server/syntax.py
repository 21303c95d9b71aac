"""Why a text is no JSON, in the words of Go's scanner.

Only texts that the fast decoder has refused come here: most are broken, and their senders search for these words. Some
are not: Go reads texts that are no valid UTF-8, or hold half of a surrogate pair, and puts U+FFFD in their place.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, cast

_END: Final = "unexpected end of JSON input"
_SPACE: Final = b" \t\r\n"
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_DIGITS: Final = b"0123456789"
_HEX: Final = b"0123456789abcdefABCDEF"
_ESCAPES: Final = b'bfnrt\\/"'
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_OBJECT, _ARRAY = ord("{"), ord("[")


class SyntaxProblem(Exception):
    """Its text is Go's."""


def problem(data: bytes) -> str:
    """Empty for JSON."""
    try:
        depth(data)
    except SyntaxProblem as error:
        return str(error)
    return ""


def depth(data: bytes) -> int:
    """How deeply the objects and lists of a JSON text are nested. Raises SyntaxProblem for what is no JSON."""
    return _Scanner(data).run()


def lenient(data: bytes) -> Any:
    """The value of a text that `depth` has found to be JSON."""
    return _replaced(json.loads(data.decode("utf-8", "surrogateescape"), strict=False))


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

    def run(self) -> int:
        open_: list[int] = []
        deepest = 0
        while True:
            byte = self._next("looking for beginning of value")
            if byte in (_OBJECT, _ARRAY):
                open_.append(byte)
                deepest = max(deepest, len(open_))
                self._at += 1
                if self._skip_space() != (ord("}") if byte == _OBJECT else ord("]")):
                    if byte == _OBJECT:
                        self._key()
                    continue
                self._at += 1
                open_.pop()
            else:
                self._scalar(byte)
            if not self._continues(open_):
                return deepest

    def _continues(self, open_: list[int]) -> bool:
        """Goes past what follows a value; whether another value is due."""
        while open_:
            if open_[-1] == _OBJECT:
                byte = self._next("after object key:value pair", b",}")
            else:
                byte = self._next("after array element", b",]")
            self._at += 1
            if byte == ord(","):
                if open_[-1] == _OBJECT:
                    self._skip_space()
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
        if byte == ord('"'):
            self._string()
        elif byte in _LITERALS:
            literal = _LITERALS[byte]
            for expected in literal[1:]:
                self._at += 1
                self._expect(bytes([expected]), f"in literal {literal.decode()} (expecting {_shown(expected)})")
            self._at += 1
        elif byte == ord("-") or byte in _DIGITS:
            self._number(byte)
        else:
            raise self._problem("looking for beginning of value")

    def _number(self, byte: int) -> None:
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
        while (byte := self._expect(None, "")) != ord('"'):
            if byte < 0x20:
                raise self._problem("in string literal")
            self._at += 1
            if byte != ord("\\"):
                continue
            if self._expect(_ESCAPES + b"u", "in string escape code") == ord("u"):
                for _ in range(4):
                    self._at += 1
                    self._expect(_HEX, "in \\u hexadecimal character escape")
            self._at += 1
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
        while self._at < len(self._data) and self._data[self._at] in _SPACE:
            self._at += 1
        return self._data[self._at] if self._at < len(self._data) else -1

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
