"""Kubernetes' built-in kinds as tables: what discovery says of each, and the types they are made of.

Two sources describe a type, and both are needed: the OpenAPI documents know list types, merge keys, required fields and
defaults; the Go packages with their protobuf files know field numbers, pointers, what JSON leaves out, enumerations.
The two are joined field by field, and where they disagree about which fields there are, making the tables fails.

`kinds.json` lists the kinds. One further file per package lists its types, one per line:

    "ContainerPort": {"fields": {"name": ["string", 1], "hostPort": ["int32", 2], ...}, "required": ["containerPort"]}

A field is its type, its protobuf number, and what else there is to say. Types are written as in Go: `*` is a pointer,
`[]` a list, `{}` a map by string; a name with a slash belongs to another package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import golang
import modules
import protos

Json: TypeAlias = dict[str, Any]

_GENERAL: Final = re.compile(r"^v\d+$")
"""Versions served by default: in this release that is exactly the general ones."""

_SPECIAL: Final = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "Quantity",
    "k8s.io.apimachinery.pkg.apis.meta.v1.Time": "Time",
    "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime": "MicroTime",
    "k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1": "FieldsV1",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "IntOrString",
    "k8s.io.apimachinery.pkg.runtime.RawExtension": "RawExtension",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON": "JSON",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": "SchemaOrArray",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": "SchemaOrBool",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "SchemaOrStrings",
}
"""Messages whose JSON form is not an object with the message's fields."""

_META_ROOTS: Final = (
    "DeleteOptions",
    "Status",
    "WatchEvent",
    "APIResourceList",
    "APIGroup",
    "APIGroupList",
    "APIVersions",
)
_META: Final = "meta/v1"
_TYPE_META: Final = {"kind": ["string", 0], "apiVersion": ["string", 0]}


@cache
def discovery(name: str) -> Json:
    path = modules.folder("k8s.io/kubernetes") / "api" / "discovery" / f"{name}.json"
    return json.loads(path.read_text())


@cache
def openapi() -> dict[str, Json]:
    """All component schemas by name, e.g. `io.k8s.api.core.v1.Pod`."""
    found: dict[str, Json] = {}
    for path in sorted((modules.folder("k8s.io/kubernetes") / "api" / "openapi-spec" / "v3").glob("*.json")):
        found.update(json.loads(path.read_text()).get("components", {}).get("schemas", {}))
    return found


def go_package(package: str) -> tuple[str, str, Path]:
    """`rbac/v1` is (prefix in OpenAPI, package in protobuf, folder)."""
    group, version = package.split("/")
    module, inner = {
        "meta": ("k8s.io/apimachinery", f"pkg/apis/meta/{version}"),
        "apiextensions": ("k8s.io/apiextensions-apiserver", f"pkg/apis/apiextensions/{version}"),
        "apiregistration": ("k8s.io/kube-aggregator", f"pkg/apis/apiregistration/{version}"),
    }.get(group, ("k8s.io/api", package))
    dotted = f"{module}/{inner}".replace("/", ".")
    return dotted.replace("k8s.io.", "io.k8s.", 1), dotted.replace("-", "_"), modules.folder(module) / inner


@cache
def go(package: str) -> golang.Package:
    return golang.read(go_package(package)[2])


@cache
def messages(package: str) -> dict[str, dict[int, protos.Wire]]:
    return protos.read(go_package(package)[2] / "generated.proto")


def package_of(message: str) -> tuple[str, str]:
    """`k8s.io.api.apps.v1.Deployment` is ("apps/v1", "Deployment")."""
    parts = message.split(".")
    return "/".join(parts[-3:-1]), parts[-1]


def type_name(message: str, package: str) -> str:
    """How a field refers to a message: a special type, a local or a foreign name."""
    if message in _SPECIAL:
        return _SPECIAL[message]
    if "." not in message:
        return message
    home, name = package_of(message)
    if go(home).aliases.get(name, "").startswith("[]"):
        return "StringList"
    return name if home == package else f"{home}.{name}"


def enum_of(field: golang.Field, package: str) -> tuple[str, ...]:
    alias, _, name = field.base.rpartition(".")
    home = package if not alias else "/".join(go(package).imports.get(alias, "").split("/")[-2:])
    try:
        return go(home).enums.get(name, ()) if home else ()
    except KeyError:
        return ()


def go_name(field: golang.Field, package: str) -> str:
    """The field's type as Go prints it: `v1.Protocol`, `[]v1.IPFamily`, `v1.ResourceList`. A pointer is left out."""

    def printed(found: re.Match[str]) -> str:
        alias, name = found.groups()
        if alias:
            return f"{go(package).imports[alias].rpartition('/')[2]}.{name}"
        return f"{package.partition('/')[2]}.{name}" if name[0].isupper() else name

    text = re.sub(r"(?:(\w+)\.)?(\w+)", printed, field.type.removeprefix("*"))
    return text.replace("[]byte", "[]uint8")


def usual_go_name(wire: protos.Wire, name: str, package: str) -> str:
    """What can be told of it without a further fact."""
    base = {"bytes": "[]uint8", "double": "float64"}.get(name, name)
    if name[0].isupper() or "." in name:
        home, _, local = name.rpartition(".")
        is_special = name in {*_SPECIAL.values(), "StringList"}
        base = f"{'v1' if is_special else (home or package).partition('/')[2]}.{local}"
    return f"[]{base}" if wire.repeated else f"map[string]{base}" if wire.mapped else base


def overlay(schema: Json) -> Json:
    """What OpenAPI adds to a field: list and map types, merge keys, defaults that are more than Go's zero value."""
    said: Json = {}
    for ours, theirs in (
        ("list", "list-type"),
        ("keys", "list-map-keys"),
        ("map", "map-type"),
        ("mergeKey", "patch-merge-key"),
    ):
        if f"x-kubernetes-{theirs}" in schema:
            said[ours] = schema[f"x-kubernetes-{theirs}"]
    if "x-kubernetes-patch-strategy" in schema:
        said["patch"] = schema["x-kubernetes-patch-strategy"].split(",")
    if schema.get("default"):
        said["default"] = schema["default"]
    return said


def field_entry(field: golang.Field, wire: protos.Wire | None, package: str, schema: Json) -> list[Any]:
    if wire is None:
        kind = field.type.replace("[]", "").replace("*", "")
        wire = protos.Wire(kind, repeated="[]" in field.type)
        assert kind in {"string", "int32", "int64", "bool"}, (package, field)
    name = type_name(wire.type, package)
    expression = ("[]" if wire.repeated else "{}" if wire.mapped else "") + name
    more = overlay(schema)
    if not field.omit_empty:
        more["always"] = True
    if field.omit_zero:
        more["omitZero"] = True
    if enum := enum_of(field, package):
        more["enum"] = sorted(enum)
    if (printed := go_name(field, package)) != usual_go_name(wire, name, package):
        more["go"] = printed
    entry: list[Any] = [("*" if field.pointer else "") + expression, field.number]
    return [*entry, more] if more else entry


def type_entry(package: str, name: str) -> Json:
    prefix, proto_package, _ = go_package(package)
    schema = openapi().get(f"{prefix}.{name}", {})
    described = schema.get("properties", {})
    wires = messages(package).get(f"{proto_package}.{name}", {})
    entry: Json = {"fields": {}}
    inline: list[list[Any]] = []
    for field in go(package).structs[name]:
        if not field.inline:
            entry["fields"][field.name] = field_entry(
                field, wires.get(field.number), package, described.get(field.name, {})
            )
        elif field.base.rpartition(".")[2] == "TypeMeta":
            entry["fields"].update(_TYPE_META)
        elif field.number:
            inline.append([type_name(wires[field.number].type, package), field.number])
    if inline:
        entry["inline"] = inline
    known = set(entry["fields"]) | {inner for kind, _ in inline for inner in all_fields(package, kind)}
    assert not schema or known == set(described), (package, name, known ^ set(described))
    required = [field for field in schema.get("required", []) if field in entry["fields"]]
    if required:
        entry["required"] = required
    if "x-kubernetes-map-type" in schema:
        entry["map"] = schema["x-kubernetes-map-type"]
    return entry


def all_fields(package: str, reference: str) -> Iterator[str]:
    home, _, name = reference.rpartition(".")
    entry = type_entry(home or package, name)
    yield from entry["fields"]
    for kind, _ in entry.get("inline", ()):
        yield from all_fields(home or package, kind)


def references(entry: Json, package: str) -> Iterator[tuple[str, str]]:
    special = {*_SPECIAL.values(), "StringList", "string", "bytes", "bool", "int32", "int64", "double"}
    for expression in [
        *(field[0] for field in entry["fields"].values()),
        *(kind for kind, _ in entry.get("inline", ())),
    ]:
        name = re.sub(r"^(?:\*|\[\]|\{\})+", "", expression)
        if name.startswith("Schema"):
            yield package, "JSONSchemaProps"
        if name not in special:
            home, _, local = name.rpartition(".")
            yield home or package, local


def group_versions() -> Iterator[tuple[str, str, Json]]:
    yield "", "v1", discovery("api__v1")
    for group in discovery("apis")["groups"]:
        for served in group["versions"]:
            if _GENERAL.match(served["version"]):
                name = f"apis__{group['name']}__{served['version']}"
                yield group["name"], served["version"], discovery(name)


def go_folder(group: str) -> str:
    return {"": "core", "internal.apiserver.k8s.io": "apiserverinternal"}.get(group, group.split(".")[0])


def kinds() -> Iterator[Json]:
    for group, version, listed in group_versions():
        found: dict[str, Json] = {}
        for resource in listed["resources"]:
            plural, _, subresource = resource["name"].partition("/")
            verbs = resource["verbs"]
            if subresource:
                home = {key: resource[key] for key in ("group", "version") if key in resource}
                inner = {"name": subresource, "kind": resource["kind"], **home, "verbs": verbs}
                found[plural].setdefault("subresources", []).append(inner)
                continue
            kind: Json = {"group": group, "version": version, "plural": plural, "kind": resource["kind"]}
            kind["singular"] = resource["singularName"]
            kind["namespaced"] = resource["namespaced"]
            kind["verbs"] = verbs
            for ours in ("shortNames", "categories"):
                if resource.get(ours):
                    kind[ours] = resource[ours]
            found[plural] = kind
        yield from found.values()


def tables() -> dict[str, Json]:
    listed = list(kinds())
    packages = {
        f"{kind['group']}/{kind['version']}".lstrip("/"): f"{go_folder(kind['group'])}/{kind['version']}"
        for kind in listed
    }
    wanted: list[tuple[str, str]] = [(_META, name) for name in _META_ROOTS]
    for kind in listed:
        home = f"{kind['group']}/{kind['version']}".lstrip("/")
        wanted.append((packages[home], kind["kind"]))
        for inner in kind.get("subresources", ()):
            other = f"{inner.get('group', kind['group'])}/{inner.get('version', kind['version'])}".lstrip("/")
            if other in packages and f"{go_package(packages[other])[0]}.{inner['kind']}" in openapi():
                wanted.append((packages[other], inner["kind"]))
    types: dict[str, dict[str, Json]] = {}
    while wanted:
        package, name = wanted.pop()
        if name not in types.setdefault(package, {}):
            entry = types[package][name] = type_entry(package, name)
            wanted.extend(references(entry, package))
    made: dict[str, Json] = {"kinds.json": {"packages": packages, "kinds": listed}}
    for package, entries in types.items():
        prefix = go_package(package)[0]
        made[package.replace("/", "-") + ".json"] = {"prefix": prefix, "types": dict(sorted(entries.items()))}
    return made
