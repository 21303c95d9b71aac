"""The definitions, and of each the version whose objects are generated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

import yaml

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import default, parse
from steelyard.kube.schema.model import Schema
from steelyard.kube.server.definitions import crdstatus, customresources
from steelyard.kube.server.definitions.customresources import ServedVersion
from tests.harness import ROOT

FOLDER: Final = ROOT.parent / "shared" / "crds"
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Definition:
    file: Path

    @property
    def name(self) -> str:
        return self.file.name.removesuffix(".yaml")

    @cached_property
    def object(self) -> Object:
        found = cast(Object, yaml.load(self.file.read_text(), Loader=_LOADER))
        found.pop("status", None)
        return found

    @cached_property
    def version(self) -> Object:
        """The stored version: its objects need no conversion."""
        versions = [objects.mapping(each) for each in objects.sequence(objects.at(self.object, "spec", "versions"))]
        stored = [each for each in versions if each.get("storage") and each.get("served")]
        return (stored or [each for each in versions if each.get("served")])[0]

    @cached_property
    def document(self) -> Object:
        return objects.mapping(objects.at(self.version, "schema", "openAPIV3Schema"))

    @cached_property
    def schema(self) -> Schema:
        return parse.from_openapi(self.document)

    @cached_property
    def served(self) -> ServedVersion:
        crd = objects.copy(self.object)
        customresources.prepare_create(crd)
        crd["status"] = crdstatus.accept_names(crd, (), "2026-01-01T00:00:00Z")
        named = (each for each in customresources.served_versions(crd) if each.resource.version == self.version["name"])
        return next(named)

    @property
    def kind(self) -> str:
        return str(objects.at(self.object, "spec", "names", "kind"))

    @property
    def api_version(self) -> str:
        return f"{objects.at(self.object, 'spec', 'group')}/{self.version['name']}"

    def path(self, namespace: str) -> str:
        """Where its objects are created."""
        inside = f"/namespaces/{namespace}" if objects.at(self.object, "spec", "scope") == "Namespaced" else ""
        return f"/apis/{self.api_version}{inside}/{objects.at(self.object, 'spec', 'names', 'plural')}"

    def complaints(self, obj: Object) -> list[tuple[str, str, str]]:
        """What our own rules say of a new object, as field, reason and message; this guides the generation."""
        judged = objects.copy(obj)
        if self.served.has_status:
            judged.pop("status", None)
        default.apply_defaults(self.schema, judged)
        found = customresources.validate_object(self.served, judged)
        return [(each.field, each.reason, each.message) for each in found]


def load() -> Iterator[Definition]:
    """In the order of their files; none if the folder is not there."""
    for file in sorted(FOLDER.glob("*/*.yaml")):
        yield Definition(file)
