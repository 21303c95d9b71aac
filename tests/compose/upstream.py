"""The definitions of kinds that are composed: upstream's for those of others, ours for our own."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import cast

import pytest
import yaml

from steelyard.api import crd, databases, redisserver, secretdelivery, vaultentries
from steelyard.compose.offering import STANDARD
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.schema import parse, prune, validate
from steelyard.kube.schema.model import Schema

FOLDER = Path(__file__).parents[3] / "shared" / "crds"
BUILT_IN = ("", "apps", "rbac.authorization.k8s.io", "networking.k8s.io")
"""Groups of Kubernetes' own, whose kinds nobody defines."""

needed = pytest.mark.skipif(not FOLDER.is_dir(), reason="upstream's definitions (../shared/crds) are not here")


def is_ours(resource: Resource) -> bool:
    return resource.group_resource in _ours()


@functools.cache
def schema_of(group_resource: str, version: str) -> Schema:
    if group_resource in _ours():
        return _schema(_ours()[group_resource], version)
    file = next(iter(FOLDER.glob(f"*/{group_resource}.yaml")), None)
    assert file is not None, f"upstream's definition of {group_resource} is not among those in ../shared/crds"
    return _schema(cast(Object, yaml.load(file.read_bytes(), yaml.CSafeLoader)), version)


def problems(schema: Schema, obj: Object) -> list[str]:
    """What an API server would refuse in a new object, or drop without a word."""
    checked = objects.copy(obj)
    refused = [f"{cause.field}: {cause.message}" for cause in validate.validate(schema, checked)]
    return refused + [f"{field}: the kind has no such field" for field in prune.prune(schema, checked)]


def of_providers() -> list[Object]:
    """The definitions that providers of ours bring, whatever the domain is."""
    return [crd.definition(each) for each in (*databases.KINDS, redisserver.KIND, vaultentries.KIND)]


@functools.cache
def _ours() -> dict[str, Object]:
    found = [*STANDARD.definitions("pnats.cloud"), *of_providers(), *secretdelivery.definitions()]
    return {objects.name(each): each for each in found}


def _schema(definition: Object, version: str) -> Schema:
    found = next(each for each in definition["spec"]["versions"] if each["name"] == version)
    return parse.from_openapi(found["schema"]["openAPIV3Schema"])
