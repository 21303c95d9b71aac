"""A restore that is killed or fails anywhere: all of the old, or all of the new, nothing lost and no key left about."""

from __future__ import annotations

import datetime
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson
import pytest

from steelyard.installation import encryption
from steelyard.installation.backup import making, placing, restoring
from steelyard.installation.datadir import DataDir
from steelyard.kube.store.sealing import Sealer
from steelyard.kube.store.store import Store

NOW: Final = datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC)
OLD_KEY, NEW_KEY = b"o" * 32, b"n" * 32
_STEPS: Final = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree"})
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of one platform, and the data of another that it is to replace."""
    root = tmp_path_factory.mktemp("prepared")
    for name, key in (("new", NEW_KEY), ("old", OLD_KEY)):
        _fill(DataDir(root / name), name, key)
    making.from_files(DataDir(root / "new"), root / "backup.tar")
    return root


def _fill(data_dir: DataDir, word: str, key: bytes) -> None:
    import asyncio

    data_dir.create()
    encryption.save(data_dir.encryption_keys, [key])
    for path in (data_dir.pki / "ca.key", data_dir.kubeconfig, data_dir.remembered):
        path.write_text(word)

    async def write() -> None:
        store = await Store.open(data_dir.database, sealer=Sealer([key]))
        value = {"metadata": {"name": word}}
        await store.put(f"main/core/secrets/default/{word}", lambda _: orjson.dumps(value))
        await store.close()

    asyncio.run(write())


def _state(data_dir: DataDir) -> str:
    """`old` or `new`, if every file says the same."""
    words = {path.read_text() for path in (data_dir.pki / "ca.key", data_dir.kubeconfig, data_dir.remembered)}
    keys = encryption.load(data_dir.encryption_keys)
    assert OLD_KEY in keys, "the world may need it"
    words.add("new" if NEW_KEY in keys else "old")
    log = restoring.Log.open_untouched(data_dir.database, Sealer(keys))
    try:
        words |= {key.rpartition("/")[2] for key in log.load().records}
    finally:
        log.close()
    [word] = words
    return word


def _killed_at(step: int, backup: Path, data_dir: DataDir) -> bool:
    """Restores in a process that dies at its so manieth change of the file system; False if it came to the end."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    count = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        is_writing = event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & _WRITING)
        if is_writing or event in _STEPS:
            count += 1
            if count == step:
                os._exit(9)

    sys.addaudithook(hook)
    try:
        restoring.restore(backup, data_dir, force=True, now=NOW)
    finally:
        os._exit(0)


def _remains(data_dir: DataDir) -> Iterator[Path]:
    yield from data_dir.root.glob("*.tmp")
    yield from data_dir.root.rglob("*.new")
    if data_dir.restoring.exists():
        yield data_dir.restoring


def test_wherever_it_is_killed_the_next_start_finds_all_of_one_or_all_of_the_other(
    prepared: Path, tmp_path: Path
) -> None:
    outcomes: set[tuple[str, bool]] = set()
    step = 0
    was_killed = True
    while was_killed:
        step += 1
        data_dir = DataDir(tmp_path / "data")
        shutil.copytree(prepared / "old", data_dir.root)
        was_killed = _killed_at(step, prepared / "backup.tar", data_dir)
        finished = placing.finish(data_dir)
        placing.clean_up(data_dir)
        found = _state(data_dir)
        outcomes.add((found, finished is not None))
        assert not list(_remains(data_dir)), step
        kept = list(data_dir.root.glob("replaced-*"))
        if found == "new":
            assert [_state(DataDir(each)) for each in kept] == ["old"], step
        else:
            assert kept == [], step
        if finished is not None:
            assert finished.kept == kept[0]
        shutil.rmtree(data_dir.root)
    assert step > 20
    assert outcomes == {("old", False), ("new", True), ("new", False)}


def test_a_restore_after_an_interrupted_one_finishes_that_first_and_names_what_was_kept(
    prepared: Path, tmp_path: Path
) -> None:
    step = 0
    while True:
        step += 1
        data_dir = DataDir(tmp_path / str(step))
        shutil.copytree(prepared / "old", data_dir.root)
        _killed_at(step, prepared / "backup.tar", data_dir)
        if data_dir.restoring.exists() and not (data_dir.root / "kubeconfig").exists():
            break
    with pytest.raises(restoring.WouldReplace, match="restoring"):
        restoring.restore(prepared / "backup.tar", data_dir, force=False, now=NOW)
    done = restoring.restore(prepared / "backup.tar", data_dir, force=True, now=NOW)
    assert done.earlier is not None
    assert done.earlier.kept is not None
    assert _state(DataDir(done.earlier.kept)) == "old"
    assert done.kept is not None
    assert _state(DataDir(done.kept)) == "new"
    assert _state(data_dir) == "new"
    assert not list(_remains(data_dir))


def test_an_error_half_way_is_mended_by_the_next_start(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = DataDir(tmp_path / "data")
    shutil.copytree(prepared / "old", data_dir.root)
    move = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if self.name == "kubeconfig" and "restore-" in str(self):
            raise OSError(5, "Input/output error")
        return move(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", failing)
        with pytest.raises(OSError, match="Input/output"):
            restoring.restore(prepared / "backup.tar", data_dir, force=True, now=NOW)
    finished = placing.finish(data_dir)
    assert finished is not None
    assert _state(data_dir) == "new"
    assert not list(_remains(data_dir))


def test_what_cannot_be_finished_is_told_with_what_is_left(prepared: Path, tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / "data")
    shutil.copytree(prepared / "old", data_dir.root)
    (data_dir.root / "replaced-then").mkdir()
    data_dir.restoring.write_text(
        '{"staging": "restore-x.tmp", "kept": "replaced-then", "aside": [], "place": ["gone"]}'
    )
    with pytest.raises(placing.Interrupted, match=r"gone is neither in place nor in .*restore-x.*replaced-then"):
        placing.finish(data_dir)
    data_dir.restoring.write_text('{"staging": "..", "kept": "a/b", "aside": [], "place": []}')
    with pytest.raises(placing.Interrupted, match="outside"):
        placing.finish(data_dir)


def test_a_restore_that_does_not_fit_writes_nothing(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = DataDir(tmp_path / "data")
    usage = shutil.disk_usage(tmp_path)

    def full(_: Path) -> object:
        return usage._replace(free=1000)

    monkeypatch.setattr(shutil, "disk_usage", full)
    with pytest.raises(restoring.NoRoom, match="MiB are free there"):
        restoring.restore(prepared / "backup.tar", data_dir, force=False, now=NOW)
    assert [path.name for path in data_dir.root.iterdir()] == ["steelyard.pid"]
