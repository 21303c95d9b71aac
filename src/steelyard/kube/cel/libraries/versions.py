"""Semantic versions."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import ClassVar, Final

from steelyard.kube.cel.functions import declare
from steelyard.kube.cel.problems import EvaluationError

_NUMBER: Final = re.compile(r"\d+", re.ASCII)
_WORD: Final = re.compile(r"[0-9A-Za-z-]+", re.ASCII)


@functools.total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    kind: ClassVar[str] = "kubernetes.Semver"
    numbers: tuple[int, int, int]
    prerelease: tuple[int | str, ...]

    def _order(self) -> tuple[object, ...]:
        """Numbers order before words, and a release after all of its pre-releases."""
        words = tuple((isinstance(part, str), str(part), 0) if isinstance(part, str) else (False, "", part)
                      for part in self.prerelease)  # fmt: skip
        return (self.numbers, not self.prerelease, words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._order() == other._order()

    def __hash__(self) -> int:
        return hash(self._order())

    def __lt__(self, other: Semver) -> bool:
        return self._order() < other._order()


def parse(text: str) -> Semver:
    """Raises EvaluationError in the words of upstream's parser."""
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    numbers = tuple(
        _number(part, name) for part, name in zip((*parts[:2], patch), ("major", "minor", "patch"), strict=True)
    )
    words = tuple(_word(each) for each in prerelease.split(".")) if dash else ()
    if plus:
        for each in build.split("."):
            if not each:
                raise EvaluationError("Build meta data is empty")
            if _WORD.fullmatch(each) is None:
                raise EvaluationError(f'Invalid character(s) found in build meta data "{each}"')
    return Semver((numbers[0], numbers[1], numbers[2]), words)


def _number(text: str, name: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        if not text:
            raise EvaluationError('strconv.ParseUint: parsing "": invalid syntax')
        raise EvaluationError(f'Invalid character(s) found in {name} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f'{name.capitalize()} number must not contain leading zeroes "{text}"')
    if int(text) >= 1 << 64:
        raise EvaluationError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _word(text: str) -> int | str:
    if not text:
        raise EvaluationError("Prerelease is empty")
    if _NUMBER.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise EvaluationError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
        return int(text)
    if _WORD.fullmatch(text) is None:
        raise EvaluationError(f'Invalid character(s) found in prerelease "{text}"')
    return text


def _parse_normalised(text: str, normalise: bool) -> Semver:
    if not normalise:
        return parse(text)
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1].isdigit() else f"0{stripped}"
    if len(parts) < 3 and any(char in parts[-1] for char in "+-"):
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    parts += ["0"] * (3 - len(parts))
    return parse(".".join(parts))


def _is_semver(text: str, normalise: bool = False) -> bool:
    try:
        _parse_normalised(text, normalise)
    except EvaluationError:
        return False
    return True


OVERLOADS: Final = (
    declare("semver(string) semver", parse),
    declare("semver(string, bool) semver", _parse_normalised),
    declare("isSemver(string) bool", _is_semver),
    declare("isSemver(string, bool) bool", _is_semver),
    declare("semver -> isGreaterThan(semver) bool", lambda a, b: a > b),
    declare("semver -> isLessThan(semver) bool", lambda a, b: a < b),
    declare("semver -> compareTo(semver) int", lambda a, b: (a > b) - (a < b)),
    declare("semver -> major() int", lambda version: version.numbers[0]),
    declare("semver -> minor() int", lambda version: version.numbers[1]),
    declare("semver -> patch() int", lambda version: version.numbers[2]),
)
