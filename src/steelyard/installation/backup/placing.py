"""Putting restored files in the place of those that are there, so that it can be interrupted anywhere.

Everything that is to be put in place is ready, checked and durable in a directory of its own before the first file is
moved. Then a mark is written that says what goes where; from there on there is only one way, forward: whoever finds the
mark (the next start, or the next restore) moves what has not been moved yet. Before the mark nothing has changed.

    {"staging": "restore-x.tmp", "kept": "replaced-…", "aside": ["pki", …], "place": ["pki", …]}
"""

from __future__ import annotations

import datetime
import json
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from steelyard import durable
from steelyard.frozen import frozen
from steelyard.installation.backup import archive
from steelyard.installation.datadir import DataDir

_STAGING: Final = "restore-"
_NAMES: Final = (archive.PKI, archive.KUBECONFIG, archive.REMEMBERED, archive.DATABASE)


class Interrupted(Exception):
    """A restore was interrupted, and what it takes to finish it is not there. The message says what is."""


@frozen
class Finished:
    kept: Path | None
    """Where what was there before is; None if there was nothing."""

    def __str__(self) -> str:
        return f"what was there before is in {self.kept}" if self.kept is not None else "there was nothing before"


@frozen
class _Plan:
    staging: str
    kept: str
    aside: Sequence[str]
    place: Sequence[str]

    def encoded(self) -> bytes:
        return json.dumps(
            {"staging": self.staging, "kept": self.kept, "aside": list(self.aside), "place": list(self.place)}
        ).encode()


def staging(data_dir: DataDir) -> Path:
    """A directory to make everything ready in, for the owner only."""
    return Path(tempfile.mkdtemp(prefix=_STAGING, suffix=".tmp", dir=data_dir.root))


def replace(data_dir: DataDir, ready: Path, existing: Sequence[Path], now: datetime.datetime) -> Finished:
    """Moves `existing` aside and what is in the directory `ready` in its place."""
    for directory in (ready / archive.PKI, ready, data_dir.root):
        if directory.is_dir():
            durable.sync_directory(directory)
    plan = _Plan(
        staging=ready.name,
        kept=f"replaced-{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}" if existing else "",
        aside=[path.name for path in existing],
        place=[name for name in _NAMES if (ready / name).exists()],
    )
    durable.write(data_dir.restoring, plan.encoded())
    return _carry_out(data_dir, plan)


def finish(data_dir: DataDir) -> Finished | None:
    """Finishes what was interrupted; None if nothing was. Raises Interrupted. Safe to be interrupted itself."""
    if not data_dir.restoring.exists():
        return None
    return _carry_out(data_dir, _read(data_dir))


def finish_or_forget(data_dir: DataDir) -> Finished | None:
    """For a restore that replaces everything anyway: what cannot be finished is left as it is."""
    try:
        return finish(data_dir)
    except Interrupted:
        return None


def abandon(data_dir: DataDir, ready: Path) -> None:
    """Removes what was made ready, unless it is being put in place: then it is what there is of it."""
    if ready.name != _in_use(data_dir):
        shutil.rmtree(ready, ignore_errors=True)


def clean_up(data_dir: DataDir) -> None:
    """Removes what a process left that was killed before it changed anything: there are private keys in it."""
    for left in data_dir.root.glob(f"{_STAGING}*.tmp"):
        abandon(data_dir, left)
    for directory in (data_dir.root, data_dir.pki):
        durable.clean_up(directory)


def _in_use(data_dir: DataDir) -> str:
    try:
        return _read(data_dir).staging
    except (FileNotFoundError, Interrupted):
        return ""


def _carry_out(data_dir: DataDir, plan: _Plan) -> Finished:
    root = data_dir.root
    ready, kept = root / plan.staging, root / plan.kept if plan.kept else None
    missing = [name for name in plan.place if not (ready / name).exists() and not (root / name).exists()]
    if missing:
        raise _interrupted(data_dir, f"{', '.join(missing)} is neither in place nor in {ready}")
    if kept is not None:
        kept.mkdir(mode=0o700, exist_ok=True)
        for name in plan.aside:
            # What has been put aside already is not looked for again: by now the new one may be in its place.
            if (root / name).exists() and not (kept / name).exists():
                (root / name).replace(kept / name)
        durable.sync_directory(kept)
    for name in plan.place:
        if (ready / name).exists():
            (ready / name).replace(root / name)
    durable.sync_directory(root)
    shutil.rmtree(ready, ignore_errors=True)
    durable.remove(data_dir.restoring)
    return Finished(kept)


def _read(data_dir: DataDir) -> _Plan:
    try:
        fields = cast("dict[str, Any]", json.loads(data_dir.restoring.read_bytes()))
        plan = _Plan(str(fields["staging"]), str(fields["kept"]), list(fields["aside"]), list(fields["place"]))
    except (ValueError, KeyError, TypeError):
        raise _interrupted(data_dir, f"{data_dir.restoring} cannot be read") from None
    if any("/" in name for name in (plan.staging, plan.kept, *plan.aside, *plan.place)):
        raise _interrupted(data_dir, f"{data_dir.restoring} names files outside of the directory")
    return plan


def _interrupted(data_dir: DataDir, problem: str) -> Interrupted:
    kept = ", ".join(sorted(str(path) for path in data_dir.root.glob("replaced-*")))
    return Interrupted(
        f"{data_dir.root}: a restore was interrupted and cannot be finished: {problem}. Run it again: steelyard "
        "restore FILE --force" + (f". What was there before is in {kept}" if kept else "")
    )
