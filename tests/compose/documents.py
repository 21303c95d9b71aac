"""The manifests that the mission's documents print, read from the documents themselves where they are beside the
repository: those in blocks of YAML, those that a script applies, and the claims that templates hold.

Nothing of them is kept here: the documents are read when tests run, and tests that need them are skipped by name where
they are not.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest
import yaml

from steelyard.compose import offering
from steelyard.kube.objects import Object
from tests.harness import ROOT

FOLDER: Final = ROOT.parent / "shared" / "mission"
needed: Final = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the mission's documents (../shared/mission) are not here"
)

_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_APPLIED: Final = re.compile(r"<<'?EOF'?[^\n]*\n(.*?)^ *EOF$", re.MULTILINE | re.DOTALL)
_MENDED: Final = (
    re.compile(r"^ {5}controllerManager:\n {6}extraArgs:\n {8}", re.MULTILINE),
    "      controllerManager:\n        extraArgs:\n          ",
)
"""One manifest of 004 is indented so that it is no YAML."""
_PARAMETER: Final = re.compile(r"\$\{\{ parameters\.(\w+) \}\}")
_NUMBER: Final = re.compile(r"\{\{ PR_NUMBER \}\}|\$\{PR_NUM\}")
_FILLED_IN: Final = {"name": "shop", "environment": "dev"}
"""What the author of a template's claim would write where the template has no default."""


@dataclass(frozen=True)
class Manifest:
    document: str
    """000 to 004."""
    line: int
    """Of the block that it is printed in."""
    object: Object

    @property
    def kind(self) -> str:
        return str(self.object.get("kind"))

    @property
    def title(self) -> str:
        name = cast("dict[str, Any]", self.object.get("metadata") or {}).get("name")
        return f"{self.document}:{self.line} {self.kind} {name}"


@functools.cache
def manifests() -> tuple[Manifest, ...]:
    """In the order in which they are printed; what has no kind is none."""
    found: list[Manifest] = []
    for file in sorted(FOLDER.glob("*.txt")):
        text = file.read_text(encoding="utf-8")
        for block in _BLOCK.finditer(text):
            line = text[: block.start()].count("\n") + 1
            found += (Manifest(file.name[:3], line, each) for each in _objects(block[1], block[2]))
    return tuple(found)


def _objects(language: str, text: str) -> Iterator[Object]:
    if language != "yaml":
        for applied in _APPLIED.findall(text):
            yield from _parsed(applied)
        return
    yield from _parsed(_MENDED[0].sub(_MENDED[1], text))


def _parsed(text: str) -> Iterator[Object]:
    for each in yaml.load_all(text, yaml.CSafeLoader):
        if isinstance(each, dict) and "kind" in each:
            yield cast(Object, each)


def filled_in(manifest: Manifest) -> Object:
    """With what somebody who uses it would write for the number of a pull request."""
    return cast(Object, _filled(manifest.object, {}))


def claims() -> dict[str, Object]:
    """Every claim of a kind that the platform offers, with what its template's author would fill in; by where it is."""
    found: dict[str, Object] = {}
    for manifest in manifests():
        defaults = {**_FILLED_IN, **_defaults(manifest.object)}
        for each in _within(manifest.object):
            if offering.STANDARD.kind_of(each) is None:
                continue
            filled = cast(Object, _filled(each, defaults))
            found[f"{manifest.document}:{manifest.line} {filled['kind']} {filled['metadata']['name']}"] = filled
    return found


def _within(value: Any) -> Iterator[Object]:
    """Objects of the API anywhere in a manifest, in the text of its scripts too."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if "apiVersion" in fields and "kind" in fields:
            yield fields
        for each in fields.values():
            yield from _within(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _within(each)
    elif isinstance(value, str) and "<<EOF" in value:
        for applied in _APPLIED.findall(value):
            yield from _parsed(applied)


def _defaults(template: Object) -> dict[str, Any]:
    """Of a software template's parameters."""
    pages = cast("dict[str, Any]", template.get("spec") or {}).get("parameters")
    return {
        name: field["default"]
        for page in (cast("list[Any]", pages) if isinstance(pages, list) else [])
        for name, field in page["properties"].items()
        if "default" in field
    }


def _filled(value: Any, defaults: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, defaults) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_filled(each, defaults) for each in cast("list[Any]", value)]
    if not isinstance(value, str):
        return value
    whole = _PARAMETER.fullmatch(value)
    if whole:
        return defaults.get(whole[1], value)
    return _NUMBER.sub("17", _PARAMETER.sub(lambda found: str(defaults.get(found[1], found[0])), value))
