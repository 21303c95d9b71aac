"""The verbs on a platform's data: backup, restore, rotate-keys, renew-authority."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import io
import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard import durable
from steelyard.cli import asking, offered, output, reach, session
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.hints import Hints
from steelyard.cli.reach import DataDirOption, Given, Server
from steelyard.cli.session import Session
from steelyard.installation.backup import archive
from steelyard.installation.datadir import AlreadyRunning, DataDir

if TYPE_CHECKING:
    from typing_extensions import Buffer


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to make; it must not exist yet.")],
    given: Given,
    without_keys: Annotated[
        bool,
        typer.Option("--without-keys", help="Leave out the keys that Secrets are encrypted with; keep them apart."),
    ] = False,
) -> None:
    """Back up the platform into one file, while it runs or while it does not. Writers are not held up.

    A platform that runs on another machine is backed up over its API, with --kubeconfig; one that does not run, on its
    own.

    The file holds the certificate authority's key, the administrator's token, all Secrets and what decrypts them:
    whoever has it has the platform.

    Example: steelyard backup steelyard-monday.tar
    """
    session.guarded(lambda: _back_up(given, file, with_keys=not without_keys))


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An archive that `steelyard backup` made.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace the data that is there; it is kept aside, not deleted.")
    ] = False,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys", metavar="FILE", help="The encryption.json of a backup without keys.", show_default=False
        ),
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Bring a platform's data back from a backup. The platform must not be running.

    Everything is checked before anything is replaced. Machines are not deleted by a restored platform until you agree.

    Example: steelyard restore steelyard-monday.tar --data-dir ./data
    """
    hints = reach.hints_of(Given(data_dir))
    session.guarded(lambda: _restore(session.locate(data_dir), file, keys, hints, force=force))


def rotate_keys(given: Given) -> None:
    """Encrypt all Secrets on disk with a new key. The platform must be running; nobody who uses it notices.

    Example: steelyard rotate-keys
    """

    async def command(here: Session) -> None:
        from steelyard.installation import encryption

        done = await here.client.request("POST", encryption.ROTATION_PATH)
        output.note(f"the key is now {done['key']}; {done['encrypted']} stored states of Secrets were encrypted again")

    session.run(given, command)


def renew_authority(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False, data_dir: DataDirOption = None
) -> None:
    """Make a new certificate authority where the old one is lost or must no longer be trusted. Offline.

    Every client that trusts the old one is refused from then on until it gets the new kubeconfig, and client
    certificates that the old one signed are not accepted any more. Clusters have authorities of their own, and objects
    stay as they are. What was there is kept aside.

    Example: steelyard renew-authority --data-dir ./data
    """
    where = session.locate(data_dir)
    session.guarded(lambda: _agree_to_renewal(where, yes=yes))
    session.guarded(lambda: _renew(where, reach.hints_of(Given(data_dir))))


def _agree_to_renewal(where: DataDir, *, yes: bool) -> None:
    if not where.database.exists():
        raise CommandError(f"no platform has run in {where.root}: there is no authority to renew")
    if yes:
        return
    asking.check_terminal("nothing was renewed")
    output.note("Copies of the kubeconfig and client certificates of the old authority stop working.")
    asking.agree(f"Make a new certificate authority in {where.root}?", otherwise="nothing was renewed")


def _renew(where: DataDir, hints: Hints) -> None:
    from steelyard.installation import credentials

    try:
        renewed = credentials.renew_authority(where, now=datetime.datetime.now(datetime.UTC))
    except AlreadyRunning as error:
        raise CommandError(f"{where.root}: {error}.\nEnd it first with: {hints.steelyard('down')}") from None
    output.note(f"renewed: {', '.join(renewed.what)}")
    output.note(f"  give every client the new kubeconfig, {where.kubeconfig}")
    output.note(f"  what was there before is in {renewed.kept}")


def _back_up(given: Given, file: Path, *, with_keys: bool) -> None:
    if file.exists():
        raise CommandError(f"{file} exists already; choose another name")
    where = session.locate(given.data_dir)
    with _new_file(file) as partial:
        server = reach.choose(given) if _is_remote(given) or where.running() is not None else None
        if server is not None:
            asyncio.run(_download(server, partial, with_keys=with_keys))
            manifest = _verified(partial, file)
        else:
            manifest = _from_files(where, partial, with_keys=with_keys)
    output.note(f"backed up at revision {manifest.revision}: {file}, {file.stat().st_size / (1 << 20):.1f} MiB")
    output.note("Keep it as safe as the platform: it holds the authority's key and the administrator's token.")
    if not with_keys:
        keys = where.encryption_keys.name if _is_remote(given) else where.encryption_keys
        output.note(f"It is worth nothing without {keys}; keep a copy of that elsewhere.")


class _Received(io.FileIO):
    """A file that tells its own failures from those of the connection, which are an OSError as well."""

    def write(self, data: Buffer, /) -> int:
        view = memoryview(data)
        try:
            while view:
                view = view[super().write(view) :]
        except OSError as error:
            raise CommandError(f"no backup was made: {Path(str(self.name)).parent}: {error.strerror}") from None
        return len(memoryview(data))


def _is_remote(given: Given) -> bool:
    """Whether a kubeconfig was asked for. A backup is never made of whatever KUBECONFIG happens to lead to."""
    return given.kubeconfig is not None or bool(given.context)


async def _download(server: Server, target: Path, *, with_keys: bool) -> None:
    from steelyard.installation.backup import making
    from steelyard.kube.client.http import HttpClient

    client = HttpClient(server.connection)
    try:
        with _Received(target, "wb") as file:
            await client.download(making.PATH, file, {} if with_keys else {"keys": making.OMIT})
    finally:
        await client.close()


def _from_files(where: DataDir, target: Path, *, with_keys: bool) -> archive.Manifest:
    from steelyard.installation.backup import making
    from steelyard.installation.backup.making import NotReadable

    try:
        return making.from_files(where, target, with_keys=with_keys)
    except NotReadable as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"no backup was made: {error.strerror or error}; free some space and try again") from None
    except AlreadyRunning as error:
        raise CommandError(f"{where.root}: {error}; try again in a moment") from None


def _verified(partial: Path, file: Path) -> archive.Manifest:
    try:
        return archive.verify(partial)
    except archive.BadArchive as error:
        raise CommandError(f"{file} was not made; the archive did not arrive whole: {error}") from None


@contextlib.contextmanager
def _new_file(file: Path) -> Generator[Path]:
    """A file beside the wanted one, readable by its owner only, that takes its name when all went well."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
    except OSError as error:
        raise CommandError(f"cannot write to {file.parent}: {error.strerror}", code=Exit.USAGE) from None
    partial = Path(name)
    try:
        yield partial
        os.fsync(descriptor)
        partial.replace(file)
        durable.sync_directory(file.parent)
    except OSError as error:
        raise CommandError(f"{file} was not made: {error.strerror or error}") from None
    finally:
        os.close(descriptor)
        partial.unlink(missing_ok=True)


def _restore(where: DataDir, file: Path, keys: Path | None, hints: Hints, *, force: bool) -> None:
    from steelyard.installation.backup import restoring

    for given in (file, keys):
        if given is not None and not given.is_file():
            raise CommandError(f"there is no file {given}", code=Exit.USAGE)
    try:
        from steelyard import app  # here, as other commands do without it

        now = datetime.datetime.now(datetime.UTC)
        providers = offered.providers(app.PROVIDERS)
        done = restoring.restore(file, where, force=force, now=now, keys_file=keys, providers=providers)
    except AlreadyRunning as error:
        raise CommandError(f"{where.root}: {error}.\nEnd it first with: {hints.steelyard('down')}") from None
    except (archive.BadArchive, restoring.BadKeys, restoring.NoRoom, restoring.WouldReplace) as error:
        raise CommandError(f"nothing was restored: {error}") from None
    if done.earlier is not None:
        output.note(f"a restore that had been interrupted was finished first; {done.earlier}")
    output.note(f"restored {done.objects} objects as of {done.manifest.time}, revision {done.manifest.revision}")
    output.note(f"  revisions go on from {done.revision}: clients that watched before list again by themselves")
    if done.kept is not None:
        output.note(f"  what was there before is in {done.kept}")
    if done.held:
        output.note(
            f"  {done.held} machines cannot be deleted until you agree. Start the platform, compare what it wants with "
            "what runs, then:"
        )
        hooks = " ".join(f"{hook}-" for hook in restoring.HOOKS)
        output.note(f"    kubectl annotate machines.cluster.x-k8s.io -A --all {hooks}")
    if done.unknown:
        output.note("  These machines run, and the restored state does not know them; nothing will remove them:")
        for each in done.unknown:
            output.note(f"    {each}")
