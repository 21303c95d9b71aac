"""The verbs on claims and other objects: create, get, describe, wait, delete, kubeconfig."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import inspect
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin
from urllib.parse import quote

import typer
from pydantic.fields import FieldInfo

from steelyard.api import troubles
from steelyard.api.workloadcluster import Parameters
from steelyard.cli import asking, describe, durations, output, session, targets
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.output import Format
from steelyard.cli.session import DataDirOption, NamespaceOption, OutputOption
from steelyard.kube import errors, objects
from steelyard.kube.client import kubeconfig as kubeconfigs
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, NAMESPACES, SECRETS, Resource

DEFAULT_NAMESPACE = "default"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

TargetArgument = Annotated[list[str], typer.Argument(metavar="[KIND] NAME", help="NAME, KIND/NAME or KIND NAME.")]
_NewNamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NS", help="The claim's namespace; made if it is not there.")
]
TimeoutOption = Annotated[str, typer.Option("--timeout", help="How long to wait: 90s, 5m, 1h30m.")]

create = typer.Typer(no_args_is_help=True, help="Create a claim.")


def create_cluster(
    name: str,
    namespace: str,
    wait: bool,
    timeout: str,
    dry_run: bool,
    format_: Format,
    data_dir: Path | None,
    **flags: Any,
) -> None:
    """Create a WorkloadCluster: a Kubernetes cluster of your own.

    What you leave out comes from the environment.

    Example: steelyard create cluster shop --environment dev --wait
    """
    parameters = {_alias(key): value for key, value in flags.items() if value is not None}
    deadline = session.guarded(lambda: _seconds(timeout))

    async def command(client: Client) -> None:
        resource = await targets.claim_resource(client)
        claim: Object = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"parameters": parameters},
        }
        try:
            created = await client.create(resource, claim, dry_run=dry_run)
        except errors.NotFound:
            if dry_run:
                raise
            created = await _create_with_namespace(client, resource, claim)
        _print_object(created, format_, done="would be created" if dry_run else "created")
        if wait and not dry_run:
            await _wait(client, resource, created, "Ready", deadline)

    session.run(data_dir, command)


def get(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[KIND] [NAME]", help="What to list; default: claims.")
    ] = None,
    namespace: NamespaceOption = "",
    selector: Annotated[str, typer.Option("--selector", "-l", help="Only objects with these labels.")] = "",
    format_: OutputOption = Format.TABLE,
    data_dir: DataDirOption = None,
) -> None:
    """List claims, or objects of any kind, in all namespaces or one.

    Example: steelyard get machines -n team-a -o wide
    """
    words = words or []
    is_whole_kind = not words or (len(words) == 1 and "/" not in words[0])
    target = targets.Target("".join(words), "") if is_whole_kind else session.guarded(lambda: targets.parse(words))

    async def command(client: Client) -> None:
        resource = await targets.resource(client, target.kind)
        if format_ in (Format.TABLE, Format.WIDE):
            await _print_table(client, resource, namespace, target.name, selector, wide=format_ is Format.WIDE)
        elif target.name:
            _print_object((await targets.find(client, target, namespace))[1], format_)
        else:
            items = (await client.list(resource, namespace, label_selector=selector)).items
            _print_list(items, format_)

    session.run(data_dir, command)


def describe_(words: TargetArgument, namespace: NamespaceOption = "", data_dir: DataDirOption = None) -> None:
    """Say how a cluster is: state, reasons, machines, events, and what to do next.

    Example: steelyard describe dev-cluster
    """

    async def command(client: Client) -> None:
        resource, obj = await targets.find(client, targets.parse(words), namespace)
        now = datetime.datetime.now(datetime.UTC)
        if resource.kind == targets.CLAIM_KIND:
            output.result(describe.render(await describe.gather(client, obj), now, width=output.columns()))
            return
        selector = f"involvedObject.uid={objects.uid(obj)}"
        events = (await client.list(EVENTS, objects.namespace(obj), field_selector=selector)).items
        output.result(describe.render_generic(obj, events, now, width=output.columns()))

    session.run(data_dir, command)


def wait(
    words: TargetArgument,
    for_: Annotated[str, typer.Option("--for", help="A condition that must be True, or: deleted.")] = "Ready",
    timeout: TimeoutOption = "5m",
    namespace: NamespaceOption = "",
    data_dir: DataDirOption = None,
) -> None:
    """Wait until a cluster is ready, or gone.

    Exit code 4 if it does not happen in time.

    Example: steelyard wait dev-cluster --for deleted --timeout 2m
    """

    async def command(client: Client) -> None:
        try:
            resource, obj = await targets.find(client, targets.parse(words), namespace)
        except errors.NotFound:
            if for_ == "deleted":
                return
            raise
        await _wait(client, resource, obj, for_, _seconds(timeout))

    session.run(data_dir, command)


def delete(
    words: TargetArgument,
    namespace: NamespaceOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    wait_: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is gone.")] = True,
    timeout: TimeoutOption = "5m",
    data_dir: DataDirOption = None,
) -> None:
    """Delete a cluster with all its machines, or any other object.

    Asks first. Where there is no terminal to ask on, it deletes with --yes only (exit code 2).

    Example: steelyard delete dev-cluster --yes
    """

    async def command(client: Client) -> tuple[Resource, Object]:
        found = await targets.find(client, targets.parse(words), namespace)
        if yes:
            await remove(client, *found)
        return found

    async def remove(client: Client, resource: Resource, obj: Object) -> None:
        await client.delete(
            resource, objects.name(obj), objects.namespace(obj), propagation="Background", uid=objects.uid(obj)
        )
        if wait_:
            await _wait(client, resource, obj, "deleted", deadline)
        output.note(f"{_described(resource, obj)} {'deleted' if wait_ else 'is being deleted'}")

    deadline = session.guarded(lambda: _seconds(timeout))
    if yes:
        session.run(data_dir, command)
        return
    session.guarded(lambda: asking.check_terminal("nothing was deleted"))
    # Asked between two connections: while an event loop runs, Ctrl-C would not reach whoever reads the answer.
    resource, obj = session.run(data_dir, command)
    question = f"Delete {_described(resource, obj)} and everything made for it?"
    session.guarded(lambda: asking.agree(question, otherwise="nothing was deleted"))
    session.run(data_dir, lambda client: remove(client, resource, obj))


def kubeconfig(
    cluster: Annotated[
        str | None,
        typer.Argument(metavar="[CLUSTER]", help="A claim's name; without it, the platform administrator's."),
    ] = None,
    namespace: NamespaceOption = "",
    data_dir: DataDirOption = None,
) -> None:
    """Print a kubeconfig: the platform administrator's, or a cluster's.

    Example: steelyard kubeconfig dev-cluster > dev.kubeconfig
    """
    if cluster is None:
        output.result(session.guarded(lambda: session.admin_kubeconfig(data_dir)))
        return

    async def command(client: Client) -> None:
        _, claim = await targets.find(client, targets.Target("", cluster), namespace)
        reference = objects.mapping(objects.at(claim, "status", "kubeconfigSecret"))
        if not reference:
            raise CommandError(
                f"{objects.qualified_name(claim)} has no kubeconfig yet; wait for it: steelyard wait {cluster}"
            )
        secret = await client.get(SECRETS, str(reference["name"]), str(reference["namespace"]))
        output.result(_trusted(secret, str(objects.at(claim, "status", "endpoint") or "")))

    session.run(data_dir, command)


def _trusted(secret: Object, endpoint: str) -> str:
    """The kubeconfig in a Secret, if kubectl can be given it: everybody who may write Secrets there can have put in a
    program to run, a file to send, or another server.
    """
    try:
        config = kubeconfigs.parse(base64.b64decode(str(objects.at(secret, "data", "value") or "")))
        server = config.resolve().server
        if endpoint and server != endpoint:
            raise kubeconfigs.InvalidKubeconfig(f"its server is {server}, but the cluster is at {endpoint}")
    except kubeconfigs.InvalidKubeconfig as error:
        raise CommandError(
            f"the kubeconfig in Secret {objects.qualified_name(secret)} is not one to use: {error}. "
            "Find out who changed it; delete the Secret, and the cluster's control plane makes a new one"
        ) from error
    return config.to_yaml()


async def _wait(client: Client, resource: Resource, obj: Object, wanted: str, timeout: float) -> None:
    """Until the condition holds for this very object (by UID), or it is gone if that is what is waited for."""
    name, namespace, uid = objects.name(obj), objects.namespace(obj), objects.uid(obj)
    selector = f"metadata.name={name}"
    last = obj
    try:
        async with asyncio.timeout(timeout):
            while True:
                listed = await client.list(resource, namespace, field_selector=selector)
                current = next((item for item in listed.items if objects.uid(item) == uid), None)
                if _reached(current, wanted):
                    return
                last = current or last
                with contextlib.suppress(errors.Expired):
                    async for event in client.watch(
                        resource, namespace, resource_version=listed.resource_version, field_selector=selector
                    ):
                        if event.type == "BOOKMARK":
                            continue
                        is_gone = event.type == "DELETED" or objects.uid(event.object) != uid
                        last = event.object
                        if _reached(None if is_gone else event.object, wanted):
                            return
    except TimeoutError:
        waited_for = "gone" if wanted == "deleted" else wanted
        raise CommandError(
            f"{resource.kind} {objects.qualified_name(obj)} is not {waited_for} after {timeout:g} s: "
            f"{_message(last)}{_unknown_condition(last, wanted)}; see: steelyard describe {name}"
            + (f" -n {namespace}" if namespace else ""),
            code=Exit.TIMEOUT,
        ) from None


def _described(resource: Resource, obj: Object) -> str:
    return f"{resource.kind} {objects.qualified_name(obj)}"


def _reached(obj: Object | None, wanted: str) -> bool:
    if obj is None:
        if wanted == "deleted":
            return True
        raise CommandError("the object was deleted while it was waited for")
    condition = troubles.condition(obj, wanted)
    # What is said of an older state of the object is no news of this one.
    is_stale = int(condition.get("observedGeneration") or objects.generation(obj)) < objects.generation(obj)
    return condition.get("status") == "True" and not is_stale


def _unknown_condition(obj: Object, wanted: str) -> str:
    """What could be waited for instead, where the object has no such condition."""
    conditions = map(objects.mapping, objects.sequence(objects.at(obj, "status", "conditions")))
    types = [str(item.get("type")) for item in conditions]
    return "" if wanted in (*types, "deleted") or not types else f" (it has the conditions {', '.join(types)})"


def _message(obj: Object) -> str:
    message = objects.at(obj, "status", "message")
    if message:
        return str(message)
    conditions = [objects.mapping(item) for item in objects.sequence(objects.at(obj, "status", "conditions"))]
    return "; ".join(f"{item.get('type')}={item.get('status')}" for item in conditions) or "nothing reported yet"


async def _print_table(
    client: Client, resource: Resource, namespace: str, name: str, selector: str, *, wide: bool
) -> None:
    if name and not namespace and resource.namespaced:
        found = await targets.find(client, targets.Target(resource.group_resource, name), namespace)
        namespace = objects.namespace(found[1])
    path = resource.path(namespace, name)
    if selector:
        path += f"?labelSelector={quote(selector)}"
    table = objects.mapping(await client.request("GET", path, accept=_TABLE))
    if not table.get("rows"):
        where = f"in namespace {namespace}" if namespace else "in any namespace"
        output.note(f"No {resource.plural} {where if resource.namespaced else ''}".rstrip() + ".")
        return
    output.server_table(table, wide=wide, namespaces=resource.namespaced and not namespace)


def _print_object(obj: Object, format_: Format, *, done: str = "") -> None:
    match format_:
        case Format.JSON:
            output.result(output.as_json(obj))
        case Format.YAML:
            output.result(output.as_yaml(obj))
        case Format.NAME:
            output.result(output.object_name(obj))
        case _:
            output.result(f"{output.object_name(obj)} {done} in namespace {objects.namespace(obj)}")


def _print_list(items: Any, format_: Format) -> None:
    if format_ is Format.NAME:
        for item in items:
            output.result(output.object_name(item))
        return
    listing = {"apiVersion": "v1", "kind": "List", "items": list(items)}
    output.result(output.as_json(listing) if format_ is Format.JSON else output.as_yaml(listing))


async def _create_with_namespace(client: Client, resource: Resource, claim: Object) -> Object:
    """Creates the claim's namespace first, once it is known that the claim itself is accepted.

    A server looks for the namespace before it looks at the claim, so the claim is tried in a namespace that exists.
    """
    namespace = objects.namespace(claim)
    elsewhere = {**claim, "metadata": {**objects.metadata(claim), "namespace": DEFAULT_NAMESPACE}}
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(resource, elsewhere, dry_run=True)
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    output.note(f"namespace {namespace} created")
    return await client.create(resource, claim)


def _seconds(text: str) -> float:
    try:
        return durations.seconds(text)
    except ValueError as error:
        raise CommandError(str(error), code=Exit.USAGE) from None


def _alias(field: str) -> str:
    return Parameters.model_fields[field].alias or field


def _flag(name: str, field: FieldInfo) -> inspect.Parameter:
    """One command-line flag for one parameter of the claim: name, help and type come from the model."""
    value_type = field.annotation if field.is_required() else get_args(field.annotation)[0]
    is_choice_of_words = get_origin(value_type) is Literal and isinstance(get_args(value_type)[0], str)
    if not is_choice_of_words:
        value_type = str if _is_text(value_type) else int
    option: Any = typer.Option(help=field.description, show_default=False)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=... if field.is_required() else None,
        annotation=Annotated[value_type if field.is_required() else value_type | None, option],
    )


def _is_text(value_type: Any) -> bool:
    return value_type is str or (get_origin(value_type) is Annotated and get_args(value_type)[0] is str)


def _with_model_flags() -> None:
    """Gives `create cluster` a flag for each field of the model, so that a new field needs no edit here."""
    fixed: list[tuple[str, Any, Any]] = [
        ("name", Annotated[str, typer.Argument(metavar="NAME", help="The cluster's name.")], inspect.Parameter.empty),
        ("namespace", _NewNamespaceOption, DEFAULT_NAMESPACE),
        ("wait", Annotated[bool, typer.Option("--wait", help="Wait until it is ready.")], False),
        ("timeout", TimeoutOption, "5m"),
        ("dry_run", Annotated[bool, typer.Option("--dry-run", help="Validate only; create nothing.")], False),
        ("format_", OutputOption, Format.TABLE),
        ("data_dir", DataDirOption, None),
    ]
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in fixed
    ]
    parameters += [_flag(name, field) for name, field in Parameters.model_fields.items()]
    required_first = sorted(parameters, key=lambda item: item.default is not inspect.Parameter.empty)
    # inspect reads a signature from here if there is one; typeshed does not know the attribute.
    create_cluster.__signature__ = inspect.Signature(required_first)  # type: ignore[attr-defined]
    create_cluster.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    create.command("cluster")(create_cluster)


_with_model_flags()
