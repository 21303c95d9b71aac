"""Policy rules: does one allow a request, does a set of them cover another, and how they read in a refusal.

A rule is read once, when its role is; a request is then matched with a few lookups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, TypeAlias

from steelyard.frozen import frozen
from steelyard.kube import effort, errors, fields, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.rights.authz import Attributes

_ALL: Final = "*"
_FEW: Final = 8
"""Words that are looked through as quickly as a set."""
_COMPARING: Final = 50
"""Steps of effort that it takes to compare a right with one rule."""
_TOLD: Final = 1_000
"""So many rights that somebody lacks are enough to tell."""
FULL_AUTHORITY: Final[tuple[Object, ...]] = (
    {"verbs": [_ALL], "apiGroups": [_ALL], "resources": [_ALL]},
    {"verbs": [_ALL], "nonResourceURLs": [_ALL]},
)


Words: TypeAlias = Collection[str]


@frozen
class Rule:
    """One entry of a role's `rules`, as small as it can be: a role may have ten thousand of them."""

    verbs: Words
    groups: Words
    resources: Words
    names: Words
    urls: Words

    @property
    def source(self) -> Object:
        """As the role has it."""
        fields_ = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.urls,
        }
        return {name: list(words) for name, words in fields_.items() if words}

    def allows(self, asked: Attributes) -> bool:
        if asked.verb not in self.verbs and _ALL not in self.verbs:
            return False
        if not asked.plural:
            return any(_url_covers(url, asked.path) for url in self.urls)
        if asked.group not in self.groups and _ALL not in self.groups:
            return False
        wanted = f"{asked.plural}/{asked.subresource}" if asked.subresource else asked.plural
        resources = self.resources
        if (
            wanted not in resources
            and _ALL not in resources
            and not (asked.subresource and f"*/{asked.subresource}" in resources)
        ):
            return False
        return not self.names or asked.name in self.names


def compiled(rules: Any) -> tuple[Rule, ...]:
    known: dict[tuple[str, ...], Words] = {}
    return tuple(_compile(objects.mapping(rule), known) for rule in objects.sequence(rules))


def _compile(rule: Object, known: dict[tuple[str, ...], Words]) -> Rule:
    return Rule(
        _words(rule, "verbs", known),
        _words(rule, "apiGroups", known),
        _words(rule, "resources", known),
        _words(rule, "resourceNames", known),
        _words(rule, "nonResourceURLs", known),
    )


def _words(rule: Object, field: str, known: dict[tuple[str, ...], Words]) -> Words:
    """In order, and quick to look one up in. Rules that are alike share them."""
    texts = _texts(rule, field)
    words = known.get(texts)
    if words is None:
        words = known[texts] = texts if len(texts) <= _FEW else dict.fromkeys(texts)
    return words


def uncovered(held: Sequence[Rule], wanted: Iterable[Object]) -> list[Object]:
    """What of `wanted` no held rule allows, broken down to one group, resource, verb and name each; the first of it.

    Raises TooLarge where finding out would take too long: a short rule may stand for millions of such parts.
    """
    missing: list[Object] = []
    parts = (part for rule in wanted for part in _parts(objects.mapping(rule)))
    try:
        with effort.LIMITED:
            for part in parts:
                effort.spend(_COMPARING * (len(held) + 1))
                if not any(_covers(owner, part) for owner in held):
                    missing.append(part)
                    if len(missing) == _TOLD:
                        break
    except effort.Exhausted:
        raise errors.TooLarge(
            "the role grants too much to be compared with what you may do yourself: make several smaller ones"
        ) from None
    return missing


def _parts(rule: Object) -> Iterable[Object]:
    verbs = _texts(rule, "verbs")
    names = _texts(rule, "resourceNames")
    for group in _texts(rule, "apiGroups"):
        for resource in _texts(rule, "resources"):
            for verb in verbs:
                part: Object = {"verbs": [verb], "apiGroups": [group], "resources": [resource]}
                if not names:
                    yield part
                for name in names:
                    yield {**part, "resourceNames": [name]}
    for url in _texts(rule, "nonResourceURLs"):
        for verb in verbs:
            yield {"verbs": [verb], "nonResourceURLs": [url]}


def _covers(owner: Rule, part: Object) -> bool:
    if part["verbs"][0] not in owner.verbs and _ALL not in owner.verbs:
        return False
    if "nonResourceURLs" in part:
        return not owner.names and any(_url_covers(url, part["nonResourceURLs"][0]) for url in owner.urls)
    resource = part["resources"][0]
    _, slash, subresource = resource.partition("/")
    names = part.get("resourceNames")
    return (
        (part["apiGroups"][0] in owner.groups or _ALL in owner.groups)
        and (
            resource in owner.resources
            or _ALL in owner.resources
            or (bool(slash) and f"*/{subresource}" in owner.resources)
        )
        and (not owner.names or (names is not None and names[0] in owner.names))
    )


def _url_covers(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith(_ALL) and path.startswith(pattern.rstrip(_ALL)))


def described(parts: Iterable[Object]) -> str:
    """One line per resource, as upstream lists the rights that somebody lacks."""
    merged: dict[tuple[str, ...], Object] = {}
    for part in parts:
        if "nonResourceURLs" in part:
            merged[("url", part["nonResourceURLs"][0], part["verbs"][0])] = part
            continue
        key = ("", part["apiGroups"][0], part["resources"][0], *part.get("resourceNames", ()))
        known = merged.get(key)
        merged[key] = {**part, "verbs": [*known["verbs"], *part["verbs"]]} if known is not None else part
    return "\n".join(sorted({_line(rule) for rule in merged.values()}))


_SHOWN: Final = (
    ("apiGroups", "APIGroups"), ("resources", "Resources"), ("nonResourceURLs", "NonResourceURLs"),
    ("resourceNames", "ResourceNames"), ("verbs", "Verbs"),
)  # fmt: skip


def _line(rule: Object) -> str:
    return "{" + ", ".join(f"{label}:{go_list(rule[key])}" for key, label in _SHOWN if rule.get(key)) + "}"


def go_list(texts: Iterable[str]) -> str:
    """As Go prints a list of strings with %q: `["a" "b"]`."""
    return "[" + " ".join(map(fields.quote, texts)) + "]"


def _texts(rule: Object, field: str) -> tuple[str, ...]:
    return tuple(map(str, objects.sequence(rule.get(field))))
