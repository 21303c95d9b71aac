r"""Regular expressions of CRDs: written in Go's RE2 syntax, matched with Python's `re`.

Both languages share most of their syntax; `translate` rewrites what differs, so that a pattern accepts the same
strings: `$` means the very end (Python also allows a newline after it), flags may stand anywhere, `\z`, `\pL`,
`[[:alpha:]]` and `\Q..\E` exist, `{,3}` is literal text. What RE2 refuses (look-around, back-references) is an error.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache
from typing import Final

_POSIX: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_SPACE: Final = r"\t\n\f\r "
_REPEAT: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_GROUP: Final = re.compile(r"\(\?(?:P?<(?P<name>\w+)>|(?P<flags>[imsU]*(?:-[imsU]+)?)(?P<end>[:)]))")
_MAX_REPEAT: Final = 1000


class BadPattern(ValueError):
    """The pattern is not valid RE2."""


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern ready for `search`. Raises BadPattern."""
    try:
        return re.compile(translate(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(f"error parsing regexp: {error}") from error


def translate(pattern: str) -> str:
    return _Translator(pattern).run()


class _Translator:
    """One pass over the pattern. `_open` counts, per group, the scoped flag groups that must close with it."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._out: list[str] = []
        self._open = [0]
        self._multiline = [False]

    def run(self) -> str:
        while self._at < len(self._text):
            self._step(self._text[self._at])
        if len(self._open) > 1:
            raise BadPattern(f"error parsing regexp: missing closing ): `{self._text}`")
        self._out.append(")" * self._open[0])
        return "".join(self._out)

    def _step(self, char: str) -> None:
        if char == "\\":
            self._escape()
        elif char == "[":
            self._char_class()
        elif char == "(":
            self._group()
        elif char == ")":
            if len(self._open) == 1:
                raise BadPattern(f"error parsing regexp: unexpected ): `{self._text}`")
            self._out.append(")" * (self._open.pop() + 1))
            self._multiline.pop()
            self._at += 1
        elif char == "|" and self._open[-1]:
            # A flag set inside one branch holds for the following ones as well.
            self._emit("|")
        elif char == "$":
            self._emit("$" if self._multiline[-1] else r"\Z")
        elif char == "{":
            self._braces()
        elif char in "*+?" and self._text[self._at + 1 : self._at + 2] in ("*", "+"):
            raise BadPattern(f"error parsing regexp: invalid nested repetition operator: `{self._text}`")
        else:
            self._emit(char)

    def _emit(self, text: str, consumed: int = 1) -> None:
        self._out.append(text)
        self._at += consumed

    def _braces(self) -> None:
        match = _REPEAT.match(self._text, self._at)
        if match is None:
            self._emit(r"\{")
            return
        if any(int(bound) > _MAX_REPEAT for bound in match.groups() if bound):
            raise BadPattern(f"error parsing regexp: invalid repeat count: `{match.group()}`")
        self._emit(match.group(), len(match.group()))

    def _group(self) -> None:
        if not self._text.startswith("(?", self._at):
            self._open.append(0)
            self._multiline.append(self._multiline[-1])
            self._emit("(")
            return
        match = _GROUP.match(self._text, self._at)
        if match is None or "U" in (match["flags"] or ""):
            raise BadPattern(
                f"error parsing regexp: invalid or unsupported Perl syntax: `{self._text[self._at :][:3]}`"
            )
        flags = match["flags"] or ""
        on, _, off = flags.partition("-")
        multiline = "m" not in off and ("m" in on or self._multiline[-1])
        self._at += len(match.group())
        if match["end"] == ")":
            if flags:
                self._out.append(f"(?{flags}:")
                self._open[-1] += 1
                self._multiline[-1] = multiline
            return
        self._open.append(0)
        self._multiline.append(multiline)
        self._out.append(f"(?P<{match['name']}>" if match["name"] else f"(?{flags}:")

    def _escape(self) -> None:
        rest = self._text[self._at + 1 : self._at + 2]
        if not rest:
            raise BadPattern("error parsing regexp: trailing backslash at end of expression")
        if rest == "z":
            self._emit(r"\Z", 2)
        elif rest == "s":
            self._emit(f"[{_SPACE}]", 2)
        elif rest == "S":
            self._emit(f"[^{_SPACE}]", 2)
        elif rest in "pP":
            members, negated = self._unicode_class()
            self._out.append(f"[^{members}]" if negated else f"[{members}]")
        elif rest == "Q":
            end = self._text.find(r"\E", self._at + 2)
            stop = end if end >= 0 else len(self._text)
            self._out.append(re.escape(self._text[self._at + 2 : stop]))
            self._at = stop + 2
        elif rest in "AbBdDwW":
            self._emit("\\" + rest, 2)
        else:
            self._out.append(_literal(self._escaped_char()))

    def _escaped_char(self) -> str:
        """The single character an escape stands for."""
        text, start = self._text, self._at + 1
        char = text[start]
        simple = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
        if char in simple:
            self._at += 2
            return simple[char]
        if match := re.compile(r"x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|(0[0-7]{0,2}|[1-7][0-7]{1,2})").match(
            text, start
        ):
            self._at = match.end()
            octal = match[3]
            return chr(int(octal, 8) if octal else int(match[1] or match[2], 16))
        if char.isascii() and not char.isalnum():
            self._at += 2
            return char
        raise BadPattern(rf"error parsing regexp: invalid escape sequence: `\{char}`")

    def _unicode_class(self) -> tuple[str, bool]:
        match = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))").match(self._text, self._at)
        if match is None:
            raise BadPattern(f"error parsing regexp: invalid character class range: `{self._text[self._at :][:3]}`")
        self._at = match.end()
        return _category(match[3] or match[4]), (match[1] == "P") != bool(match[2])

    def _char_class(self) -> None:
        start = self._at
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        members: list[str] = []
        first = True
        while True:
            if self._at >= len(self._text):
                raise BadPattern(f"error parsing regexp: missing closing ]: `{self._text[start:]}`")
            char = self._text[self._at]
            if char == "]" and not first:
                self._at += 1
                break
            first = False
            members.append(self._class_member(char))
        self._out.append(f"[{'^' if negated else ''}{''.join(members)}]")

    def _class_member(self, char: str) -> str:
        if char == "[" and (match := re.compile(r"\[:(\^?)(\w+):\]").match(self._text, self._at)):
            members = _POSIX.get(match[2])
            if members is None:
                raise BadPattern(f"error parsing regexp: invalid character class range: `{match.group()}`")
            self._at = match.end()
            return _complement(members) if match[1] else members
        if char != "\\":
            self._at += 1
            return "-" if char == "-" and self._is_range_dash() else _class_literal(char)
        rest = self._text[self._at + 1 : self._at + 2]
        if rest in "pP" and rest:
            members, negated = self._unicode_class()
            return _complement(members) if negated else members
        if rest in "dDwWS" and rest:
            self._at += 2
            return "\\" + rest
        if rest == "s":
            self._at += 2
            return _SPACE
        if not rest:
            raise BadPattern("error parsing regexp: trailing backslash at end of expression")
        return _class_literal(self._escaped_char())

    def _is_range_dash(self) -> bool:
        """Whether the dash just read stands between two characters of a class."""
        before = self._text[self._at - 2]
        return before not in "[^" and self._text[self._at : self._at + 1] not in ("]", "")


def _literal(char: str) -> str:
    return re.escape(char)


def _class_literal(char: str) -> str:
    return "\\" + char if char in "\\]^-[&~|" else char


@lru_cache(maxsize=64)
def _category(name: str) -> str:
    r"""Members of `\p{name}` for a class in brackets. Only general categories: scripts are refused."""
    found: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(name):
            if found and found[-1][1] == code - 1:
                found[-1] = (found[-1][0], code)
            else:
                found.append((code, code))
    if not found:
        raise BadPattern(f"error parsing regexp: invalid character class range: `\\p{{{name}}}`")
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in found)


@lru_cache(maxsize=64)
def _complement(members: str) -> str:
    outside = re.compile(f"[^{members}]")
    found: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if outside.match(chr(code)):
            if found and found[-1][1] == code - 1:
                found[-1] = (found[-1][0], code)
            else:
                found.append((code, code))
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in found)
