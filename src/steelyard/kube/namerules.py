"""The rules Kubernetes has for names, label keys and label values, each giving the reasons a text breaks it.

An empty answer means the text is fine. The wording is upstream's, since users meet it in every error about a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from steelyard.kube import remembering

Rule: TypeAlias = Callable[[str], tuple[str, ...]]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"

_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
_DNS1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_WILDCARD_TEXT: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
)
_KEY_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)

_is_label: Final = re.compile(_LABEL).fullmatch
_is_subdomain: Final = re.compile(_SUBDOMAIN).fullmatch
_is_dns1035: Final = re.compile(_DNS1035).fullmatch
_is_key: Final = re.compile(_KEY).fullmatch
_is_config_key: Final = re.compile(_CONFIG_KEY).fullmatch


def _regex_text(text: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {listed}regex used for validation is '{pattern}')"


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"


def dns_label(text: str) -> tuple[str, ...]:
    found = [_too_long(63)] if len(text) > 63 else []
    if not _is_label(text):
        if _is_subdomain(text):
            found.append("must not contain dots")
        else:
            found.append(_regex_text(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))
    return tuple(found)


def dns_subdomain(text: str) -> tuple[str, ...]:
    found = [_too_long(253)] if len(text) > 253 else []
    if not _is_subdomain(text):
        found.append(_regex_text(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return tuple(found)


def wildcard_subdomain(text: str) -> tuple[str, ...]:
    found = [_too_long(253)] if len(text) > 253 else []
    if not re.fullmatch(rf"\*\.{_SUBDOMAIN}", text):
        found.append(_regex_text(_WILDCARD_TEXT, rf"\*\.{_SUBDOMAIN}", "*.example.com"))
    return tuple(found)


def dns1035_label(text: str) -> tuple[str, ...]:
    found = [_too_long(63)] if len(text) > 63 else []
    if not _is_dns1035(text):
        found.append(_regex_text(_DNS1035_TEXT, _DNS1035, "my-name", "abc-123"))
    return tuple(found)


def path_segment(text: str) -> tuple[str, ...]:
    """For names that may hold almost anything, such as those of roles: `system:masters`."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return path_segment_prefix(text)


def path_segment_prefix(text: str) -> tuple[str, ...]:
    return tuple(f"may not contain '{char}'" for char in "/%" if char in text)


@remembering.briefly(1024, 128)
def qualified_name(text: str) -> tuple[str, ...]:
    """A label key: an optional DNS subdomain and a slash, then a name."""
    parts = text.split("/")
    key_text = _regex_text(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc")
    if len(parts) > 2:
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a qualified name {key_text}{suffix}",)
    found: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        else:
            found += [f"prefix part {message}" for message in dns_subdomain(parts[0])]
    name = parts[-1]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append(f"name part {_too_long(63)}")
    if not _is_key(name):
        found.append(f"name part {key_text}")
    return tuple(found)


@remembering.briefly(1024, 128)
def label_value(text: str) -> tuple[str, ...]:
    found = [_too_long(63)] if len(text) > 63 else []
    if text and not _is_key(text):
        statement = f"a valid label must be an empty string or {_KEY_TEXT.removeprefix('must ')}"
        found.append(_regex_text(statement, f"({_KEY})?", "MyValue", "my_value", "12345"))
    return tuple(found)


def config_key(text: str) -> tuple[str, ...]:
    """A key in the data of a ConfigMap or Secret."""
    found = [_too_long(253)] if len(text) > 253 else []
    if not _is_config_key(text):
        statement = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        found.append(_regex_text(statement, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if text in (".", ".."):
        found.append(f"must not be '{text}'")
    elif text.startswith(".."):
        found.append("must not start with '..'")
    return tuple(found)


def port_name(text: str) -> tuple[str, ...]:
    found = [_too_long(15)] if len(text) > 15 else []
    if not re.fullmatch("[-a-z0-9]+", text):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        found.append("must contain at least one letter (a-z)")
    if "--" in text:
        found.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return tuple(found)


def port_number(number: int) -> tuple[str, ...]:
    return () if 1 <= number <= 65535 else ("must be between 1 and 65535, inclusive",)


def generated(rule: Rule) -> Rule:
    """The rule for a `generateName`, to whose end something will be added: it may end in a dash."""
    if rule in (path_segment, path_segment_prefix):
        return path_segment_prefix
    return lambda text: rule(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)
