"""The verbs of `steelyard secrets`: what the platform keeps where in Vault, and whether it is there.

`tree` reads the objects that put it there, with the caller's rights in the platform's API. `diff` looks into Vault with
the caller's own login, as Vault's own command finds it (VAULT_ADDR, VAULT_TOKEN, VAULT_CACERT), and never with the
platform's. Neither prints a value: only paths, and the names of keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer

from steelyard.api.externalsecrets.kinds import PUSH_SECRETS
from steelyard.api.resources import VAULT_ENTRIES
from steelyard.cli import output, reach, session
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.output import Format
from steelyard.cli.platform import PlatformOption, settings_of
from steelyard.cli.reach import DataDirOption, Given
from steelyard.cli.session import OutputOption, Session
from steelyard.compose.integrations import vaultentries, vaultpolicies
from steelyard.compose.names import CLAIM_KIND, CLAIM_NAME, CLAIM_NAMESPACE
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.vault import errors as refusals
from steelyard.vault import logins
from steelyard.vault.client import Vault
from steelyard.vault.keyvalue import KeyValue

_FOLDERS: Final = ("apps", "caches", "ci-cd", "clusters", "database", "shared-services")
"""Of the key-value engine, in which everything is the platform's."""
_ALL: Final = "*"


@frozen
class Kept:
    """Something that is to be at a path in Vault."""

    path: str
    keys: frozenset[str]
    """Of a secret; a star for all that a Secret has. None for what Vault is configured with."""
    state: str
    whose: str
    is_secret: bool

    def to_json(self) -> Object:
        return {"path": self.path, "keys": sorted(self.keys), "state": self.state, "for": self.whose}


@frozen
class Difference:
    path: str
    what: str

    def to_json(self) -> Object:
        return {"path": self.path, "difference": self.what}


def commands() -> typer.Typer:
    made = typer.Typer(no_args_is_help=True, help="See what the platform keeps in Vault, and whether it is there.")
    made.command("tree")(reach.options(tree))
    made.command("diff")(reach.options(diff))
    made.command("policy")(policy)
    return made


def tree(given: Given, format_: OutputOption = Format.TABLE) -> None:
    """Print what the platform keeps where in Vault: paths, names of keys, for which claim, and whether it is there.

    It is read from the platform's objects; Vault itself is not asked.

    Example: steelyard secrets tree
    """

    async def command(here: Session) -> None:
        found = await _kept(here.client)
        if not found and format_ in (Format.TABLE, Format.WIDE):
            output.note("the platform keeps nothing in Vault: integrations.vault is not enabled, or you may not see it")
        rows = [(each.path, ", ".join(sorted(each.keys)), each.whose, each.state) for each in found]
        _show(format_, [each.to_json() for each in found], ("PATH", "KEYS", "FOR", "STATE"), rows)

    session.run(given, command)


def diff(
    given: Given,
    mount: Annotated[
        str, typer.Option("--mount", metavar="ENGINE", help="The key-value engine. Default: that of the pushes.")
    ] = "secret",
    format_: OutputOption = Format.TABLE,
) -> None:
    """Compare what the platform keeps in Vault with what is there: missing, too much, other keys.

    Vault is asked with your own login: VAULT_ADDR, VAULT_TOKEN or what `vault login` left, VAULT_CACERT. No value is
    printed. Ends with 1 where there is a difference.

    Example: steelyard secrets diff --mount secret
    """

    async def command(here: Session) -> int:
        kept = await _kept(here.client)
        found = await _differences(kept, mount)
        rows = [(each.path, each.what) for each in found]
        _show(format_, [each.to_json() for each in found], ("PATH", "DIFFERENCE"), rows)
        if not found:
            output.note(f"{len(kept)} paths compared, no difference")
        return Exit.FAILED if found else Exit.OK

    if code := session.run(given, command):
        raise typer.Exit(code)


def policy(platform_file: PlatformOption = None, data_dir: DataDirOption = None) -> None:
    """Print the policy that the platform's own login to Vault needs, from the platform file. No platform needs to run.

    Example: steelyard secrets policy --platform platform.yaml
    """

    def text() -> str:
        platform = settings_of(session.locate(data_dir), platform_file).platform
        return vaultentries.text(vaultpolicies.of_platform(platform.integrations.vault))

    output.result(session.guarded(text))


async def _kept(client: Client) -> list[Kept]:
    found: list[Kept] = []
    for resource, of in ((PUSH_SECRETS, _of_push), (VAULT_ENTRIES, _of_entry)):
        try:
            listed = (await client.list(resource)).items
        except errors.NotFound:
            continue
        found += [each for obj in listed for each in of(obj)]
    return _together(found)


def _of_push(push: Object) -> Iterator[Kept]:
    for each in objects.sequence(objects.at(push, "spec", "data")):
        reference = objects.mapping(objects.at(each, "match", "remoteRef"))
        keys = frozenset({str(reference.get("property") or _ALL)})
        yield Kept(str(reference.get("remoteKey") or ""), keys, _state(push), _whose(push), is_secret=True)


def _of_entry(entry: Object) -> Iterator[Kept]:
    path = str(objects.at(entry, "spec", "path") or "")
    yield Kept(path, frozenset(), _state(entry), _whose(entry), is_secret=False)


def _together(found: Sequence[Kept]) -> list[Kept]:
    """One line for each path."""
    by_path: dict[tuple[bool, str], Kept] = {}
    for each in found:
        key = (not each.is_secret, each.path)
        before = by_path.get(key)
        if before is not None:
            state = each.state if before.state == "kept" else before.state
            each = Kept(each.path, before.keys | each.keys, state, before.whose or each.whose, each.is_secret)
        by_path[key] = each
    return [by_path[key] for key in sorted(by_path)]


def _state(obj: Object) -> str:
    if objects.is_being_deleted(obj):
        return "being taken away"
    conditions = [objects.mapping(each) for each in objects.sequence(objects.at(obj, "status", "conditions"))]
    for each in conditions:
        if each.get("type") in ("Ready", "Synced") and each.get("status") == "False":
            return str(each.get("message") or each.get("reason") or "not there")
    is_there = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    return "kept" if is_there else "not looked at yet"


def _whose(obj: Object) -> str:
    labels = objects.labels(obj)
    if CLAIM_NAME not in labels:
        return "platform"
    return f"{labels.get(CLAIM_KIND)} {labels.get(CLAIM_NAMESPACE)}/{labels[CLAIM_NAME]}"


async def _differences(kept: Sequence[Kept], mount: str) -> list[Difference]:
    address, login = os.environ.get(logins.ADDRESS, ""), logins.of_caller()
    if not address or login is None:
        raise CommandError(
            f"Vault is asked with your own login: set {logins.ADDRESS}, and {logins.TOKEN} or log in with vault login",
            code=Exit.USAGE,
        )
    vault = Vault(
        address,
        login,
        verify=os.environ.get(logins.CA_FILE) or True,
        namespace=os.environ.get(logins.NAMESPACE) or None,
    )
    try:
        return await _compared(vault, KeyValue(vault, mount), kept)
    except refusals.VaultError as error:
        raise CommandError(str(error).replace("the platform's login", "your login")) from None
    finally:
        vault.close()


async def _compared(vault: Vault, keys: KeyValue, kept: Sequence[Kept]) -> list[Difference]:
    found: list[Difference] = []
    secrets = {each.path: each for each in kept if each.is_secret}
    for path, each in secrets.items():
        stored = await keys.read(path)
        if stored is None:
            found.append(Difference(path, "missing"))
            continue
        if _ALL in each.keys:
            continue
        missing, others = each.keys - set(stored.data), set(stored.data) - each.keys
        if missing:
            found.append(Difference(path, f"keys missing: {', '.join(sorted(missing))}"))
        if others:
            found.append(Difference(path, f"keys that the platform did not put there: {', '.join(sorted(others))}"))
    for folder in _FOLDERS:
        there = await keys.walk(folder)
        found += [Difference(path, "not the platform's") for path in there if path not in secrets]
    configured = [each.path for each in kept if not each.is_secret]
    found += [Difference(path, "missing") for path in configured if not await _is_there(vault, path)]
    return sorted(found, key=lambda each: each.path)


async def _is_there(vault: Vault, path: str) -> bool:
    """Engines are listed together; what can only be made, and not looked at, is believed."""
    enabling = next((each for each in ("sys/mounts", "sys/auth") if path.startswith(f"{each}/")), "")
    try:
        if enabling:
            listed = objects.mapping(objects.mapping(await vault.read(enabling)).get("data"))
            return f"{path.removeprefix(f'{enabling}/')}/" in listed
        return await vault.read(path) is not None
    except refusals.Invalid:
        return True


def _show(format_: Format, values: Sequence[Object], headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    match format_:
        case Format.JSON:
            output.result(output.as_json(list(values)))
        case Format.YAML:
            output.result(output.as_yaml(list(values)))
        case Format.NAME:
            output.result("\n".join(row[0] for row in rows))
        case _:
            if rows:
                output.result("\n".join(output.aligned([headings, *rows], width=output.columns())))
