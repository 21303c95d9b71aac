r"""Regular expressions that users write, in CRDs and in CEL: Go's language, on RE2, in time that grows with the text.

RE2 reads what Go's `regexp` reads, and means the same; what it refuses is worded as Go words it. What is left to do
here is to bound it: the size of a pattern, the memory of all that are ready to be used, and the product of a pattern's
size and a text's length, which is what a match may take at worst (`docs/decisions/0011-re2.md`). RE2 is loaded with the
first pattern.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Final, cast

from steelyard.kube import effort
from steelyard.kube.remembering import Kept

LONGEST: Final = 64 * 1024
"""Characters of a pattern."""
_SIZES: Final = (128 * 1024, 1024 * 1024)
"""Bytes that a pattern may use, its automata included: the larger amount is for those that need it."""
_MOST_STEPS: Final = 4_000_000
"""Of one match: instructions of the pattern times bytes of the text. About 50 milliseconds at the very worst."""
_STEPS_TO_COMPILE: Final = 100
"""For each instruction."""
_TOO_LARGE: Final = "expression too large"
_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "unexpected )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class range": "invalid character class range",
    "invalid repetition size": "invalid repeat count",
}
"""What RE2 says, and what Go says of the same."""
_ESCAPE: Final = re.compile(r"\\(?:Q.*?(?:\\E|\Z)|(.)|\Z)", re.DOTALL)
_NOWHERE: Final = (-1, -1)
_Match = Callable[[bytes, int, int], list[tuple[int, int]]]


class BadPattern(ValueError):
    """The pattern is no regular expression of Go's, or too large."""


class TooLong(effort.Exhausted):
    """The text is too long for this pattern: nobody can be made to wait for the answer."""


class Pattern:
    """Ready to be matched. Raises TooLong and, when the whole validation has taken too long, effort.Exhausted."""

    __slots__ = ("_match", "_size")

    def __init__(self, match: _Match, size: int) -> None:
        self._match = match
        self._size = size

    def matches(self, text: str) -> bool:
        return self._span(_encoded(text), 0) != _NOWHERE

    def find(self, text: str) -> str:
        """The first part that matches, or nothing."""
        data = _encoded(text)
        start, end = self._span(data, 0)
        return data[start:end].decode() if end > 0 else ""

    def find_all(self, text: str, most: int = -1) -> list[str]:
        """As Go does it: an empty match right behind another one is none."""
        data = _encoded(text)
        found: list[str] = []
        at, last = 0, -1
        while at <= len(data) and len(found) != most:
            start, end = self._span(data, at)
            if start < 0:
                break
            if end > start or end != last:
                found.append(data[start:end].decode())
            last = end
            at = end if end > at else at + _width(data, at)
        return found

    def _span(self, data: bytes, start: int) -> tuple[int, int]:
        steps = self._size * (len(data) - start)
        if steps > _MOST_STEPS:
            raise TooLong(len(data))
        effort.spend(steps)
        return self._match(data, start, len(data))[0]


KEPT: Final[Kept[str, Pattern]] = Kept(64 * 1024 * 1024)
"""Ready to be used. Each counts with all it may use."""


def compiled(pattern: str) -> Pattern:
    """Raises BadPattern."""
    known = KEPT.get(pattern)
    return known if known is not None else KEPT.put(pattern, *_compile(pattern))


def _compile(pattern: str) -> tuple[Pattern, int]:
    if len(pattern) > LONGEST:
        raise BadPattern(f"error parsing regexp: {_TOO_LARGE}")
    data = _encoded(pattern)
    library = _library()
    for size in _SIZES:
        found = library(data, _options(size))
        if found.ok():
            if any(each[1] == "C" for each in _ESCAPE.finditer(pattern)):
                # A single byte, which RE2 knows and Go does not.
                raise BadPattern("error parsing regexp: invalid escape sequence: `\\C`")
            effort.spend(found.ProgramSize() * _STEPS_TO_COMPILE)
            anywhere = functools.partial(found.Match, library.Anchor.UNANCHORED)
            return Pattern(anywhere, found.ProgramSize()), size
        problem = found.error().decode(errors="replace")
        if not problem.startswith("pattern too large"):
            raise BadPattern(f"error parsing regexp: {_in_words_of_go(problem)}")
    raise BadPattern(f"error parsing regexp: {_TOO_LARGE}")


@functools.cache
def _library() -> Any:
    """What the library's own classes wrap: a match without an object for each of its groups."""
    import re2  # pyright: ignore[reportMissingTypeStubs] (it has none)

    return cast(Any, re2)._re2.RE2


def _options(size: int) -> Any:
    options = _library().Options()
    options.max_mem = size
    options.log_errors = False
    options.never_capture = True
    return options


def _in_words_of_go(problem: str) -> str:
    if problem.startswith("trailing \\"):
        return "trailing backslash at end of expression: ``"
    what, _, where = problem.partition(": ")
    return f"{_WORDS.get(what, what)}: `{where}`"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _width(data: bytes, at: int) -> int:
    """Bytes of the character there."""
    end = at + 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return end - at
