"""External Secrets' templates, as far as they are plain: values of a Secret, put into a text by Go's template language.

    postgresql://{{ .username | urlquery }}@{{ .endpoint }}   {{ index . "api-url" }}   {{ .kubeconfig | b64enc }}

Conditions, loops and functions that are not here are refused by name: a guess would end up in somebody's secret.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias
from urllib.parse import quote_plus

Values: TypeAlias = Mapping[str, str]
_Value: TypeAlias = "str | Values"

_ACTION: Final = re.compile(r"(\s*)\{\{(-(?=\s))?(.*?)((?<=\s)-)?\}\}(\s*)", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\\n]|\\.)*"|`[^`]*`)|(?P<field>\.[A-Za-z_][A-Za-z0-9_]*)|(?P<all>\.(?![A-Za-z_]))"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>[|()]))"""
)
_KEYWORDS: Final = frozenset({"if", "else", "end", "range", "with", "define", "template", "block", "break", "continue"})
_LONGEST: Final = 1 << 20


class TemplateError(Exception):
    """The message names what is wrong, and no value."""


def _b64dec(value: str) -> str:
    try:
        return base64.b64decode(_bytes(value), validate=True).decode(errors="surrogateescape")
    except binascii.Error:
        raise TemplateError("b64dec: the value is not base64") from None


_FUNCTIONS: Final[Mapping[str, Callable[[str], str]]] = {
    "urlquery": lambda value: quote_plus(_bytes(value), safe="~"),
    "b64enc": lambda value: base64.b64encode(_bytes(value)).decode(),
    "b64dec": _b64dec,
    "toString": lambda value: value,
    "trim": lambda value: value.strip(" \t\n\r\v\f"),
    "upper": str.upper,
    "lower": str.lower,
    "quote": lambda value: json.dumps(value, ensure_ascii=False),
    "toJson": lambda value: json.dumps(value, ensure_ascii=False),
}


def render(template: str, values: Values) -> str:
    """The template with the values in it. Raises TemplateError."""
    done: list[str] = []
    at = 0
    for found in _ACTION.finditer(template):
        done.append(template[at : found.start()])
        before, trims_before, inner, trims_after, after = found.groups()
        done.append("" if trims_before else before)
        is_remark = inner.strip().startswith("/*") and inner.strip().endswith("*/")
        done.append("" if is_remark else _evaluated(inner, values))
        done.append("" if trims_after else after)
        at = found.end()
    done.append(template[at:])
    text = "".join(done)
    if "{{" in template[at:]:
        raise TemplateError("an action is not closed: {{ without }}")
    if len(text) > _LONGEST:
        raise TemplateError("what comes out is larger than a Secret can be")
    return text


def _evaluated(inner: str, values: Values) -> str:
    tokens = _Tokens(inner)
    value = _pipeline(tokens, values)
    if tokens.peek() is not None:
        raise TemplateError(f"{{{{{inner.strip()[:60]}}}}} is not understood")
    return _text(value, inner)


class _Tokens:
    def __init__(self, inner: str) -> None:
        self.inner = inner.strip()
        self._all = list(self._split(self.inner))
        self._at = 0

    def _split(self, inner: str) -> Iterator[tuple[str, str]]:
        at = 0
        while at < len(inner):
            found = _TOKEN.match(inner, at)
            if found is None or not found.lastgroup:
                raise TemplateError(f"{{{{{inner[:60]}}}}} is not understood, from {inner[at : at + 20]!r} on")
            yield found.lastgroup, found[found.lastgroup]
            at = found.end()

    def peek(self) -> tuple[str, str] | None:
        return self._all[self._at] if self._at < len(self._all) else None

    def take(self) -> tuple[str, str]:
        token = self.peek()
        if token is None:
            raise TemplateError(f"{{{{{self.inner[:60]}}}}} is not complete")
        self._at += 1
        return token


def _pipeline(tokens: _Tokens, values: Values) -> _Value:
    value = _command(tokens, values, None)
    while tokens.peek() == ("sign", "|"):
        tokens.take()
        value = _command(tokens, values, value)
    return value


def _command(tokens: _Tokens, values: Values, piped: _Value | None) -> _Value:
    kind, word = tokens.take()
    if kind != "word":
        if piped is not None:
            raise TemplateError(f"{{{{{tokens.inner[:60]}}}}}: only a function can come behind |")
        return _operand(tokens, values, kind, word)
    if word in _KEYWORDS:
        raise TemplateError(f"{word} is not supported in templates here: only values and functions of them are")
    arguments: list[_Value] = []
    while (token := tokens.peek()) is not None and token not in (("sign", "|"), ("sign", ")")):
        kind, inner = tokens.take()
        if kind == "word":
            raise TemplateError(f"{{{{{tokens.inner[:60]}}}}}: put {inner} and what it takes into parentheses")
        arguments.append(_operand(tokens, values, kind, inner))
    if piped is not None:
        arguments.append(piped)
    return _called(word, arguments)


def _operand(tokens: _Tokens, values: Values, kind: str, word: str) -> _Value:
    if kind == "text":
        try:
            return word[1:-1] if word.startswith("`") else str(json.loads(word))
        except ValueError:
            raise TemplateError(f"{word[:60]} is no text") from None
    if kind == "field":
        return _key(values, word[1:])
    if kind == "all":
        return values
    if (kind, word) == ("sign", "("):
        value = _pipeline(tokens, values)
        if tokens.take() != ("sign", ")"):
            raise TemplateError(f"{{{{{tokens.inner[:60]}}}}}: a parenthesis is not closed")
        return value
    raise TemplateError(f"{{{{{tokens.inner[:60]}}}}} is not understood")


def _called(name: str, arguments: list[_Value]) -> _Value:
    if name == "index":
        if len(arguments) != 2 or isinstance(arguments[0], str) or not isinstance(arguments[1], str):
            raise TemplateError('index takes the values and a key: index . "key"')
        return _key(arguments[0], arguments[1])
    function = _FUNCTIONS.get(name)
    if function is None:
        known = ", ".join(sorted(("index", *_FUNCTIONS)))
        raise TemplateError(f"the function {name} is not supported in templates here; there are {known}")
    if len(arguments) != 1:
        raise TemplateError(f"{name} takes one value, and is given {len(arguments)}")
    return function(_text(arguments[0], name))


def _key(values: Values, key: str) -> str:
    if key not in values:
        raise TemplateError(f"there is no key {key} in what the template is filled in with")
    return values[key]


def _text(value: _Value, where: str) -> str:
    if isinstance(value, str):
        return value
    raise TemplateError(f"{where.strip()[:60]} is all values at once, and no text: name a key")


def _bytes(value: str) -> bytes:
    return value.encode(errors="surrogateescape")
