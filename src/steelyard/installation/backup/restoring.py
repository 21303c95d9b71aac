"""Restoring a backup: nothing is touched before everything has been checked, and what was there is kept.

The restored state is older than the world. Two things keep that harmless:

- Every object gets a new revision, above all that were handed out before, and history starts there. So no
  `resourceVersion` ever goes back or comes twice, and every watch from before the restore is told to list again. They
  start at the time of the restore in microseconds, which no store can have reached by counting writes.
- Every Machine gets Cluster API's deletion hooks (`.../restored`). A scale-down or a rollout that was under way in the
  backup may have been overtaken since; with the hooks no machine goes away before somebody has looked.

Machines that the restored state does not know are nobody's, and nobody removes them; they are listed.
"""

from __future__ import annotations

import datetime
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import orjson

from steelyard.api.clusterapi.resources import MACHINES
from steelyard.frozen import frozen
from steelyard.installation import datadir, encryption
from steelyard.installation.backup import archive, placing
from steelyard.installation.backup.archive import BadArchive, Manifest
from steelyard.installation.backup.placing import Finished
from steelyard.installation.datadir import DataDir
from steelyard.installation.encryption import BadKeys
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.space import keys
from steelyard.kube.store import acknowledged
from steelyard.kube.store.errors import CannotDecrypt, Corrupt
from steelyard.kube.store.log import Log, Row
from steelyard.kube.store.record import Record
from steelyard.kube.store.sealing import Sealer
from steelyard.providers.toolkit.provider import Provider, Stored, World

HOOKS: Final = (
    "pre-drain.delete.hook.machine.cluster.x-k8s.io/restored",
    "pre-terminate.delete.hook.machine.cluster.x-k8s.io/restored",
)
_SPACE: Final = "main"
"""The platform's own; the clusters' are in the other database."""
_ROWS_AT_ONCE: Final = 500
_SLACK: Final = 1 << 20


class WouldReplace(Exception):
    """There is data in the directory already."""


class NoRoom(Exception):
    """The restored data does not fit on the disk."""


@frozen
class Restored:
    manifest: Manifest
    revision: int
    """Where revisions go on."""
    objects: int
    held: int
    """Machines that wait for somebody's consent before they can be deleted."""
    unknown: Sequence[str]
    """Machines that run and that the restored state does not know."""
    kept: Path | None
    """Where the data that was there before is now."""
    earlier: Finished | None = None
    """A restore that had been interrupted, and was finished before this one."""


def restore(
    source: Path,
    data_dir: DataDir,
    *,
    force: bool,
    now: datetime.datetime,
    keys_file: Path | None = None,
    providers: Sequence[Provider] = (),
) -> Restored:
    """`keys_file` has the encryption keys of a backup that was made without them. `providers` are asked what runs that
    the restored state does not know.

    Raises BadArchive, BadKeys, NoRoom, WouldReplace and AlreadyRunning; then nothing in the directory has changed.
    """
    existing = [path for path in (*_existing(data_dir), data_dir.restoring) if path.exists()]
    if existing and not force:
        raise WouldReplace(
            f"{data_dir.root} holds a platform's data ({', '.join(path.name for path in existing)}). "
            "Choose another --data-dir, or use --force: what is there is then kept aside, not deleted."
        )
    data_dir.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    hold = datadir.Hold(data_dir)
    try:
        manifest = archive.verify(source)
        _check_room(data_dir, manifest)
        earlier = placing.finish_or_forget(data_dir)
        placing.clean_up(data_dir)
        staging = placing.staging(data_dir)
        try:
            return _restore(source, data_dir, staging, now, keys_file, earlier, providers)
        finally:
            placing.abandon(data_dir, staging)
    finally:
        hold.release()


def _check_room(data_dir: DataDir, manifest: Manifest) -> None:
    """Twice the database: as it is in the archive, and as it is written from that."""
    wanted = sum(entry.size for entry in manifest.files.values()) + manifest.files[archive.DATABASE].size + _SLACK
    free = shutil.disk_usage(data_dir.root).free
    if wanted > free:
        raise NoRoom(
            f"it takes {wanted / (1 << 20):.0f} MiB in {data_dir.root}, and {free / (1 << 20):.0f} MiB are free there"
        )


def _restore(
    source: Path,
    data_dir: DataDir,
    staging: Path,
    now: datetime.datetime,
    keys_file: Path | None,
    earlier: Finished | None,
    providers: Sequence[Provider],
) -> Restored:
    manifest = archive.unpack(source, staging)
    unpacked = staging / archive.DATABASE
    sealer = encryption.sealer(_keys(data_dir, staging, keys_file))
    records = _checked(unpacked, source, manifest, sealer)
    base = max(int(now.timestamp() * 1_000_000), manifest.revision, _newest_revision(data_dir.database))
    machines = keys.collection(_SPACE, MACHINES.group, MACHINES.plural)
    unpacked.unlink()
    revision = _write(unpacked, records, base, machines, sealer)
    world = _world(data_dir, records, sealer)
    unknown = [each for provider in providers for each in provider.unknown(world)]
    kept = placing.replace(data_dir, staging, _existing(data_dir), now).kept
    held = sum(1 for record in records if record.key.startswith(machines))
    return Restored(manifest, revision, len(records), held, unknown, kept, earlier)


def _keys(data_dir: DataDir, staging: Path, keys_file: Path | None) -> list[bytes]:
    """All keys there are: the world, which stays, may be encrypted with newer ones than the backup has."""
    (staging / archive.PKI).mkdir(mode=0o700, exist_ok=True)
    target = staging / archive.PKI / data_dir.encryption_keys.name
    found = [*encryption.load(data_dir.encryption_keys), *encryption.load(target)]
    if keys_file is not None:
        found += encryption.load(keys_file)
    keys = list(dict.fromkeys(found)) or [encryption.new_key()]
    encryption.save(target, keys)
    return keys


def _checked(database: Path, source: Path, manifest: Manifest, sealer: Sealer) -> list[Record]:
    """The objects in the order they were written in."""
    try:
        log = Log.open(database, sealer=sealer)
        try:
            loaded = log.load()
        finally:
            log.close()
    except (Corrupt, sqlite3.Error) as error:
        raise BadArchive(f"{source} is damaged: {error}") from error
    except CannotDecrypt as error:
        raise BadKeys(f"{error}. The backup was made without keys: give them with --keys FILE") from error
    if loaded.revision != manifest.revision:
        raise BadArchive(
            f"{source} is damaged: its database is at revision {loaded.revision}, its manifest says {manifest.revision}"
        )
    return sorted(loaded.records.values(), key=lambda record: record.revision)


def _newest_revision(database: Path) -> int:
    """Of the data that is replaced, as far as it can be read."""
    known = acknowledged.read(database)
    if not database.exists():
        return known
    try:
        log = Log.open_untouched(database)
        try:
            return max(known, log.newest())
        finally:
            log.close()
    except (Corrupt, sqlite3.Error):
        return known


def _write(target: Path, records: Sequence[Record], base: int, machines: str, sealer: Sealer) -> int:
    """A log of these objects, each as if written just now, without history."""
    log = Log.open(target, sealer=sealer)
    try:
        revision = base
        rows: list[Row] = []
        for record in records:
            revision += 1
            obj = _renewed(record.object, revision, held=record.key.startswith(machines))
            rows.append(log.row(revision, record.key, 0, 0, orjson.dumps(obj)))
            if len(rows) == _ROWS_AT_ONCE:
                log.append(rows)
                rows = []
        if rows:
            log.append(rows)
        log.begin_at(revision)
        return revision
    finally:
        log.close()


def _renewed(obj: Object, revision: int, *, held: bool) -> Object:
    metadata: Object = {**objects.metadata(obj), "resourceVersion": str(revision)}
    if held:
        metadata["annotations"] = {**objects.annotations(obj), **dict.fromkeys(HOOKS, "")}
    return {**obj, "metadata": metadata}


def _world(data_dir: DataDir, records: Sequence[Record], sealer: Sealer) -> World:
    def restored(resource: Resource) -> list[Object]:
        prefix = keys.collection(_SPACE, resource.group, resource.plural)
        return [record.object for record in records if record.key.startswith(prefix)]

    def read(database: str) -> Iterator[Stored]:
        path = data_dir.provider_database(database)
        if not path.exists():
            return
        try:
            log = Log.open_untouched(path, sealer)
            try:
                found = log.load().records
            finally:
                log.close()
        except (Corrupt, CannotDecrypt, sqlite3.Error):
            # It stays as it is; `up` says what is wrong with it.
            return
        for key, record in found.items():
            space, group, plural, *_ = key.split("/")
            yield Stored(space, group, plural, record.object)

    return World(restored, read)


def _existing(data_dir: DataDir) -> list[Path]:
    """What a restore puts aside, if there is anything of it."""
    database = data_dir.database
    beside = [database.with_name(database.name + end) for end in ("-wal", "-shm", acknowledged.SUFFIX)]
    paths = (data_dir.database, *beside, data_dir.kubeconfig, data_dir.remembered, data_dir.pki)
    return [path for path in paths if path.exists() and not (path.is_dir() and not any(path.iterdir()))]
