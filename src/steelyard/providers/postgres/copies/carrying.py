"""The ways in which data gets into the target: out of a dump, out of another database as it is, or masked on the way.

Each ends with whoever waits for it, and its processes with it. What goes wrong is a `Problem`; what must not be copied
is `NotAllowed`, with every reason.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import orjson
from psycopg import conninfo

from steelyard.masking.job import Endpoint, Job
from steelyard.masking.rules import MaskingRules
from steelyard.providers.postgres import programs
from steelyard.providers.postgres.copies.target import Target
from steelyard.providers.postgres.copies.visitors import Visitor
from steelyard.providers.postgres.dumps.folder import DumpFolder, Side
from steelyard.providers.postgres.problems import Broken
from steelyard.providers.postgres.servers import Place, Servers

DEADLINE: Final = 6 * 3600.0
_LISTING_DEADLINE: Final = 300.0
_LISTING_BYTES: Final = 256 * 1024 * 1024
_LINE_BYTES: Final = 16 * 1024 * 1024
_LEFT_OUT: Final = ("--no-publications", "--no-subscriptions", "--no-security-labels", "--no-tablespaces")
_RESTORE: Final = ("--no-owner", "--no-acl", "--no-password", "--exit-on-error", *_LEFT_OUT)
_EXTENSION: Final = re.compile(r"^\d+; \d+ \d+ EXTENSION - (\S+)")
_COMMENT: Final = re.compile(r"^\d+; \d+ \d+ COMMENT - EXTENSION (\S+)")
_CREATE: Final = re.compile(r'^CREATE EXTENSION IF NOT EXISTS "?([^";]+?)"? WITH SCHEMA "?([^";]+?)"?;$', re.MULTILINE)
_UNTRUSTED: Final = """
    SELECT e.extname, n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname <> 'plpgsql' AND n.nspname IN ('public', 'pg_catalog')
      AND NOT coalesce((SELECT v.trusted FROM pg_available_extension_versions v
                        WHERE v.name = e.extname AND v.version = e.extversion), false)
    ORDER BY e.oid
"""
_TRUSTED: Final = "SELECT name FROM pg_available_extension_versions WHERE trusted AND name = ANY(%s)"
_PYTHON: Final = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")


class NotAllowed(Exception):
    """The copy must not be made as it was asked for."""

    def __init__(self, message: str, reasons: Sequence[str]) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons) or (message,)


Tell = Callable[[str, int], None]
"""Is given the stage, and the rows so far."""


async def out_of_dump(servers: Servers, folder: DumpFolder, side: Side, target: Target, writer: Visitor) -> None:
    """The caller has checked that the dump is whole."""
    bin_folder = await programs.suited(servers, target.config)
    dump = folder.dump(side.name)
    listed = await _printed(bin_folder, ["--list", str(dump)])
    untrusted = await _untrusted_in(servers, target, bin_folder, dump, listed)
    await target.install(untrusted)
    with tempfile.NamedTemporaryFile("w", prefix="steelyard-list-") as entries:
        entries.write(_without(listed, {name for name, _ in untrusted}))
        entries.flush()
        arguments = [*_RESTORE, f"--use-list={entries.name}", _database(target), str(dump)]
        environment = writer.place.environment(target.database)
        await programs.run(bin_folder / "pg_restore", arguments, environment, deadline=DEADLINE)


async def out_of_database(
    servers: Servers, provider_config: str, database: str, target: Target, writer: Visitor
) -> None:
    """As it is: pg_dump's output is pg_restore's input. pg_dump reads as the administrator, and runs nothing there."""
    bin_folder = await programs.suited(servers, target.config)
    source = await servers.place(provider_config)
    async with servers.connect(provider_config, database) as connection:
        untrusted = await (await connection.execute(_UNTRUSTED)).fetchall()
    await target.install([(str(name), str(schema)) for name, schema in untrusted])
    # A comment on an extension can be made only by whom it belongs to: where that is the administrator, not here.
    comments = ["--no-comments"] if untrusted else []
    dump = ["--format=custom", "--compress=0", "--no-password", *_LEFT_OUT]
    reading, writing = os.pipe()
    try:
        async with (
            asyncio.timeout(DEADLINE),
            programs.started(bin_folder / "pg_dump", dump, source.environment(database), stdout=writing) as sender,
            programs.started(
                bin_folder / "pg_restore",
                [*_RESTORE, *comments, _database(target)],
                writer.place.environment(target.database),
                stdin=reading,
            ) as receiver,
        ):
            os.close(writing)
            os.close(reading)
            reading = writing = -1
            await _both_succeed(sender, receiver)
    except TimeoutError:
        raise Broken(f"the copy was not finished after {DEADLINE / 3600:g} hours, and was ended") from None
    finally:
        for descriptor in (reading, writing):
            if descriptor >= 0:
                os.close(descriptor)


async def masked(
    servers: Servers,
    reader: Visitor,
    database: str,
    target: Target,
    writer: Visitor,
    *,
    owner: str,
    rules: MaskingRules,
    key: str,
    source_config: str,
    tell: Tell,
) -> None:
    """By a process of its own, which is told everything on its standard input."""
    async with servers.connect(source_config, database) as connection:
        untrusted = await (await connection.execute(_UNTRUSTED)).fetchall()
    await target.install([(str(name), str(schema)) for name, schema in untrusted])
    job: dict[str, Any] = {
        "source": _endpoint(reader.place, database),
        "target": _endpoint(writer.place, target.database),
        "owner": owner,
        "rules": rules.to_json(),
        "key": key,
        "programs": str(await programs.suited(servers, target.config)),
        "deadlineSeconds": int(DEADLINE),
    }
    Job.model_validate(job)
    environment = {name: os.environ[name] for name in _PYTHON if name in os.environ}
    async with programs.started(
        sys.executable,
        ["-m", "steelyard.masking"],
        environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    ) as running:
        verdict = await _followed(running, orjson.dumps(job), tell)
        outcome = verdict.get("verdict")
        if outcome is None:
            await running.succeed()
            raise Broken("the copier ended without a verdict")
    message = str(verdict.get("message") or "")
    if outcome in ("refused", "leaked"):
        reasons = [str(each) for each in (*verdict.get("refusals", ()), *verdict.get("leaks", ()))]
        raise NotAllowed(message, reasons)
    if outcome != "copied":
        raise programs.problem_of("the copier", 1, message)


async def _followed(running: programs.Program, job: bytes, tell: Tell) -> dict[str, Any]:
    """Its verdict; empty where it ended without one."""
    stdin, stdout = running.process.stdin, running.process.stdout
    assert stdin is not None
    assert stdout is not None
    try:
        stdin.write(job)
        await stdin.drain()
        stdin.close()
    except (BrokenPipeError, ConnectionResetError):
        return {}
    rows = 0
    while line := await stdout.readline():
        said = cast("dict[str, Any]", orjson.loads(line[:_LINE_BYTES]))
        if "verdict" in said:
            return said
        progress = cast("dict[str, Any]", said.get("progress") or {})
        rows = max(rows, int(progress.get("rows") or 0))
        tell(str(progress.get("stage") or ""), rows)
    return {}


async def _both_succeed(sender: programs.Program, receiver: programs.Program) -> None:
    """When the receiver fails, the sender only finds its pipe closed: the receiver's words are the cause."""
    sending, receiving = asyncio.create_task(sender.succeed()), asyncio.create_task(receiver.succeed())
    try:
        await asyncio.wait([sending, receiving])
    finally:
        for task in (sending, receiving):
            task.cancel()
    words = receiver.words
    if sending.exception() is not None and ("could not read from input file" in words or not receiving.exception()):
        await sending
    await receiving
    await sending


async def _untrusted_in(
    servers: Servers, target: Target, bin_folder: Path, dump: Path, listed: str
) -> list[tuple[str, str]]:
    """Extensions of a dump that only the administrator can install, with their schemas."""
    lines = [line for line in listed.splitlines() if _EXTENSION.match(line)]
    if not lines:
        return []
    with tempfile.NamedTemporaryFile("w", prefix="steelyard-list-") as entries:
        entries.write("\n".join([*lines, ""]))
        entries.flush()
        script = await _printed(bin_folder, ["--file=-", f"--use-list={entries.name}", str(dump)])
    found = [(name, schema) for name, schema in _CREATE.findall(script) if schema in ("public", "pg_catalog")]
    async with servers.connect(target.config) as connection:
        rows = await (await connection.execute(_TRUSTED, ([name for name, _ in found],))).fetchall()
    trusted = {str(row[0]) for row in rows}
    return [(name, schema) for name, schema in found if name not in trusted]


def _without(listed: str, extensions: set[str]) -> str:
    """The table of contents without these, and what is said of them."""

    def is_kept(line: str) -> bool:
        found = _EXTENSION.match(line) or _COMMENT.match(line)
        return found is None or found[1] not in extensions

    return "\n".join([*filter(is_kept, listed.splitlines()), ""])


async def _printed(bin_folder: Path, arguments: Sequence[str]) -> str:
    printed = await programs.output_of(
        bin_folder / "pg_restore", arguments, {}, deadline=_LISTING_DEADLINE, at_most=_LISTING_BYTES
    )
    return printed.decode()


def _database(target: Target) -> str:
    return f"--dbname={conninfo.make_conninfo(dbname=target.database)}"


def _endpoint(place: Place, database: str) -> dict[str, str]:
    parameters = place.parameters(database)
    password = parameters.pop("password", "")
    dsn = conninfo.make_conninfo(**cast("dict[str, Any]", parameters))
    Endpoint(dsn=dsn)
    return {"dsn": dsn, "password": password}
