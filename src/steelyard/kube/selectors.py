"""Label and field selectors: parsed from a query parameter or an object's `selector` field, matched against objects.

The server filters lists and watches with them, controllers use the same code for `matchLabels` and `matchExpressions`.
Text that does not parse raises `errors.BadRequest`. A selector that matches everything is falsy: callers may skip it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Literal

from steelyard.frozen import frozen
from steelyard.kube import errors, namerules, objects, remembering
from steelyard.kube.objects import Object

Operator = Literal["=", "!=", "in", "notin", "exists", "!", ">", "<"]

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_MOST_TERMS = 1_000
_LONGEST = 128 * 1024
_SYMBOLS = frozenset({"=", "==", "!=", "!", "(", ")", ",", "<", ">"})


@frozen
class Requirement:
    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """A missing label satisfies `!=` and `notin`, as in Kubernetes."""
        value = labels.get(self.key)
        match self.operator:
            case "=" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case ">" | "<":
                return _compares(value, self.operator, next(iter(self.values)))


class _LabelIndex:
    """Requirements by the label they are about: what matching takes goes by the labels of an object, not by them."""

    __slots__ = ("_absent", "_compared", "_needed", "_present", "_refused")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self._needed: dict[str, frozenset[str]] = {}
        self._refused: dict[str, frozenset[str]] = {}
        present: set[str] = set()
        absent: set[str] = set()
        self._compared: list[Requirement] = []
        for each in requirements:
            match each.operator:
                case "=" | "in":
                    known = self._needed.get(each.key)
                    self._needed[each.key] = each.values if known is None else known & each.values
                case "!=" | "notin":
                    self._refused[each.key] = self._refused.get(each.key, frozenset()) | each.values
                case "exists":
                    present.add(each.key)
                case "!":
                    absent.add(each.key)
                case ">" | "<":
                    self._compared.append(each)
        self._present = frozenset(present)
        self._absent = frozenset(absent)

    def matches(self, labels: Mapping[str, str]) -> bool:
        if len(self._needed) > len(labels) or len(self._present) > len(labels):
            return False
        for key, values in self._needed.items():
            if labels.get(key) not in values:
                return False
        if self._refused:
            for key, value in labels.items():
                if key in self._refused and value in self._refused[key]:
                    return False
        return (
            self._absent.isdisjoint(labels)
            and all(key in labels for key in self._present)
            and all(each.matches(labels) for each in self._compared)
        )


@frozen
class LabelSelector:
    requirements: tuple[Requirement, ...] = ()
    matches_nothing: bool = False
    index: _LabelIndex | None = field(default=None, compare=False, repr=False)

    def __bool__(self) -> bool:
        return bool(self.requirements) or self.matches_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.matches_nothing and (self.index is None or self.index.matches(labels))


def _selector(requirements: Iterable[Requirement]) -> LabelSelector:
    listed = tuple(requirements)
    return LabelSelector(listed, index=_LabelIndex(listed))


@frozen
class FieldRequirement:
    field: str
    value: str
    negated: bool = False


@frozen
class FieldSelector:
    """Which fields an object offers is the kind's business: `matches` is given the look-up."""

    requirements: tuple[FieldRequirement, ...] = ()
    wanted: dict[str, tuple[frozenset[str], frozenset[str]]] = field(
        default_factory=dict[str, tuple[frozenset[str], frozenset[str]]], compare=False, repr=False
    )
    """Field to the values it must have, all of them, and those it must not have."""

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def matches(self, value_of: Callable[[str], str]) -> bool:
        for name, (needed, refused) in self.wanted.items():
            value = value_of(name)
            if value in refused or (needed and (len(needed) > 1 or value not in needed)):
                return False
        return True

    def exact(self, field: str) -> str:
        """The one value that the field must have, or nothing: lets a list by name become a get."""
        return next((wanted.value for wanted in self.requirements if wanted.field == field and not wanted.negated), "")


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(matches_nothing=True)


@remembering.briefly(1024, 1024)
def parse_labels(text: str) -> LabelSelector:
    """
    >>> parse_labels("app=web,tier in (a, b),!old").matches({"app": "web", "tier": "a"})
    True
    """
    _check_terms(text)
    tokens = _tokens(text)
    requirements: list[Requirement] = []
    position = 0
    while position < len(tokens):
        requirement, position = _requirement(tokens, position)
        requirements.append(requirement)
        if position < len(tokens):
            if tokens[position] != ",":
                raise errors.BadRequest(f"found '{tokens[position]}', expected: ',' or 'end of string'")
            position += 1
            if position == len(tokens):
                raise _unparsable("found '', expected: identifier after ','")
    return _selector(requirements)


def from_object(selector: Object | None) -> LabelSelector:
    """From a `metav1.LabelSelector`: an absent one selects nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    requirements = [
        Requirement(key, "=", frozenset({str(value)}))
        for key, value in objects.mapping(selector.get("matchLabels")).items()
    ]
    for expression in map(objects.mapping, objects.sequence(selector.get("matchExpressions"))):
        operators: dict[str, Operator] = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
        operator = operators.get(str(expression.get("operator")))
        if operator is None:
            raise errors.BadRequest(f'"{expression.get("operator")}" is not a valid label selector operator')
        values = frozenset(str(value) for value in objects.sequence(expression.get("values")))
        requirements.append(Requirement(str(expression.get("key") or ""), operator, values))
    return _selector(requirements)


@remembering.briefly(1024, 1024)
def parse_fields(text: str) -> FieldSelector:
    r"""`metadata.name=a,status.phase!=Running`; `\\`, `\,` and `\=` in a value stand for the character itself."""
    _check_terms(text)
    requirements: list[FieldRequirement] = []
    for term in _split_unescaped(text):
        if not term:
            continue
        found = re.match(r"((?:\\.|[^\\=!])*)(==|!=|=)(.*)\Z", term, re.DOTALL)
        if found is None or not found[1].strip():
            raise errors.BadRequest(f"invalid selector: '{text}'; can't understand '{term}'")
        requirements.append(FieldRequirement(found[1].strip(), _unescape(found[3], text), found[2] == "!="))
    wanted: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    for each in requirements:
        needed, refused = wanted.get(each.field, (frozenset[str](), frozenset[str]()))
        own = frozenset({each.value})
        wanted[each.field] = (needed, refused | own) if each.negated else (needed | own, refused)
    return FieldSelector(tuple(requirements), wanted)


def _check_terms(text: str) -> None:
    if len(text) > _LONGEST or text.count(",") >= _MOST_TERMS:
        raise errors.BadRequest(
            f"the selector is too long: it may have {_MOST_TERMS} terms and values in {_LONGEST} characters"
        )


def format_labels(labels: Mapping[str, str]) -> str:
    """A selector for all of these labels, in a stable order: `{"b": "2", "a": "1"}` is `a=1,b=2`."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _compares(value: str | None, operator: Literal[">", "<"], bound: str) -> bool:
    if value is None:
        return False
    try:
        number = int(value)
    except ValueError:
        return False
    return number > int(bound) if operator == ">" else number < int(bound)


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            raise _unparsable(f"unexpected {text[position:]!r}")
        tokens.append(found[1])
        position = found.end()
    return tokens


def _requirement(tokens: list[str], position: int) -> tuple[Requirement, int]:
    if tokens[position] == "!":
        key = _key(tokens, position + 1)
        return Requirement(key, "!"), position + 2
    key = _key(tokens, position)
    position += 1
    if position == len(tokens) or tokens[position] == ",":
        return Requirement(key, "exists"), position
    operator = tokens[position]
    match operator:
        case "=" | "==" | "!=":
            value, position = _value(tokens, position + 1)
            _check_value(value, key)
            return Requirement(key, "!=" if operator == "!=" else "=", frozenset({value})), position
        case ">" | "<":
            value, position = _value(tokens, position + 1)
            if not re.fullmatch(r"-?[0-9]{1,18}", value):
                why = "for 'Gt', 'Lt' operators, the value must be an integer"
                raise _unparsable(f'values[0]: Invalid value: "{value}": {why}')
            return Requirement(key, operator, frozenset({value})), position
        case "in" | "notin":
            values, position = _set(tokens, position + 1, key)
            return Requirement(key, operator, values), position
        case _:
            raise _unparsable(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _key(tokens: list[str], position: int) -> str:
    key = tokens[position] if position < len(tokens) else ""
    if not key or key in _SYMBOLS:
        raise _unparsable(f"found '{key}', expected: identifier")
    if wrong := namerules.qualified_name(key):
        raise _unparsable(f'<nil>: Invalid value: "{key}": {"; ".join(wrong)}')
    return key


def _value(tokens: list[str], position: int) -> tuple[str, int]:
    """An absent value is the empty string: `app=` selects objects whose label is empty."""
    if position < len(tokens) and tokens[position] not in _SYMBOLS:
        return tokens[position], position + 1
    return "", position


def _set(tokens: list[str], position: int, key: str) -> tuple[frozenset[str], int]:
    if position >= len(tokens) or tokens[position] != "(":
        found = tokens[position] if position < len(tokens) else ""
        raise _unparsable(f"found '{found}' expected: '('")
    values, position = _listed(tokens, position + 1)
    for index, value in enumerate(sorted(values)):
        _check_value(value, key, index)
    return frozenset(values), position


def _listed(tokens: list[str], position: int) -> tuple[set[str], int]:
    """The values up to the closing parenthesis, and where it goes on; what is left out between commas is empty text."""
    padded = [*tokens, "", "", ""]
    first = padded[position]
    if first == ")":
        return {""}, position + 1
    if first in ("", *_SYMBOLS) and first != ",":
        raise _unparsable(f"found '{first}', expected: ',', ')' or identifier")
    values: set[str] = set()
    while True:
        present, following = padded[position], padded[position + 1]
        if present == ",":
            values |= {""} if not values or following in (",", ")") else set()
            position += 2 if following == "," else 1
            if following == ")":
                return values, position + 1
        elif present and present not in _SYMBOLS:
            values.add(present)
            if following not in (",", ")"):
                raise _unparsable(f"found '{following}', expected: ',' or ')'")
            if following == ")":
                return values, position + 2
            position += 1
        else:
            raise _unparsable(f"found '{present}', expected: ',', or identifier")


def _check_value(value: str, key: str, place: int = 0) -> None:
    for problem in namerules.label_value(value):
        raise _unparsable(f'values[{place}][{key}]: Invalid value: "{value}": {problem}')


def _unparsable(why: str) -> errors.BadRequest:
    return errors.BadRequest(f"unable to parse requirement: {why}")


def _split_unescaped(text: str) -> list[str]:
    terms: list[str] = []
    start = position = 0
    while position < len(text):
        if text[position] == "\\":
            position += 1
        elif text[position] == ",":
            terms.append(text[start:position])
            start = position + 1
        position += 1
    terms.append(text[start:])
    return terms


def _unescape(value: str, text: str) -> str:
    if "\\" not in value:
        if "=" in value:
            raise errors.BadRequest(f"invalid field selector {text!r}: unescaped '=' in value")
        return value
    out: list[str] = []
    characters = iter(value)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in {"\\", ",", "="}:
                raise errors.BadRequest(f"invalid field selector {text!r}: invalid escape sequence \\{escaped}")
            out.append(escaped)
        else:
            out.append(character)
    return "".join(out)
