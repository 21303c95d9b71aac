"""The verb `create`: one command per claim kind that is offered, with a flag for each of its parameters."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from steelyard.api.model import ApiModel
from steelyard.cli import completing, goals, mistakes, output, reach, session, targets, waiting
from steelyard.cli.dryrun import DryRun, DryRunOption, WithBareDryRun
from steelyard.cli.exits import CommandError
from steelyard.cli.output import Format
from steelyard.cli.reach import ContextOption, DataDirOption, Given, KubeconfigOption
from steelyard.cli.session import OutputOption, Session
from steelyard.cli.targets import Found
from steelyard.cli.waiting import TimeoutOption
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.offering import STANDARD, Offering
from steelyard.kube import errors, objects, plainyaml
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, Resource

DEFAULT_NAMESPACE = "default"

_NamespaceOption = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="The claim's namespace; made if it is not there. Default: that of the kubeconfig's context, else default.",
        show_default=False,
        autocompletion=completing.namespaces,
    ),
]
_FIXED: tuple[tuple[str, Any, Any], ...] = (
    ("namespace", _NamespaceOption, ""),
    ("wait", Annotated[bool, typer.Option("--wait", help="Wait until it is ready, and show how it is going.")], False),
    ("timeout", TimeoutOption, "5m"),
    ("dry_run", DryRunOption, DryRun.NONE),
    ("format_", OutputOption, Format.TABLE),
    ("data_dir", DataDirOption, None),
    ("kubeconfig", KubeconfigOption, None),
    ("context", ContextOption, ""),
)


def commands(offering: Offering | None) -> typer.Typer:
    """`create cluster` and so on; None for the kinds of this version."""
    made = typer.Typer(no_args_is_help=True, help="Create a claim.")
    for kind in (offering or STANDARD).kinds:
        made.command(kind.noun, cls=WithBareDryRun)(_command(kind))
    return made


def _command(kind: ClaimKind) -> Callable[..., None]:
    fields = kind.parameters.model_fields

    def create(
        name: str,
        namespace: str,
        wait: bool,
        timeout: str,
        dry_run: DryRun,
        format_: Format,
        data_dir: Path | None,
        kubeconfig: Path | None,
        context: str,
        **flags: str | None,
    ) -> None:
        parameters = {
            fields[key].alias or key: _value(fields[key], text) for key, text in flags.items() if text is not None
        }
        deadline = session.guarded(lambda: waiting.seconds(timeout))

        async def command(here: Session) -> None:
            entry = await targets.of_kind(here.client, kind)
            place = here.namespace(namespace) or DEFAULT_NAMESPACE
            claim = _claim(entry.resource, name, place, parameters)
            created = await _created(here.client, entry.resource, claim, dry_run)
            output.object_(claim if dry_run is not DryRun.NONE else created, format_, done=dry_run.word("created"))
            if wait and dry_run is DryRun.NONE:
                await waiting.until(here, Found(entry, created), goals.READY, deadline)

        session.run(Given(data_dir, kubeconfig, context), command)

    return reach.shaped(create, _parameters(kind), name=f"create_{kind.noun}", help=_help(kind))


def _help(kind: ClaimKind) -> str:
    definition = kind.definition("steelyard.dev")
    required = [name for name, field in kind.parameters.model_fields.items() if field.is_required()]
    flags = "".join(f" {_flag(name)} {_example(kind.parameters.model_fields[name])}" for name in required)
    return (
        f"Create a {definition.resource.kind}. {definition.description}\n\n"
        "What is wrong with it is told all at once. `-o yaml --dry-run` prints it as one would keep it in Git.\n\n"
        f"Example: steelyard create {kind.noun} shop{flags} --wait"
    )


def _example(field: FieldInfo) -> str:
    choices = _choices(field)
    return choices[0] if choices else "dev" if "environment" in str(field.alias or "") else "1"


def _claim(resource: Resource, name: str, namespace: str, parameters: Mapping[str, Any]) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"parameters": dict(parameters)},
    }


async def _created(client: Client, resource: Resource, claim: Object, dry_run: DryRun) -> Object:
    """Raises CommandError with everything that is wrong with the claim."""
    if dry_run is DryRun.CLIENT:
        return claim
    try:
        try:
            return await client.create(resource, claim, dry_run=dry_run is DryRun.SERVER)
        except errors.NotFound:
            return await _create_with_namespace(client, resource, claim, is_dry=dry_run is DryRun.SERVER)
    except (errors.BadRequest, errors.Invalid) as refused:
        found = await mistakes.of(client, resource, claim, refused)
        what = f"{resource.kind} {objects.qualified_name(claim)}"
        raise CommandError(mistakes.told(what, found), is_of_server=True) from None


async def _create_with_namespace(client: Client, resource: Resource, claim: Object, *, is_dry: bool) -> Object:
    """Creates the claim's namespace first, once it is known that the claim itself is accepted.

    A server looks for the namespace before it looks at the claim, so the claim is tried in a namespace that exists.
    """
    namespace = objects.namespace(claim)
    elsewhere = {**claim, "metadata": {**objects.metadata(claim), "namespace": DEFAULT_NAMESPACE}}
    with contextlib.suppress(errors.AlreadyExists, errors.Forbidden):
        await client.create(resource, elsewhere, dry_run=True)
    if is_dry:
        output.note(f"namespace {namespace} would be created")
        return claim
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        output.note(f"namespace {namespace} created")
    return await client.create(resource, claim)


def _parameters(kind: ClaimKind) -> list[inspect.Parameter]:
    """Those that every kind has, and one flag for each field of the model: a new field needs no edit here."""
    name = Annotated[str, typer.Argument(metavar="NAME", help=f"The {kind.noun}'s name.")]
    made = [inspect.Parameter("name", inspect.Parameter.KEYWORD_ONLY, annotation=name)]
    made += [_option(name, field) for name, field in kind.parameters.model_fields.items()]
    made += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in _FIXED
    ]
    return made


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    """Name, help and values come from the model. Any text passes: the API judges all of them together."""
    choices = _choices(field)
    option: Any = typer.Option(
        _flag(name),
        metavar=_metavar(field),
        help=field.description,
        show_default=False,
        autocompletion=completing.environments if name == "environment" else _completion(choices),
    )
    is_required = field.is_required()
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=... if is_required else None,
        annotation=Annotated[str if is_required else str | None, option],
    )


def _metavar(field: FieldInfo) -> str:
    items = _items(field)
    if items is not None:
        return "LIST" if _is_text(items) else "YAML"
    if _is_object(_type(field)):
        return "YAML"
    return "|".join(_choices(field)) or ("TEXT" if _is_text(_type(field)) else "NUMBER")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _completion(choices: tuple[str, ...]) -> Callable[[str], list[str]] | None:
    return (lambda incomplete: [each for each in choices if each.startswith(incomplete)]) if choices else None


def _value(field: FieldInfo, text: str) -> Any:
    """A number, or yes or no, where the model wants one and the text is one; else the text, for the API to refuse with
    the rest. A list of words has commas between them, a list of anything else is YAML: `[{name: gpu, replicas: 2}]`; so
    is an object: `{dnsServers: [10.0.0.53]}`."""
    items = _items(field)
    if items is not None:
        return [each.strip() for each in text.split(",") if each.strip()] if _is_text(items) else _yaml(text)
    if _is_object(_type(field)):
        return _yaml(text)
    if _type(field) is bool:
        return {"true": True, "false": False}.get(text, text)
    is_number = text.removeprefix("-").isdecimal()
    return int(text) if is_number and not _is_text(_type(field)) else text


def _type(field: FieldInfo) -> Any:
    return field.annotation if field.is_required() else get_args(field.annotation)[0]


def _items(field: FieldInfo) -> Any:
    """What a list is of; None where the field is no list."""
    value_type = _type(field)
    if get_origin(value_type) is Annotated:
        value_type = get_args(value_type)[0]
    return get_args(value_type)[0] if get_origin(value_type) is list else None


def _yaml(text: str) -> Any:
    try:
        return plainyaml.load(text.encode())
    except plainyaml.Unreadable:
        return text


def _choices(field: FieldInfo) -> tuple[str, ...]:
    if _type(field) is bool:
        return ("true", "false")
    return tuple(map(str, get_args(_type(field)))) if get_origin(_type(field)) is Literal else ()


def _is_object(value_type: Any) -> bool:
    return isinstance(value_type, type) and issubclass(value_type, ApiModel)


def _is_text(value_type: Any) -> bool:
    if get_origin(value_type) is Literal:
        return isinstance(get_args(value_type)[0], str)
    return value_type is str or (get_origin(value_type) is Annotated and get_args(value_type)[0] is str)
