"""The verbs of `steelyard db`: what people do with databases besides creating and deleting them.

Each is a wish that is written onto the claim, which whoever may change the claim may write, also with kubectl or in
Git; the platform acts on it. Reading credentials takes the caller's own right to read the Secret.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from steelyard.api.postgresql import BACK_UP, MAKE_ROOM, REFRESH, ROTATE
from steelyard.cli import anonymising, completing, databasefacts, goals, output, reach, session, targets, waiting
from steelyard.cli.dryrun import DryRun, DryRunOption, WithBareDryRun
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.output import Format
from steelyard.cli.reach import Given
from steelyard.cli.session import NamespaceOption, OutputOption, Session
from steelyard.cli.targets import Found
from steelyard.cli.waiting import TimeoutOption
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS

_KINDS: Final = ("PostgreSQLInstance", "PostgreSQLAccess")
_LONGEST: Final = 24 * 3600.0
_DIGITS, _FEW_DIGITS = 64, 12
"""Of a checksum, in a wide table and in a narrow one."""
_HEADINGS: Final = ("DATABASE", "BACKUP", "AT", "SIZE", "REASON", "SHA256")

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the claim.", autocompletion=completing.claims)
]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait until it is done, and show how it is going.")]


def commands() -> typer.Typer:
    made = typer.Typer(no_args_is_help=True, help="Back up, restore, rotate, refresh and look into databases.")
    made.command("list")(reach.options(list_))
    made.command("backup")(reach.options(backup))
    made.command("restore", cls=WithBareDryRun)(reach.options(restore))
    made.command("rotate")(reach.options(rotate))
    made.command("refresh")(reach.options(refresh))
    made.command("open")(reach.options(open_))
    made.command("uri")(reach.options(uri))
    made.command("anonymise")(reach.options(anonymise))
    return made


def list_(
    given: Given,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Name of the claim; default: all.", autocompletion=completing.claims),
    ] = None,
    namespace: NamespaceOption = "",
    format_: OutputOption = Format.TABLE,
) -> None:
    """List the backups of databases: name, time, size and checksum of each.

    Example: steelyard db list shop -n team-a
    """

    async def command(here: Session) -> None:
        place = here.namespace(namespace)
        if name is not None:
            found = [(await _database(here, name, place)).obj]
        else:
            entry = (await targets.entries(here, "database"))[0]
            found = list((await here.client.list(entry.resource, place)).items)
        rows = [row for claim in objects.by_name(found) for row in _dumps(claim)]
        if format_ in (Format.JSON, Format.YAML):
            output.result(output.as_json(rows) if format_ is Format.JSON else output.as_yaml(rows).rstrip())
            return
        if format_ is Format.NAME:
            for row in rows:
                output.result(str(row["name"]))
            return
        if not rows:
            output.note("There are no backups." + _why_none(found))
            return
        digits = _DIGITS if format_ is Format.WIDE else _FEW_DIGITS
        table = [_HEADINGS, *(_row(row, digits) for row in rows)]
        for line in output.aligned(table, width=output.columns()):
            output.result(line)

    session.run(given, command)


def backup(
    name: NameArgument,
    given: Given,
    namespace: NamespaceOption = "",
    wait_: WaitOption = False,
    timeout: TimeoutOption = "30m",
) -> None:
    """Make a backup of a database now, besides the scheduled ones.

    Example: steelyard db backup shop -n team-a --wait
    """
    deadline = session.guarded(lambda: waiting.seconds(timeout))

    async def command(here: Session) -> None:
        found = await _database(here, name, here.namespace(namespace))
        if objects.at(found.obj, "status", "parameters", "enableBackup") is False:
            raise CommandError(f"no backups are made of {found}: set spec.parameters.enableBackup to true first")
        value = await _wish(here, found, BACK_UP)
        output.result(f"{output.object_name(found.obj)}: a backup was asked for")
        if wait_:
            goal = goals.parse(f"jsonpath={{.status.backup.trigger}}={value}")
            taken = await waiting.until(here, found, goal, deadline, quiet=True)
            now = await here.client.get(found.resource, objects.name(found.obj), objects.namespace(found.obj))
            last = objects.at(now, "status", "backup", "last")
            output.note(f"backup {last} of {found} made after {taken:.0f} s")

    session.run(given, command)


def restore(
    name: NameArgument,
    given: Given,
    from_: Annotated[
        str, typer.Option("--backup", metavar="BACKUP", help="Its name, as `steelyard db list` shows it.")
    ],
    into: Annotated[str, typer.Option("--into", metavar="NEW", help="Name of the new claim, in the same namespace.")],
    namespace: NamespaceOption = "",
    secret: Annotated[
        str,
        typer.Option("--secret", metavar="NAME", help="Connection Secret of the new claim. Default: NEW-connection."),
    ] = "",
    wait_: WaitOption = False,
    timeout: TimeoutOption = "30m",
    dry_run: DryRunOption = DryRun.NONE,
) -> None:
    """Restore a backup into a new database. The one that it was made of is left alone.

    Example: steelyard db restore shop --backup 20260131T120000Z --into shop-restored --wait
    """
    deadline = session.guarded(lambda: waiting.seconds(timeout))

    async def command(here: Session) -> None:
        found = await _database(here, name, here.namespace(namespace))
        known = [str(each["name"]) for each in _dumps(found.obj)]
        if from_ not in known:
            newest = f"; the newest is {known[0]}" if known else ""
            listing = here.hints.steelyard(f"db list {name} -n {objects.namespace(found.obj)}")
            raise CommandError(f"{found} has no backup {from_}{newest}. {listing} lists them")
        claim = _restored(found.obj, from_, into, secret or f"{into}-connection")
        if dry_run is DryRun.CLIENT:
            output.result(output.as_yaml(claim).rstrip())
            return
        made = await here.client.create(found.resource, claim, dry_run=dry_run is DryRun.SERVER)
        output.result(f"{output.object_name(made)} {dry_run.word('created')} in namespace {objects.namespace(made)}")
        told = f"{'would be' if dry_run is DryRun.SERVER else 'is'} filled from backup {from_} of {found}, as it is"
        output.note(f"It {told}; {objects.name(found.obj)} is left alone.")
        if dry_run is DryRun.NONE:
            place = objects.at(made, "spec", "writeConnectionSecretToRef", "name")
            output.note(f"Once it is Ready, how to connect is in Secret {objects.namespace(made)}/{place}.")
            if wait_:
                await waiting.until(here, Found(found.entry, made), goals.READY, deadline)

    session.run(given, command)


def rotate(
    name: NameArgument,
    given: Given,
    namespace: NamespaceOption = "",
    wait_: WaitOption = False,
    timeout: TimeoutOption = "5m",
) -> None:
    """Replace the login of a database, or of an access, by a new one. The old one works on for a while.

    Example: steelyard db rotate shop -n team-a --wait
    """
    deadline = session.guarded(lambda: waiting.seconds(timeout))

    async def command(here: Session) -> None:
        found = await _database(here, name, here.namespace(namespace), kinds=_KINDS)
        before = objects.at(found.obj, "status", "role")
        await _wish(here, found, ROTATE)
        output.result(f"{output.object_name(found.obj)}: a new login was asked for")
        if wait_:
            now = await _until_changed(here, found, deadline, before, ("status", "role"))
            output.note(
                f"{found} has the login {objects.at(now, 'status', 'role')}; the connection Secret has it already"
            )

    session.run(given, command)


def refresh(
    name: NameArgument,
    given: Given,
    namespace: NamespaceOption = "",
    wait_: WaitOption = False,
    timeout: TimeoutOption = "1h",
) -> None:
    """Make the copy of another database anew. What was changed in the copy is lost.

    Example: steelyard db refresh sandbox-database -n sandbox --wait
    """
    deadline = session.guarded(lambda: waiting.seconds(timeout))

    async def command(here: Session) -> None:
        found = await _database(here, name, here.namespace(namespace))
        if objects.at(found.obj, "status", "clone") is None:
            raise CommandError(f"{found} is no copy of another database; nothing was done")
        before = objects.at(found.obj, "status", "clone", "generation")
        await _wish(here, found, REFRESH)
        output.result(f"{output.object_name(found.obj)}: a new copy was asked for")
        if wait_:
            now = await _until_changed(here, found, deadline, before, ("status", "clone", "generation"))
            output.note(
                f"{found} is {objects.at(now, 'status', 'database')} from now on; the connection Secret has it already"
            )

    session.run(given, command)


def open_(
    name: NameArgument,
    given: Given,
    for_: Annotated[str, typer.Option("--for", help="How long, at most 24h: 30m, 2h.")] = "30m",
    namespace: NamespaceOption = "",
) -> None:
    """Grant one session in a database that was closed for being too full, to delete what is not needed.

    Sessions begin read-only there; the one that deletes says: SET default_transaction_read_only = off

    Example: steelyard db open shop -n team-a --for 30m
    """
    span = session.guarded(lambda: waiting.seconds(for_))
    if not 0 < span <= _LONGEST:
        session.guarded(_too_long)

    async def command(here: Session) -> None:
        found = await _database(here, name, here.namespace(namespace))
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=span)
        text = until.strftime("%Y-%m-%dT%H:%M:%SZ")
        await _annotate(here, found, MAKE_ROOM, text)
        output.result(f"{output.object_name(found.obj)}: one session is granted until {text}")
        level = objects.at(found.obj, "status", "storage", "level")
        if level != "closed":
            output.note(f"It is not closed at present ({level or 'not measured yet'}), so nothing changes for now.")

    session.run(given, command)


def uri(name: NameArgument, given: Given, namespace: NamespaceOption = "") -> None:
    """Print the URI to connect to a database with, from its connection Secret: for psql and its like.

    Example: steelyard db uri shop -n team-a
    """

    async def command(here: Session) -> None:
        found = await _database(here, name, here.namespace(namespace), kinds=_KINDS)
        output.result(await connection_uri(here, found))

    session.run(given, command)


def anonymise(
    name: NameArgument,
    given: Given,
    check: Annotated[
        bool, typer.Option("--check", help="Say what would happen to each column. Nothing else can be asked for.")
    ] = False,
    rules: Annotated[
        Path | None,
        typer.Option("--rules", metavar="FILE", help="Rules to try instead of the claim's spec.parameters.masking."),
    ] = None,
    namespace: NamespaceOption = "",
    format_: OutputOption = Format.TABLE,
) -> None:
    """Show what would happen to each column of a database in a masked copy, and what would keep it from being made.

    Connects with the connection Secret, which you must be allowed to read. Exit code 1 if the copy would be refused.

    Example: steelyard db anonymise --check shop -n team-a --rules masking.yaml
    """
    if not check:
        session.guarded(_need_check)
    tried = session.guarded(lambda: anonymising.read(rules)) if rules is not None else None

    async def command(here: Session) -> tuple[str, Any]:
        found = await _database(here, name, here.namespace(namespace))
        said = objects.mapping(objects.at(found.obj, "spec", "parameters", "masking"))
        return await connection_uri(here, found), tried if tried is not None else said

    dsn, said = session.run(given, command)
    verdict = session.guarded(lambda: anonymising.verdict(dsn, said))
    anonymising.show(verdict, format_)
    if verdict.outcome != "planned":
        raise typer.Exit(Exit.FAILED)


async def connection_uri(here: Session, found: Found) -> str:
    """With the caller's rights."""
    place = objects.mapping(objects.at(found.obj, "status", "connectionSecret"))
    if not place:
        if objects.at(found.obj, "spec", "writeConnectionSecretToRef") is None:
            raise CommandError(f"{found} asks for no connection Secret: set spec.writeConnectionSecretToRef.name")
        wait = here.hints.steelyard(f"wait {objects.name(found.obj)} -n {objects.namespace(found.obj)}")
        raise CommandError(f"{found} has no connection Secret yet; wait for it: {wait}")
    secret = await here.client.get(SECRETS, str(place["name"]), str(place["namespace"]))
    text = objects.at(secret, "data", "uri")
    if not isinstance(text, str):
        raise CommandError(f"Secret {place['namespace']}/{place['name']} has no uri: somebody has changed it")
    return base64.b64decode(text).decode()


def _need_check() -> None:
    raise CommandError(
        "copies are asked for with a claim (spec.parameters.cloneFrom); this command only shows what would happen: add "
        "--check",
        code=Exit.USAGE,
    )


def _too_long() -> None:
    raise CommandError("--for must be more than nothing and at most 24h", code=Exit.USAGE)


async def _database(here: Session, name: str, namespace: str, kinds: Sequence[str] = _KINDS[:1]) -> Found:
    """The claim of that name, if it is one for a database."""
    target = targets.parse([name])
    noun = target.kind or ("database" if len(kinds) == 1 else "")
    if noun:
        return _checked(await targets.find(here, targets.Target(noun, target.name), namespace), kinds)
    try:
        return await targets.find(here, targets.Target("database", name), namespace)
    except errors.NotFound as missing:
        try:
            return await targets.find(here, targets.Target("access", name), namespace)
        except errors.NotFound:
            raise missing from None


def _checked(found: Found, kinds: Sequence[str]) -> Found:
    if found.resource.kind not in kinds:
        raise CommandError(f"{found} is no {' or '.join(kinds)}", code=Exit.USAGE)
    return found


async def _wish(here: Session, found: Found, annotation: str) -> str:
    """A value that was not there before."""
    value = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    await _annotate(here, found, annotation, value)
    return value


async def _annotate(here: Session, found: Found, annotation: str, value: str) -> None:
    patch: Object = {"metadata": {"annotations": {annotation: value}, "uid": objects.uid(found.obj)}}
    await here.client.patch(found.resource, objects.name(found.obj), patch, objects.namespace(found.obj))


async def _until_changed(
    here: Session, found: Found, deadline: float, before: object, field: tuple[str, ...]
) -> Object:
    """The claim, once a field of it has another value."""
    goal = goals.Goal(words="changed", path=field, other_than="" if before is None else str(before))
    await waiting.until(here, found, goal, deadline, quiet=True)
    return await here.client.get(found.resource, objects.name(found.obj), objects.namespace(found.obj))


def _dumps(claim: Object) -> list[Object]:
    found = map(objects.mapping, objects.sequence(objects.at(claim, "status", "backup", "dumps")))
    return [{"database": objects.qualified_name(claim), **each} for each in found]


def _row(dump: Object, digits: int) -> tuple[str, ...]:
    return (
        str(dump["database"]),
        str(dump["name"]),
        str(dump["at"]),
        databasefacts.size(int(dump["sizeBytes"])),
        str(dump.get("reason") or ""),
        str(dump["sha256"])[:digits],
    )


def _why_none(claims: Sequence[Object]) -> str:
    are_off = all(objects.at(each, "status", "parameters", "enableBackup") is False for each in claims)
    return " None are made: spec.parameters.enableBackup is false." if claims and are_off else ""


def _restored(claim: Object, dump: str, name: str, secret: str) -> Object:
    """A claim like the one that the backup is of, without what only one can have."""
    said = objects.mapping(objects.at(claim, "spec", "parameters"))
    kept = ("environment", "size", "storageGB", "enableBackup", "backup", "extensions", "version", "masking")
    parameters = {key: said[key] for key in kept if key in said}
    source: Object = {"name": objects.name(claim), "backup": dump, "anonymise": False}
    return {
        "apiVersion": claim["apiVersion"],
        "kind": claim["kind"],
        "metadata": {"name": name, "namespace": objects.namespace(claim)},
        "spec": {
            "parameters": {**parameters, "cloneFrom": source},
            "writeConnectionSecretToRef": {"name": secret},
        },
    }
