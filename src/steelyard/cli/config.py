"""The verb `config`: which value is used for each setting, and where it comes from.

A claim says little, and the rest comes from its environment, from the platform file, or from what is built in. Whoever
wonders why a cluster has 32 GiB finds out here. A claim in a file needs no platform that runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from steelyard.cli import completing, documents, offered, output, session, targets
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.output import Format
from steelyard.cli.platform import PlatformOption, settings_of
from steelyard.cli.reach import Given
from steelyard.cli.session import NamespaceOption, OutputOption, Session
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.composed import NOTHING
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Environment, Platform
from steelyard.settings.model import MATRIX, SettingsModel

CLAIM: Final = "claim"
FILE: Final = "platform file"
BUILT_IN: Final = "built-in"


@frozen
class Setting:
    field: str
    value: Any
    origin: str

    def to_json(self) -> Object:
        return {"field": self.field, "value": self.value, "from": self.origin}


def config(
    given: Given,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KIND] [NAME]", help="A claim. Default: the platform's settings.", autocompletion=completing.claims
        ),
    ] = None,
    file: Annotated[
        str,
        typer.Option("--filename", "-f", metavar="FILE", help="A claim in a file, or - for standard input."),
    ] = "",
    namespace: NamespaceOption = "",
    format_: OutputOption = Format.TABLE,
    platform_file: PlatformOption = None,
) -> None:
    """Print the value that is used for each setting, and where it comes from: claim, environment, platform file or
    built-in.

    Of a claim in a file, of a claim that is there, or, without either, of the platform itself. The platform file is the
    one at hand or that of the last start, as for `up`.

    Example: steelyard config -f examples/shop.yaml
    """
    if words and file:
        session.guarded(_refuse_both)
    platform = session.guarded(lambda: _platform(given, platform_file))
    if file:
        for name, settings in session.guarded(lambda: _of_file(file, platform)).items():
            _show(name, settings, format_)
    elif words:
        target = session.guarded(lambda: targets.parse(words))

        async def command(here: Session) -> None:
            found = await targets.find(here, target, here.namespace(namespace))
            _show(str(found), of_claim(found.obj, platform), format_)

        session.run(given, command)
    else:
        _show("", list(of_platform(platform)), format_)


def _refuse_both() -> None:
    raise CommandError("name a claim or give a file with -f, not both", code=Exit.USAGE)


def _platform(given: Given, platform_file: Path | None) -> Platform:
    return settings_of(session.locate(given.data_dir), platform_file).platform


def _show(name: str, settings: Sequence[Setting], format_: Format) -> None:
    match format_:
        case Format.JSON:
            output.result(output.as_json([each.to_json() for each in settings]))
        case Format.YAML:
            output.result(output.as_yaml([each.to_json() for each in settings]))
        case Format.NAME:
            output.result("\n".join(each.field for each in settings))
        case _:
            if name:
                output.note(name)
            rows = [(each.field, _text(each.value), each.origin) for each in settings]
            output.result("\n".join(output.aligned([("FIELD", "VALUE", "FROM"), *rows], width=output.columns())))


def _text(value: Any) -> str:
    """As a manifest writes it, on one line."""
    if value is None or isinstance(value, str):
        return value or "unset"
    return output.as_json(value).replace("\n", "") if isinstance(value, dict | list) else str(value).lower()


def _of_file(file: str, platform: Platform) -> dict[str, Sequence[Setting]]:
    from steelyard.compose import checking  # here, as no other command needs to evaluate rules

    found: dict[str, Sequence[Setting]] = {}
    complaints: list[str] = []
    for document in documents.read([file]):
        kind = offered.current().kind_of(document.obj)
        if kind is None:
            complaints.append(f"{document.origin}: {document} is no claim; config is about claims")
            continue
        problems = checking.of(kind, platform, offered.current())(document.obj)
        complaints += [f"{document.origin}: {document}: {problem}" for problem in problems]
        if not problems:
            found[str(document)] = of_claim(document.obj, platform)
    if complaints:
        raise CommandError("\n".join(complaints))
    return found


def of_claim(claim: Object, platform: Platform) -> Sequence[Setting]:
    """Raises CommandError where the claim cannot be composed with these settings."""
    kind = offered.current().kind_of(claim)
    if kind is None:
        raise CommandError(f"{claim.get('kind')} {objects.qualified_name(claim)} is no claim of this platform")
    composed = kind.compose(claim, NOTHING, platform)
    if composed.refusal is not None:
        raise CommandError(composed.refusal.message)
    asked = objects.mapping(objects.at(claim, "spec", "parameters"))
    used = objects.mapping(composed.status.get("parameters")) or asked
    return [
        Setting(f"spec.parameters.{field}", value, _origin(kind, field, value, asked, platform))
        for field, value in used.items()
    ]


def _origin(kind: ClaimKind, field: str, value: Any, asked: Mapping[str, Any], platform: Platform) -> str:
    if asked.get(field) is not None:
        written = asked[field]
        is_another_word = field == "environment" and written != value
        return f"{CLAIM}, as {written}" if is_another_word else CLAIM
    theirs = kind.of_environment.get(field) or _fields(Environment).get(field)
    if theirs and "environment" in kind.parameters.model_fields:
        return _of_environment(str(asked.get("environment") or ""), theirs, value, platform)
    if field in _fields(Platform):
        name = _fields(Platform)[field]
        return BUILT_IN if getattr(platform, name) == getattr(Platform(), name) else FILE
    return "composition"


def _of_environment(name: str, field: str, value: Any, platform: Platform) -> str:
    environment = platform.environment(name)
    canonical = platform.environment_name(name)
    if environment is None:
        return "composition"
    ours: Any = getattr(environment, field)
    if str(ours).removeprefix("v") != str(value).removeprefix("v").removesuffix("Gi"):
        return f"what runs; environment {canonical} says {ours}"
    base = canonical if canonical in platform.environments else str(platform.previews.like)
    is_built_in = base in MATRIX and getattr(MATRIX[base], field) == ours
    return f"environment {base}, {BUILT_IN if is_built_in else FILE}"


def _fields(model: type[SettingsModel]) -> dict[str, str]:
    """Names of fields, by how they are written."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


def of_platform(platform: Platform) -> Iterator[Setting]:
    """Every setting of the platform file. A value that is the built-in one counts as that, whoever wrote it."""
    built_in = dict(_leaves(Platform().model_dump(mode="json", by_alias=True), ""))
    for field, value in _leaves(platform.model_dump(mode="json", by_alias=True), ""):
        is_built_in = field in built_in and built_in[field] == value
        yield Setting(field, value, BUILT_IN if is_built_in else FILE)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict) or not value:
        yield path, value
        return
    for key, each in cast("dict[str, Any]", value).items():
        yield from _leaves(each, f"{path}.{key}" if path else key)
