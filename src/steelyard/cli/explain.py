"""The verb `explain`: every field of a kind of claim, in words, from the models. No platform needs to run.

Unlike kubectl's, it says of a field that is left out where its value comes from, and it shows everything below the
field that is asked for: people want to know what they can write, and a claim is short.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer

from steelyard.api import crd
from steelyard.cli import offered, output, session
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.platform import PlatformOption, settings_of
from steelyard.cli.reach import DataDirOption
from steelyard.compose.claimkind import ClaimKind
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Environment, Platform

_WIDTH: Final = 100
_PARAMETERS: Final = ("spec", "parameters")


def explained(incomplete: str) -> list[str]:
    """For the shell: kinds, then the fields below what is there already."""
    if "." not in incomplete:
        return [each.noun for each in offered.current().kinds if each.noun.startswith(incomplete)]
    name, _, path = incomplete.partition(".")
    kind = _find(name)
    place, _, begun = path.rpartition(".")
    node = _at(crd.object_schema(kind.definition("")), place) if kind is not None else None
    start = f"{name}.{place}." if place else f"{name}."
    return [f"{start}{each}" for each in _properties(node or {}) if each.startswith(begun)]


def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="KIND[.FIELD]", help="A kind of claim, and one of its fields.", autocompletion=explained
        ),
    ],
    platform_file: PlatformOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Say what a claim can hold: each field with its type, its bounds, what it is for and what it is if left out.

    A kind goes by any of its names, a field by its path or, within the parameters, by its name alone. Without a field,
    all of the spec is shown; KIND.status shows what is reported. No platform needs to run.

    Example: steelyard explain cluster.workerReplicas
    """

    def command() -> None:
        platform = settings_of(session.locate(data_dir), platform_file).platform
        output.result("\n".join(_page(what, platform)))

    session.guarded(command)


@frozen
class _Field:
    path: tuple[str, ...]
    """`("spec", "nodePools[]", "name")`"""
    schema: Object
    is_required: bool

    @property
    def is_parameter(self) -> bool:
        return self.path[:2] == _PARAMETERS and len(self.path) == 3

    @property
    def is_of_status(self) -> bool:
        return self.path[0] == "status"


def _page(what: str, platform: Platform) -> Iterator[str]:
    name, _, rest = what.partition(".")
    kind = _find(name)
    if kind is None:
        raise CommandError(_no_such_kind(name), code=Exit.USAGE)
    definition = kind.definition(platform.domain)
    schema = crd.object_schema(definition)
    field = _asked(schema, rest)
    resource = definition.resource
    short = f", in short {', '.join(definition.short_names)}" if definition.short_names else ""
    yield f"{resource.kind} of {resource.api_version} ({kind.noun}, {resource.plural}{short})"
    yield ""
    if field is None:
        yield from _filled(definition.description, "")
        yield ""
        root = _Field(("spec",), objects.mapping(_properties(schema)["spec"]), is_required=True)
        yield from _below(root, kind, platform)
        yield f"What is reported: steelyard explain {kind.noun}.status"
        return
    yield from _told(field, kind, platform)
    yield from _below(field, kind, platform)


def _below(field: _Field, kind: ClaimKind, platform: Platform) -> Iterator[str]:
    for each in _children(field):
        yield from _told(each, kind, platform)
        yield from _below(each, kind, platform)


def _children(field: _Field) -> Iterator[_Field]:
    schema, path = field.schema, field.path
    if schema.get("type") == "array":
        schema = objects.mapping(schema.get("items"))
        path = (*path[:-1], f"{path[-1]}[]")
    required = objects.sequence(schema.get("required"))
    for name, node in _properties(schema).items():
        yield _Field((*path, name), objects.mapping(node), is_required=name in required)


def _told(field: _Field, kind: ClaimKind, platform: Platform) -> Iterator[str]:
    facts = [_type(field.schema), *_bounds(field.schema)]
    if not field.is_of_status:
        facts.append("required" if field.is_required else _if_left_out(field, kind, platform))
    yield f"{'.'.join(field.path)}  <{'; '.join(filter(None, facts))}>"
    if field.schema.get("description"):
        yield from _filled(str(field.schema["description"]), "    ")
    yield ""


def _if_left_out(field: _Field, kind: ClaimKind, platform: Platform) -> str:
    """What holds for a field that a claim leaves out."""
    if field.schema.get("default") is not None:
        return f"default {field.schema['default']}"
    name = field.path[-1]
    is_of_environment = name in kind.of_environment or name in _names(Environment)
    if field.is_parameter and "environment" in kind.parameters.model_fields and is_of_environment:
        return "default from the environment"
    if field.is_parameter and name in _names(Platform):
        value = getattr(platform, _names(Platform)[name])
        return f"default from the platform file: {value}"
    return ""


def _names(model: type[Environment] | type[Platform]) -> dict[str, str]:
    """Names of fields, by how they are written."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


def _type(schema: Object) -> str:
    if schema.get("type") == "array":
        return f"list of {_type(objects.mapping(schema.get('items')))}s"
    if schema.get("type") == "object" and schema.get("additionalProperties"):
        return f"map of {_type(objects.mapping(schema['additionalProperties']))}s"
    return str(schema.get("type") or "any")


def _bounds(schema: Object) -> Iterator[str]:
    if schema.get("enum"):
        yield f"one of {', '.join(map(str, schema['enum']))}"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        yield f"{low} to {high}"
    elif low is not None:
        yield f"at least {low}"
    elif high is not None:
        yield f"at most {high}"
    if schema.get("maxLength") is not None:
        yield f"at most {schema['maxLength']} characters"
    if schema.get("maxItems") is not None:
        yield f"at most {schema['maxItems']} of them"
    if schema.get("pattern"):
        yield f"matches {schema['pattern']}"


def _filled(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, min(output.columns() or _WIDTH, _WIDTH), initial_indent=indent, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _find(name: str) -> ClaimKind | None:
    """By its noun, or by any name that kubectl would take."""
    return next((kind for kind in offered.current().kinds if name.lower() in _names_of(kind)), None)


def _names_of(kind: ClaimKind) -> Sequence[str]:
    definition = kind.definition("")
    resource = definition.resource
    return (kind.noun, kind.nouns, definition.singular, resource.plural, resource.kind.lower(), *definition.short_names)


def _no_such_kind(name: str) -> str:
    kinds = offered.current().kinds
    close = difflib.get_close_matches(name.lower(), [each for kind in kinds for each in _names_of(kind)], n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(kind.noun for kind in kinds)}"
    return f'there is no kind of claim "{name}"{hint}'


def _asked(schema: Object, path: str) -> _Field | None:
    """The field at a path; one of the parameters by its name alone, too. None for the whole object."""
    if not path:
        return None
    for start in ("", "spec.parameters.", "spec."):
        field = _field(schema, f"{start}{path}")
        if field is not None:
            return field
    known = list(_properties(_at(schema, ".".join(_PARAMETERS)) or {}))
    place, _, last = path.rpartition(".")
    beside = list(_properties(_at(schema, place) or {})) if place else ["spec", "status", *known]
    close = difflib.get_close_matches(last, beside, n=1)
    start = f"{place}." if place else ""
    hint = f"; did you mean {start}{close[0]}?" if close else f"; there are: {', '.join(beside or known)}"
    raise CommandError(f'there is no field "{path}"{hint}', code=Exit.USAGE)


def _field(schema: Object, path: str) -> _Field | None:
    node, walked, is_required = schema, list[str](), True
    for step in path.split("."):
        step = step.removesuffix("[]")
        if node.get("type") == "array":
            node = objects.mapping(node.get("items"))
            walked[-1] += "[]"
        if step not in _properties(node):
            return None
        is_required = step in objects.sequence(node.get("required"))
        node = objects.mapping(_properties(node)[step])
        walked.append(step)
    return _Field(tuple(walked), node, is_required)


def _at(schema: Object, path: str) -> Object | None:
    if not path:
        return schema
    field = _field(schema, path) or _field(schema, f"spec.parameters.{path}")
    if field is None:
        return None
    return objects.mapping(field.schema.get("items")) if field.schema.get("type") == "array" else field.schema


def _properties(schema: Object) -> Object:
    return objects.mapping(schema.get("properties"))
