"""Texts: searching, cutting, joining, regular expressions, and `format`."""

from __future__ import annotations

import math
import string as ascii_sets
from collections.abc import Callable
from typing import Any, Final, cast

from steelyard.kube.cel import values
from steelyard.kube.cel.functions import declare
from steelyard.kube.cel.libraries import casts, times
from steelyard.kube.cel.problems import CostExceeded, EvaluationError
from steelyard.kube.cel.values import Duration, Timestamp, TypeName
from steelyard.kube.schema import patterns
from steelyard.kube.schema.patterns import Pattern

_LONGEST: Final = 10_000_000
"""Characters of a text that an expression makes; upstream's limit on cost comes to the same."""
_MOST_DIGITS: Final = 1_000
_LOWER: Final = str.maketrans(ascii_sets.ascii_uppercase, ascii_sets.ascii_lowercase)
_UPPER: Final = str.maketrans(ascii_sets.ascii_lowercase, ascii_sets.ascii_uppercase)
_SPACES: Final = "".join(
    map(chr, (*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029))
) + ("\u202f\u205f\u3000")
_ESCAPED: Final = zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)
_ESCAPES: Final = str.maketrans({char: f"\\{letter}" for char, letter in _ESCAPED})
_SUPERSCRIPT: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if start == 0:
        return text.find(part)
    if not part:
        return start
    if not 0 <= start < len(text):
        raise _out_of_range(start)
    return text.find(part, start)


def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


def _last_index_before(text: str, part: str, start: int) -> int:
    if not part:
        return start
    if not 0 <= start < len(text):
        raise _out_of_range(start)
    return text.rfind(part, 0, start + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end is not None and not 0 <= end <= len(text):
        raise _out_of_range(end)
    return text[start:end]


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    limit = -1 if count < 0 else count - 1
    if separator:
        return text.split(separator, limit)
    if limit < 0 or len(text) <= count:
        return list(text)
    return [*text[:limit], text[limit:]]


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    if len(new) > len(old):
        most = text.count(old) if count < 0 else min(count, text.count(old))
        _check_length(len(text) + most * (len(new) - len(old)))
    return text.replace(old, new, count if count >= 0 else -1)


def _join(items: list[Any], separator: str = "") -> str:
    if any(item.__class__ is not str for item in items):
        raise values.no_overload()
    _check_length(len(separator) * len(items) + sum(map(len, items)))
    return separator.join(items)


def _check_length(length: int) -> None:
    """Before a text is made that can be longer than what it is made of."""
    if length > _LONGEST:
        raise CostExceeded("operation cancelled: actual cost limit exceeded")


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _compiled(pattern: str, problem: str = "") -> Pattern:
    try:
        return patterns.compiled(pattern)
    except patterns.BadPattern as error:
        raise EvaluationError(f"{problem}{error}") from None


def _matches(text: str, pattern: str) -> bool:
    return _compiled(pattern).matches(text)


def _find(text: str, pattern: str) -> str:
    return _compiled(pattern, "Illegal regex: ").find(text)


def _find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    return _compiled(pattern, "Illegal regex: ").find_all(text, count)


def shown(value: Any) -> str:
    """A value as `%s` prints it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return casts.text_of_double(value)
        case str():
            return value
        case bytes():
            return value.decode("utf-8", "replace")
        case Duration():
            return times.text_of_duration(value)
        case Timestamp():
            return times.text_of_timestamp(value)
        case TypeName():
            return value.name
        case list():
            return f"[{', '.join(_within(each) for each in cast('list[Any]', value))}]"
        case dict():
            pairs = cast("dict[Any, Any]", value).items()
            return "{" + ", ".join(sorted(f"{_within(key)}:{_within(each)}" for key, each in pairs)) + "}"
        case _:
            raise _unsuited(
                "string clause",
                "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
                value,
            )


def _within(value: Any) -> str:
    """Inside of lists and maps texts are quoted, times called for what they are."""
    match value:
        case str():
            return _quote(value)
        case bytes():
            return f"b{_quote(value.decode('utf-8', 'replace'))}"
        case Duration():
            return f'duration("{times.text_of_duration(value)}")'
        case Timestamp():
            return f'timestamp("{times.text_of_timestamp(value)}")'
        case float():
            return f"{value:f}"
        case _:
            return shown(value)


def _unsuited(clause: str, accepted: str, value: Any) -> EvaluationError:
    name = values.type_name(value).name
    return EvaluationError(f"error during formatting: {clause} can only be used on {accepted}, was given {name}")


def _special(value: Any) -> str | None:
    if value.__class__ is float and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    return None


def _fixed(value: Any, precision: int) -> str:
    if value in ("NaN", "Infinity", "-Infinity"):
        value = float(value)
    if value.__class__ is not float:
        raise _unsuited("fixed-point clause", "doubles", value)
    return _special(value) or f"{value:,.{precision}f}"


def _scientific(value: Any, precision: int) -> str:
    """Upstream takes the precision as a width, which six digits after the point always fill."""
    if value in ("NaN", "Infinity", "-Infinity"):
        value = float(value)
    if value.__class__ is not float:
        raise _unsuited("scientific clause", "doubles", value)
    special = _special(value)
    if special is not None:
        return special
    digits, _, exponent = f"{value:.6e}".partition("e")
    return f"{digits}\u00d710{exponent.removeprefix('+').translate(_SUPERSCRIPT)}".rjust(precision)


def _based(value: Any, spec: str, clause: str, accepted: str) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _unsuited(clause, accepted, value)
    return format(int(value), spec)


def _clause(verb: str, value: Any, precision: int) -> str:
    match verb:
        case "s":
            return shown(value)
        case "d":
            return _based(value, "d", "decimal clause", "integers")
        case "f":
            return _fixed(value, precision)
        case "e":
            return _scientific(value, precision)
        case "b":
            if isinstance(value, bool):
                return "1" if value else "0"
            return _based(value, "b", "only integers and bools", "binary")
        case "x" | "X":
            if isinstance(value, str | bytes):
                text = (value.encode() if isinstance(value, str) else value).hex()
                return text if verb == "x" else text.upper()
            return _based(value, verb, "hex clause", "integers, byte buffers, and strings")
        case "o":
            return _based(value, "o", "octal clause", "integers")
        case _:
            raise EvaluationError(
                f'error during formatting: could not parse formatting clause: unrecognized formatting clause "{verb}"'
            )


def _format(template: str, arguments: list[Any]) -> str:
    parts: list[str] = []
    index = used = 0
    while index < len(template):
        char = template[index]
        index += 1
        if char != "%":
            parts.append(char)
            continue
        if index >= len(template):
            raise EvaluationError("error during formatting: unexpected end of string")
        if template[index] == "%":
            parts.append("%")
            index += 1
            continue
        if used >= len(arguments):
            raise EvaluationError(f"error during formatting: index {used} out of range")
        precision = 6
        if template[index] == ".":
            start = index + 1
            index = start
            while index < len(template) and template[index].isdigit():
                index += 1
            if index >= len(template):
                raise EvaluationError("error during formatting: could not find end of precision specifier")
            precision = min(int(template[start:index][:4] or 0), _MOST_DIGITS)
        parts.append(_clause(template[index], arguments[used], precision))
        used += 1
        index += 1
    return "".join(parts)


_starts_with: Callable[[str, str], bool] = str.startswith
_ends_with: Callable[[str, str], bool] = str.endswith

OVERLOADS: Final = (
    declare("string -> contains(string) bool", lambda text, part: part in text),
    declare("string -> endsWith(string) bool", _ends_with),
    declare("string -> startsWith(string) bool", _starts_with),
    declare("matches(string, string) bool", _matches),
    declare("string -> matches(string) bool", _matches),
    declare("string -> find(string) string", _find),
    declare("string -> findAll(string) list(string)", _find_all),
    declare("string -> findAll(string, int) list(string)", _find_all),
    declare("string -> charAt(int) string", _char_at),
    declare("string -> indexOf(string) int", _index_of),
    declare("string -> indexOf(string, int) int", _index_of),
    declare("string -> lastIndexOf(string) int", _last_index_of),
    declare("string -> lastIndexOf(string, int) int", _last_index_before),
    declare("string -> lowerAscii() string", lambda text: text.translate(_LOWER)),
    declare("string -> upperAscii() string", lambda text: text.translate(_UPPER)),
    declare("string -> replace(string, string) string", _replace),
    declare("string -> replace(string, string, int) string", _replace),
    declare("string -> split(string) list(string)", _split),
    declare("string -> split(string, int) list(string)", _split),
    declare("string -> substring(int) string", _substring),
    declare("string -> substring(int, int) string", _substring),
    declare("string -> trim() string", lambda text: text.strip(_SPACES)),
    declare("string -> format(list(dyn)) string", _format),
    declare("strings.quote(string) string", _quote),
    declare("list(string) -> join() string", _join),
    declare("list(string) -> join(string) string", _join),
)
