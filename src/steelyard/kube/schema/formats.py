"""The string formats kube-apiserver checks in custom resources; a format it does not know is a remark for readers.

Checks follow the Go functions upstream calls, including their tolerance: leading zeros in IPv4 addresses, a duration of
"5 days", a date-time without seconds' fraction.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import re
from collections.abc import Callable
from email.utils import parseaddr
from typing import Final
from urllib.parse import urlsplit

Check = Callable[[str], bool]
_LONGEST: Final = 8 * 1024
"""Characters of an address: nothing that is read one by one may be as long as a body."""
_NOT_IN_URI: Final = re.compile("[\x00-\x20\x7f]")


def checker(format_: str) -> Check | None:
    """The check of a string format; None for one that is not checked. Dashes do not count."""
    return _CHECKS.get(format_.replace("-", ""))


def recognised(format_: str) -> bool:
    """Whether upstream enforces the format: formats of numbers only tell readers what a field is for."""
    return format_.replace("-", "") in _CHECKS


def _pattern(pattern: str, flags: int = 0) -> Check:
    match = re.compile(pattern, flags).fullmatch
    return lambda text: match(text) is not None


_LETTER: Final = r"[^\W\d_]"
_HOST_CHAR: Final = r"[^\W_]"
_is_hostname_shape: Final = _pattern(
    rf"{_HOST_CHAR}(-?{_HOST_CHAR}{{0,62}})?|({_HOST_CHAR}((?:{_HOST_CHAR}|-){{0,61}}{_HOST_CHAR})?\.)+{_LETTER}{{2,63}}"
)


def _is_hostname(text: str) -> bool:
    return (
        len(text) <= 255
        and len(text.encode()) <= 255
        and _is_hostname_shape(text)
        and all(len(part.encode()) <= 63 for part in text.split("."))
    )


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if "%" in text:
        return None
    if re.fullmatch(r"\d{1,3}(\.\d{1,3}){3}", text, re.ASCII):
        text = ".".join(str(int(part)) for part in text.split("."))
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_ipv4(text: str) -> bool:
    return "." in text and _address(text) is not None


def _is_ipv6(text: str) -> bool:
    return ":" in text and _address(text) is not None


def is_cidr(text: str) -> bool:
    host, slash, bits = text.partition("/")
    address = _address(host)
    return bool(slash and address and re.fullmatch(r"\d{1,3}", bits, re.ASCII) and int(bits) <= address.max_prefixlen)


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        return False
    try:
        datetime.date.fromisoformat("2000" + text[4:] if text.startswith("0000") else text)
    except ValueError:
        return False
    return True


_USUAL_DATETIME: Final = re.compile(
    r"(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ", re.ASCII
).fullmatch
"""What the server itself writes, on the days every month has."""
_TIME: Final = re.compile(r"(\d{2}):(\d{2}):(\d{2})(.\d+)?(z|[+-]\d{2}:\d{2})", re.ASCII)


def is_datetime(text: str) -> bool:
    """RFC 3339, with seconds and an offset: `2024-05-01T10:00:00Z`."""
    if _USUAL_DATETIME(text) is not None:
        return True
    date, _, time = text.lower().partition("t")
    match = _TIME.fullmatch(time)
    return match is not None and _is_date(date) and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


_GO_DURATION: Final = re.compile(r"[-+]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_LOOSE_DURATION: Final = re.compile(
    r"(?<!\d)\d+\s*(ns|nano\w*|us|µs|micro\w*|ms|milli\w*|s|sec\w*|m|min\w*|h|hr|hour\w*|d|day\w*|w|wk|week\w*)(?![A-Za-zµ])",
    re.IGNORECASE,
)


def is_duration(text: str) -> bool:
    return _GO_DURATION.fullmatch(text) is not None or _LOOSE_DURATION.search(text) is not None


def _is_uri(text: str) -> bool:
    """What Go's ParseRequestURI takes: an absolute URI or an absolute path."""
    if len(text) > _LONGEST or _NOT_IN_URI.search(text):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme and re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text))


def _is_email(text: str) -> bool:
    if len(text) > _LONGEST:
        return False
    name, address = parseaddr(text)
    local, at, domain = (address or "").rpartition("@")
    return bool(at and local and domain and " " not in local + domain) and (not name or "<" in text)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return bool(text)


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{9}[\dXx]", digits, re.ASCII):
        return False
    values = [10 if char in "Xx" else int(char) for char in digits]
    return sum((index + 1) * value for index, value in enumerate(values)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(char) * (3 if index % 2 else 1) for index, char in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"\D", "", text, flags=re.ASCII)
    shape = (
        r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}"
    )
    if not re.fullmatch(shape, digits, re.ASCII):
        return False
    doubled = [int(char) * (2 if index % 2 else 1) for index, char in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


_SHORT_NAME: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_is_short_name: Final = _pattern(_SHORT_NAME)
_is_long_name: Final = _pattern(rf"{_SHORT_NAME}(\.{_SHORT_NAME})*")
_BYTE: Final = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"

_CHECKS: Final[dict[str, Check]] = {
    "bsonobjectid": _pattern(r"[0-9a-fA-F]{24}"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": is_cidr,
    "mac": _pattern(
        r"([0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\2){4}[0-9A-Fa-f]{2}((\2[0-9A-Fa-f]{2}){2}|(\2[0-9A-Fa-f]{2}){14})?"
        r"|[0-9A-Fa-f]{4}(\.[0-9A-Fa-f]{4}){2}((\.[0-9A-Fa-f]{4})|(\.[0-9A-Fa-f]{4}){7})?"
    ),
    "uuid": _pattern(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE),
    "uuid3": _pattern(r"[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE),
    "uuid4": _pattern(r"[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}", re.IGNORECASE),
    "uuid5": _pattern(r"[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}", re.IGNORECASE),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _pattern(r"\d{3}[- ]?\d{2}[- ]?\d{4}", re.ASCII),
    "hexcolor": _pattern(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _pattern(rf"rgb\(\s*{_BYTE}\s*,\s*{_BYTE}\s*,\s*{_BYTE}\s*\)", re.ASCII),
    "byte": _is_base64,
    "password": lambda text: True,
    "date": _is_date,
    "duration": is_duration,
    "datetime": is_datetime,
    "k8sshortname": lambda text: len(text) <= 63 and _is_short_name(text),
    "k8slongname": lambda text: len(text) <= 253 and _is_long_name(text),
}
