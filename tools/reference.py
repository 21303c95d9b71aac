"""Makes the reference pages and the annotated example of the platform file from the models: `make reference`.

    tools/reference.py            writes docs/reference/*.md and examples/platform.yaml
    tools/reference.py --check    writes nothing; fails where a file is not what the models say

The models are the only source, so a page cannot promise what the code does not do.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from steelyard.api import crd, workloadcluster
from steelyard.api.model import ApiModel, Kind
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Environment, Platform
from steelyard.settings.model import ENVIRONMENT_NAMES, SettingsModel

ROOT = Path(__file__).parent.parent
_WIDTH = 118
_GENERATED = "<!-- Made by tools/reference.py from the models: change those, then `make reference`. -->"


def platform_example() -> str:
    lines = [
        "# The platform file, with every setting at its default: keep what you change, leave out the rest.",
        "# Steelyard reads ./platform.yaml, or the file that --platform or STEELYARD_PLATFORM names.",
        "# Made by tools/reference.py from the models.",
        "",
    ]
    lines += _example_section(Platform(), 0, described=True)
    return "\n".join(lines).rstrip() + "\n"


def _example_section(section: SettingsModel, depth: int, *, described: bool) -> Iterator[str]:
    indent = "  " * depth
    for name, field in type(section).model_fields.items():
        value: Any = getattr(section, name)
        if described and field.description:
            yield from textwrap.wrap(
                field.description,
                _WIDTH - len(indent) - 2,
                initial_indent=f"{indent}# ",
                subsequent_indent=f"{indent}# ",
            )
        key = field.alias or name
        if isinstance(value, SettingsModel):
            yield f"{indent}{key}:"
            # Six environments share their fields, ten integrations theirs: explained once, at the first.
            is_first = next(iter(type(section).model_fields)) == name
            yield from _example_section(value, depth + 1, described=depth == 0 or is_first)
        elif value is None:
            yield f"{indent}# {key}:"
        else:
            yield f"{indent}{key}: {_scalar(value)}"
        if depth == 0:
            yield ""


def _scalar(value: Any) -> str:
    return yaml.safe_dump(value).removesuffix("...\n").strip()


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
        if not isinstance(section, SettingsModel):
            continue
        key = field.alias or name
        parts += [f"## `{key}`", _prose(type(section))]
        if name == "environments":
            parts += [_environment_fields(), "### Defaults", _matrix(platform)]
        elif name == "integrations":
            parts += [
                "Each has one setting, `enabled` (default `false`). An integration that is not enabled is neither "
                "composed nor waited for.",
                _integrations_table(platform),
            ]
        else:
            parts.append(_settings_table(section))
    return "\n\n".join(parts) + "\n"


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
        for environment in ENVIRONMENT_NAMES:
            value: Any = getattr(platform.environments.named(environment), name)
            values.append(platform.ingress_domain(environment) if name == "ingress_domain" else _scalar(value))
        rows.append((f"`{field.alias or name}`", *values))
    return _table(("", *ENVIRONMENT_NAMES), rows)


def _integrations_table(platform: Platform) -> str:
    fields = type(platform.integrations).model_fields
    return _table(
        ("Key", "What for"), [(f"`{field.alias or name}`", field.description or "") for name, field in fields.items()]
    )


def _default(value: Any) -> str:
    return "see below" if isinstance(value, SettingsModel) else f"`{_scalar(value)}`"


def _allowed(model: type[SettingsModel], key: str) -> str:
    schema = objects.mapping(objects.at(model.model_json_schema(by_alias=True), "properties", key))
    options = [
        each for each in map(objects.mapping, objects.sequence(schema.get("anyOf"))) if each.get("type") != "null"
    ]
    return _bounds(options[0] if options else schema)


def workload_cluster_page() -> str:
    kind = workloadcluster.kind("<domain>")
    schema = crd.object_schema(kind)
    parts = [
        _GENERATED,
        f"# {kind.resource.kind}",
        kind.description,
        _names_table(kind),
        "`<domain>` is the platform file's `domain`, `steelyard.dev` unless it says otherwise.",
        "```yaml\n" + _example_claim() + "```",
        f"The name may have up to {workloadcluster.NAME_MAX} characters: `<name>-control-plane` must fit into a label.",
        "## Spec",
        _prose(kind.spec),
        _fields_table(objects.mapping(objects.at(schema, "properties", "spec")), "spec"),
        "## Status",
        _fields_table(objects.mapping(objects.at(schema, "properties", "status")), "status"),
        "## Conditions",
        _table(
            ("Type", "Status", "Reason", "Meaning"),
            [
                ("`Synced`", "True", "`ReconcileSuccess`", "Everything composed has been applied."),
                ("`Synced`", "False", "`ReconcileError`", "The API refused something; the message says what to do."),
                ("`Synced`", "False", "`ReconcilePaused`", "An annotation pauses the claim."),
                (
                    "`Synced`",
                    "False",
                    "`InfrastructureNotAvailable`",
                    "This version cannot compose that infrastructure.",
                ),
                ("`Synced`", "False", "`UnknownCompositionRevision`", "The claim was made by another version."),
                ("`Synced`", "False", "`InvalidClaim`", "The claim cannot be read."),
                ("`Ready`", "True", "`Available`", "The cluster is as asked for and can be used."),
                ("`Ready`", "True", "`Scaling`", "It can be used while machines come or go."),
                ("`Ready`", "True", "`Updating`", "It can be used while its machines are replaced one by one."),
                ("`Ready`", "False", "`Creating`", "The cluster is being made; the message says what is waited for."),
                (
                    "`Ready`",
                    "False",
                    "`Degraded`",
                    "A Node, a machine or the API was lost; the message names it, with its time.",
                ),
                ("`Ready`", "False", "`Recovering`", "What was lost is being replaced."),
                ("`Ready`", "False", "`Deleting`", "The claim is being deleted; the message says what is left."),
                ("`UpToDate`", "True", "`AsAskedFor`", "The cluster is exactly what the claim asks for."),
                ("`UpToDate`", "False", "", "It is not, or not yet; the reason is that of `Ready`."),
                (
                    "`UpToDate`",
                    "False",
                    "`VersionHeldBack`",
                    "The environment's Kubernetes version cannot be reached in one step.",
                ),
                (
                    "`Integrated`",
                    "False",
                    "`IntegrationNotAvailable`",
                    "The platform file enables what this version lacks.",
                ),
            ],
        ),
        "## Pausing",
        'A claim with the annotation `crossplane.io/paused: "true"`, or `cluster.x-k8s.io/paused`, is left alone, its '
        "deletion included, until the annotation is taken off.",
        "## What belongs to a claim",
        "Every object made for a claim carries the labels `steelyard.dev/claim-kind`, `steelyard.dev/claim-namespace` "
        "and `steelyard.dev/claim-name`, and the annotation `steelyard.dev/resource-name`. An object of the same name "
        "without these labels is never changed or deleted; the claim then reports it. On deletion the connection "
        "Secret goes first, then the Cluster with its machines, then templates.",
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


def _example_claim() -> str:
    claim: Object = {
        "apiVersion": workloadcluster.kind(Platform().domain).resource.api_version,
        "kind": "WorkloadCluster",
        "metadata": {"name": "dev-cluster", "namespace": "team-a"},
        "spec": {
            "parameters": {"environment": "dev", "workerReplicas": 4},
            "writeConnectionSecretToRef": {"name": "dev-cluster-kubeconfig", "namespace": "argocd"},
        },
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


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/platform.md": platform_page,
    "docs/reference/workloadcluster.md": workload_cluster_page,
    "examples/platform.yaml": platform_example,
}


def main(arguments: list[str]) -> int:
    stale: list[str] = []
    for name, make in PAGES.items():
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
