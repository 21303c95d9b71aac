"""From one type to another: `int("1")`, `string(1.5)`, `type(x)`."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from steelyard.kube.cel import values
from steelyard.kube.cel.functions import declare
from steelyard.kube.cel.libraries import times
from steelyard.kube.cel.problems import EvaluationError
from steelyard.kube.cel.values import UInt, within_int, within_uint

_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_DIGITS: Final = re.compile(r"\d+", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?(?:inf|infinity|nan|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.ASCII | re.IGNORECASE)
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")


def _failed(kind: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to '{kind}'")


def _int_of_text(text: str) -> int:
    if _INTEGER.fullmatch(text) and values.MIN_INT <= int(text) <= values.MAX_INT:
        return int(text)
    raise _failed("int")


def _uint_of_text(text: str) -> UInt:
    if _DIGITS.fullmatch(text) and int(text) <= values.MAX_UINT:
        return UInt(text)
    raise _failed("uint")


def _double_of_text(text: str) -> float:
    if _FLOAT.fullmatch(text):
        return float(text)
    raise _failed("double")


def _bool_of_text(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _failed("bool")


def _int_of_double(number: float) -> int:
    if not -9.223372036854775808e18 < number < 9.223372036854775808e18:
        raise EvaluationError("integer overflow")
    return int(number)


def _uint_of_double(number: float) -> UInt:
    if not 0 <= number < 1.8446744073709551616e19:
        raise EvaluationError("unsigned integer overflow")
    return UInt(number)


def text_of_double(number: float) -> str:
    """The shortest text that reads back as the number; an exponent below 1e-4 and from 1e6 on."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    plain = plain_text_of_double(number)
    if not number or 1e-4 <= abs(number) < 1e6:
        return plain
    places = len(plain.replace("-", "").replace(".", "").strip("0")) - 1
    digits, _, exponent = f"{number:.{places}e}".partition("e")
    return f"{digits}e{exponent}"


def plain_text_of_double(number: float) -> str:
    """Without an exponent."""
    text = f"{number!r}"
    if "e" in text:
        from decimal import Decimal

        text = f"{Decimal(text):f}"
    return text.removesuffix(".0")


def _text_of_bytes(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _same(value: Any) -> Any:
    return value


OVERLOADS: Final = (
    declare("type(A) type(A)", values.type_name),
    declare("dyn(A) dyn", _same),
    declare("bool(bool) bool", _same),
    declare("bool(string) bool", _bool_of_text),
    declare("bytes(bytes) bytes", _same),
    declare("bytes(string) bytes", str.encode),
    declare("double(double) double", _same),
    declare("double(int) double", float),
    declare("double(string) double", _double_of_text),
    declare("double(uint) double", float),
    declare("int(int) int", _same),
    declare("int(double) int", _int_of_double),
    declare("int(duration) int", lambda duration: duration.nanoseconds),
    declare("int(string) int", _int_of_text),
    declare("int(timestamp) int", lambda timestamp: timestamp.nanoseconds // 1_000_000_000),
    declare("int(uint) int", lambda number: within_int(int(number))),
    declare("uint(uint) uint", _same),
    declare("uint(double) uint", _uint_of_double),
    declare("uint(int) uint", within_uint),
    declare("uint(string) uint", _uint_of_text),
    declare("string(string) string", _same),
    declare("string(bool) string", lambda flag: "true" if flag else "false"),
    declare("string(bytes) string", _text_of_bytes),
    declare("string(double) string", text_of_double),
    declare("string(duration) string", times.text_of_duration),
    declare("string(int) string", str),
    declare("string(timestamp) string", times.text_of_timestamp),
    declare("string(uint) string", str),
)
