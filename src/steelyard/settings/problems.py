"""What is wrong with a platform file, told so that it can be mended: file, line, key, and what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, cast

from steelyard.frozen import frozen


@frozen
class Problem:
    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" if self.line else f"{self.file}: {self.message}"


class SettingsError(Exception):
    """Everything that is wrong with the file, one line each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def nearest(word: str, valid: Iterable[str]) -> str:
    """The valid word that was most likely meant, or an empty string.

    >>> nearest("wokerReplicas", ["workerReplicas", "cpuCores"])
    'workerReplicas'
    """
    by_lower = {candidate.lower().replace("_", "").replace("-", ""): candidate for candidate in valid}
    close = difflib.get_close_matches(word.lower().replace("_", "").replace("-", ""), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else ""


def unknown_key(path: str, key: str, valid: Sequence[str]) -> str:
    where = f"{path}.{key}" if path else key
    meant = nearest(key, valid)
    return f"unknown key {where}; " + (f"did you mean {meant}?" if meant else f"valid here: {', '.join(valid)}")


def wrong_value(path: str, error: Any, allowed: Sequence[Any] = ()) -> str:
    """One pydantic error in words. `allowed` are the values of an enumeration."""
    kind = str(error["type"])
    given = error.get("input")
    context = cast("dict[str, Any]", error.get("ctx") or {})
    shown = _shown(given)
    if kind == "literal_error":
        meant = nearest(str(given), [str(value) for value in allowed if isinstance(value, str)])
        text = f"must be one of {', '.join(map(str, allowed))}, not {shown}"
        return f"{path}: {text}" + (f"; did you mean {meant}?" if meant else "")
    words = {
        "int_type": f"must be a whole number, not {shown}",
        "int_from_float": f"must be a whole number, not {shown}",
        "float_type": f"must be a number, not {shown}",
        "bool_type": f"must be true or false, not {shown}",
        "string_type": f"must be text, not {shown}" + ("; put it in quotes" if _is_number(given) else ""),
        "greater_than_equal": f"must be at least {context.get('ge')}, not {shown}",
        "less_than_equal": f"must be at most {context.get('le')}, not {shown}",
        "finite_number": f"must be a finite number, not {shown}",
        "string_pattern_mismatch": f"{shown} does not match {context.get('pattern')}",
        "string_too_long": f"must have at most {context.get('max_length')} characters",
        "value_error": str(context.get("error", "")),
    }
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"{path}: must be a mapping of keys to values, not {shown}"
    return f"{path}: {words.get(kind) or error['msg']}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else str(value)
