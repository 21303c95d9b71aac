"""Makes from the models the reference pages, the annotated example of the platform file, the table of schemas and
that of what a platform begins with.

    python -m tools.reference            writes docs/reference/*.md, examples/platform.yaml and, in src/steelyard,
                                         api/schemas.txt and founding.txt
    python -m tools.reference --check    writes nothing; fails where a file is not what the models say

The models are the only source, so a page cannot promise what the code does not do.
"""

from __future__ import annotations

import functools
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic.fields import FieldInfo

from steelyard.api import crd, databases, redisserver, schemas, secretdelivery, vaultentries
from steelyard.api.model import ApiModel, Kind
from steelyard.compose import offering
from steelyard.compose.claimkind import ClaimKind, Reported
from steelyard.compose.offering import Offering
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Environment, Platform
from steelyard.settings.base import SettingsModel
from steelyard.settings.catalogue import Catalogue, Offered
from steelyard.settings.integrations import Integration
from tools import founding_table

ROOT = Path(__file__).parent.parent
_WIDTH = 118
_CONDITIONS = (
    Reported("Synced", "True", "ReconcileSuccess", "Everything composed has been applied."),
    Reported("Synced", "False", "ReconcileError", "The API refused something; the message says what to do."),
    Reported("Synced", "False", "ReconcilePaused", "An annotation pauses the claim."),
    Reported("Synced", "False", "ConnectionSecretForbidden", "The Secret may not be written where it was asked for."),
    Reported(
        "Synced",
        "False",
        "Drifted",
        "Something was changed by hand, and putting it back would replace machines; the message says how to agree.",
    ),
    Reported("Synced", "False", "UnknownCompositionRevision", "This version does not have that composition revision."),
    Reported("Synced", "False", "CompositionRevisionCannotGoBack", "The claim asks for an older revision than it has."),
    Reported("Synced", "False", "InvalidClaim", "The claim cannot be read."),
    Reported("Ready", "False", "Deleting", "The claim is being deleted; the message says what is left."),
)
"""Those that every kind of claim has."""
_OWN_ENVIRONMENT = """```yaml
environments:
  load-test: {like: staging, workerReplicas: 20}
  sandbox: {enabled: false}
```"""
_GENERATED = "<!-- Made by tools/reference.py from the models: change those, then `make reference`. -->"


def platform_example() -> str:
    lines = [
        "# The platform file, with every setting at its default: keep what you change, leave out the rest.",
        "# Steelyard reads ./platform.yaml, or the file that --platform or STEELYARD_PLATFORM names.",
        "# Made by tools/reference.py from the models.",
        "",
    ]
    lines += _example_section(Platform(), 0, set(), described=True)
    return "\n".join(lines).rstrip() + "\n"


def _example_section(
    section: SettingsModel, depth: int, told: set[tuple[type, str]], *, described: bool
) -> Iterator[str]:
    """`told` are the fields that were described, by the class that has them: what several sections share is explained
    once, at the first, unless they are `described` each."""
    indent = "  " * depth
    for name, field in type(section).model_fields.items():
        value: Any = getattr(section, name)
        declared = next(each for each in type(section).__mro__ if name in each.__annotations__)
        is_new = (declared, name) not in told
        told.add((declared, name))
        if (described or is_new) and field.description:
            yield from textwrap.wrap(
                field.description,
                _WIDTH - len(indent) - 2,
                initial_indent=f"{indent}# ",
                subsequent_indent=f"{indent}# ",
            )
        key = field.alias or name
        if isinstance(value, dict) and value:
            yield f"{indent}{key}:"
            for position, (entry, each) in enumerate(cast("dict[str, SettingsModel]", value).items()):
                yield f"{indent}  {entry}:"
                yield from _example_section(each, depth + 2, told, described=position == 0)
        elif isinstance(value, SettingsModel):
            yield f"{indent}{key}:"
            yield from _example_section(value, depth + 1, told, described=depth == 0)
        elif _has_models(value):
            yield f"{indent}{key}:"
            yield from (f"{indent}- {_scalar(each)}" for each in _plain(value))
        elif value is None:
            yield f"{indent}# {key}:"
        else:
            yield f"{indent}{key}: {_scalar(value)}"
        if depth == 0:
            yield ""


def _has_models(value: Any) -> bool:
    return isinstance(value, tuple) and any(isinstance(each, SettingsModel) for each in cast("tuple[Any, ...]", value))


def _plain(value: Any) -> Any:
    """Without models: what they have beside their defaults."""
    if not _has_models(value):
        return value
    return [each.model_dump(exclude_defaults=True) for each in cast("tuple[SettingsModel, ...]", value)]


def _scalar(value: Any) -> str:
    text = yaml.safe_dump(_plain(value), default_flow_style=True, sort_keys=False, width=10_000)
    return text.removesuffix("...\n").strip()


def platform_page() -> str:
    parts = [
        _GENERATED,
        "# The platform file",
        "`platform.yaml` says what one installation is called, what its environments are, and what it works together "
        "with. Steelyard takes the file that `--platform` names, else the one that `STEELYARD_PLATFORM` names, else "
        "`./platform.yaml`; without any of them every default below holds. A key that does not exist, a value of the "
        "wrong kind and a key that stands twice are errors, reported all at once with their lines:",
        "```\nplatform.yaml:7: unknown key environments.dev.wokerReplicas; did you mean workerReplicas?\n```",
        "[`examples/platform.yaml`](../../examples/platform.yaml) shows every setting at its default.",
    ]
    platform = Platform()
    parts.append("## Top level")
    parts.append(_settings_table(platform))
    for name, field in Platform.model_fields.items():
        section: Any = getattr(platform, name)
        key = field.alias or name
        if name == "environments":
            parts += [f"## `{key}`", field.description or "", _OWN_ENVIRONMENT]
            parts += [_environment_fields(), "### Defaults", _matrix(platform)]
            continue
        if not isinstance(section, SettingsModel):
            continue
        parts += [f"## `{key}`", _prose(type(section))]
        if name == "versions":
            parts += [_settings_table(section), *_catalogues(platform)]
        elif name == "integrations":
            parts += [
                "Each has the setting `enabled` (default `false`). An integration that is not enabled is neither "
                "composed nor waited for. [What is composed for each](../integrations.md).",
                _integrations_table(platform),
                *_within(section, key),
            ]
        else:
            parts += [_settings_table(section), *_within(section, key)]
    return "\n\n".join(parts) + "\n"


def _within(section: SettingsModel, path: str) -> Iterator[str]:
    """The sections inside a section; those that are alike in one table."""
    for name, field in type(section).model_fields.items():
        inner: Any = getattr(section, name)
        if not isinstance(inner, SettingsModel) or type(inner) is Integration:
            continue
        here = f"{path}.{field.alias or name}"
        yield from (f"### `{here}`", _prose(type(inner)))
        found: dict[str, Any] = {each.alias or key: getattr(inner, key) for key, each in _fields(inner)}
        columns = {key: each for key, each in found.items() if isinstance(each, SettingsModel)}
        if len(columns) != len(found):
            yield from (_settings_table(inner), *_within(inner, here))
            continue
        yield _table(
            ("Key", *columns, "Meaning"),
            [
                (
                    f"`{each.alias or key}`",
                    *(_default(getattr(column, key)) for column in columns.values()),
                    each.description or "",
                )
                for key, each in _fields(next(iter(columns.values())))
            ],
        )


def _fields(section: SettingsModel) -> list[tuple[str, FieldInfo]]:
    return list(type(section).model_fields.items())


def _settings_table(section: SettingsModel) -> str:
    rows = [
        (f"`{field.alias or name}`", _default(getattr(section, name)), field.description or "")
        for name, field in type(section).model_fields.items()
    ]
    return _table(("Key", "Default", "Meaning"), rows)


def _environment_fields() -> str:
    rows = [
        (f"`{field.alias or name}`", _allowed(Environment, field.alias or name), field.description or "")
        for name, field in Environment.model_fields.items()
    ]
    return _table(("Key", "Values", "Meaning"), rows)


def _matrix(platform: Platform) -> str:
    rows: list[tuple[str, ...]] = []
    for name, field in Environment.model_fields.items():
        values: list[str] = []
        for environment in platform.environments:
            value: Any = getattr(platform.environments[environment], name)
            values.append(platform.ingress_domain(environment) if name == "ingress_domain" else _scalar(value))
        if any(value != "null" for value in values):
            rows.append((f"`{field.alias or name}`", *values))
    return _table(("", *platform.environments), rows)


def _integrations_table(platform: Platform) -> str:
    fields = type(platform.integrations).model_fields
    return _table(
        ("Key", "What for"), [(f"`{field.alias or name}`", field.description or "") for name, field in fields.items()]
    )


def _catalogues(platform: Platform) -> Iterator[str]:
    yield "### `versions.infrastructures.<name>`"
    yield _settings_table(Catalogue())
    yield "### `versions.infrastructures.<name>.offered.<version>`"
    yield _settings_table(Offered())
    yield "### Defaults"
    for name, catalogue in platform.versions.infrastructures.items():
        yield f"`{name}`" + (f", from `{catalogue.image}`:" if catalogue.image else ":")
        rows = [(f"`{each}`", found.end_of_life or "", found.state) for each, found in catalogue.offered.items()]
        yield _table(("Version", "End of life", "State"), rows)


def _default(value: Any) -> str:
    is_long = isinstance(value, SettingsModel | dict) and value != {}
    return "see below" if is_long else f"`{_scalar(value)}`"


def _allowed(model: type[SettingsModel], key: str) -> str:
    schema = objects.mapping(objects.at(model.model_json_schema(by_alias=True), "properties", key))
    options = [
        each for each in map(objects.mapping, objects.sequence(schema.get("anyOf"))) if each.get("type") != "null"
    ]
    return _bounds(options[0] if options else schema)


def claim_page(kind: ClaimKind) -> str:
    definition = kind.definition("<domain>")
    schema = crd.object_schema(definition)
    guide = kind.guide
    parts = [
        _GENERATED,
        f"# {definition.resource.kind}",
        definition.description,
        _names_table(definition),
        "`<domain>` is the platform file's `domain`, `steelyard.dev` unless it says otherwise.",
        "```yaml\n" + _example_claim(kind) + "```",
        *guide.notes,
        "## Spec",
        _prose(definition.spec),
        _fields_table(objects.mapping(objects.at(schema, "properties", "spec")), "spec"),
        "## Status",
        _fields_table(objects.mapping(objects.at(schema, "properties", "status")), "status"),
        "## Conditions",
        _table(
            ("Type", "Status", "Reason", "Meaning"),
            [
                (f"`{each.type}`", each.status, f"`{each.reason}`" if each.reason else "", each.meaning)
                for each in (*_CONDITIONS, *guide.conditions)
            ],
        ),
        "## Pausing",
        'A claim with the annotation `crossplane.io/paused: "true"`, or `cluster.x-k8s.io/paused`, is left alone, its '
        "deletion included, until the annotation is taken off.",
        "## Protection",
        'A claim with the annotation `steelyard.dev/protected: "true"` cannot be deleted by anybody, nor with its '
        "namespace, until the annotation is taken off.",
        "## What belongs to a claim",
        "Every object made for a claim carries the labels `steelyard.dev/claim-kind`, `steelyard.dev/claim-namespace` "
        "and `steelyard.dev/claim-name`, and the annotation `steelyard.dev/resource-name`. An object of the same name "
        "without these labels is never changed or deleted; the claim then reports it. On deletion "
        f"{guide.deletion}.",
    ]
    return "\n\n".join(parts) + "\n"


def _names_table(kind: Kind) -> str:
    resource = kind.resource
    return _table(
        ("API version", "Kind", "Plural", "Short", "Scope"),
        [
            (
                f"`{resource.api_version}`",
                f"`{resource.kind}`",
                f"`{resource.plural}`",
                ", ".join(f"`{name}`" for name in kind.short_names),
                "namespaced" if resource.namespaced else "cluster",
            )
        ],
    )


def _example_claim(kind: ClaimKind) -> str:
    resource = kind.resource(Platform().domain)
    claim: Object = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": f"dev-{kind.noun}", "namespace": "team-a"},
        "spec": kind.guide.example,
    }
    return yaml.safe_dump(claim, sort_keys=False)


def _fields_table(schema: Object, path: str) -> str:
    return _table(("Field", "Type", "Values", "Meaning"), list(_field_rows(schema, path)))


def _field_rows(schema: Object, path: str) -> Iterator[tuple[str, ...]]:
    required = objects.sequence(schema.get("required"))
    for name, value in objects.mapping(schema.get("properties")).items():
        node = objects.mapping(value)
        here = f"{path}.{name}"
        is_list = node.get("type") == "array"
        inner = objects.mapping(node.get("items")) if is_list else node
        mark = " (required)" if name in required and not path.startswith("status") else ""
        kind = f"list of {inner.get('type')}s" if is_list else str(node.get("type"))
        yield f"`{here}`{mark}", kind, _bounds(node), str(node.get("description") or "")
        yield from _field_rows(inner, f"{here}[]" if is_list else here)


def _bounds(node: Object) -> str:
    words: list[str] = []
    if node.get("enum"):
        words.append(", ".join(f"`{value}`" for value in node["enum"]))
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None and high is not None:
        words.append(f"{low} to {high}")
    elif low is not None:
        words.append(f"{low} or more")
    if node.get("pattern") and len(str(node["pattern"])) < 40:
        words.append(f"`{node['pattern']}`")
    if node.get("type") == "boolean":
        words.append("`true`, `false`")
    return "; ".join(words)


def _prose(model: type[ApiModel] | type[SettingsModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    """Markdown takes `<domain>` outside of code for a tag, and drops it."""
    return text.replace("|", "\\|") if text.startswith("`") else text.replace("|", "\\|").replace("<", "&lt;")


def pages(offered: Offering = offering.STANDARD) -> dict[str, Callable[[], str]]:
    """What is made, by the name of the file: a page for each kind of claim, whatever they are."""
    return {
        "docs/reference/platform.md": platform_page,
        **{_page_of(kind): functools.partial(claim_page, kind) for kind in offered.kinds},
        "examples/platform.yaml": platform_example,
        "src/steelyard/api/schemas.txt": schema_table,
        "src/steelyard/founding.txt": founding_table.table,
    }


def schema_table() -> str:
    standard = offering.STANDARD
    kinds = [
        *(each.definition("") for each in standard.kinds),
        *(kind for each in standard.infrastructures for kind in each.kinds),
        *databases.KINDS,
        *(redisserver.KIND, secretdelivery.SECRET_DELIVERY, vaultentries.KIND),
    ]
    models = {model for kind in kinds for model in (kind.spec, kind.status) if model is not None}
    return schemas.text((model, crd.generated_schema(model)) for model in models)


def _page_of(kind: ClaimKind) -> str:
    return f"docs/reference/{kind.definition('').singular}.md"


def main(arguments: list[str]) -> int:
    stale: list[str] = []
    for name, make in pages().items():
        path, text = ROOT / name, make()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    if stale and "--check" in arguments:
        print(f"not what the models say: {', '.join(stale)}; run `make reference`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
