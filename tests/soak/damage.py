"""One byte of a database changed, thousands of times, in every region of its files: it is told, or it changes nothing.

The store has what a platform's has: large and small values, encrypted ones, updates, deletions, a compaction. Its files
are taken twice: closed, where everything is in the database, and as a killed process leaves them, where everything is
in the write-ahead log. Each trial opens such files with one byte changed and compares every key, value and revision.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from steelyard.kube.store import acknowledged, errors
from steelyard.kube.store.sealing import Sealer
from steelyard.kube.store.store import Store

State = dict[str, tuple[int, bytes]]

_KEYS: Final = [bytes(range(32))]
_PAGE: Final = 4096
_WAL_HEADER: Final = 32
_FRAME_HEADER: Final = 24
_LARGE: Final = 9000
"""Bytes of a value that does not fit into a page."""


@dataclass(frozen=True, slots=True)
class Files:
    """A store's files, by the end of their names, and what they hold."""

    content: dict[str, bytes]
    state: State
    revision: int


@dataclass(slots=True)
class Figures:
    """What became of the changed bytes, by region: told, harmless, or wrong."""

    outcomes: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter[str]))
    wrong: list[str] = field(default_factory=list[str])

    @property
    def flips(self) -> int:
        return sum(sum(counted.values()) for counted in self.outcomes.values())

    def table(self) -> str:
        lines = [f"{'region':42}{'changed':>8}{'told':>8}{'harmless':>9}{'wrong':>7}"]
        for region, counted in sorted(self.outcomes.items()):
            total = sum(counted.values())
            lines.append(f"{region:42}{total:8}{counted['told']:8}{counted['harmless']:9}{counted['wrong']:7}")
        return "\n".join(lines)


async def campaign(folder: Path, random_: random.Random, flips: int) -> Figures:
    """Spreads the flips evenly over the regions, so that a small one is not left out; larger ones take what is left."""
    figures = Figures()
    for files in (await closed(folder), await killed(folder)):
        regions: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for end, content in files.content.items():
            for region, start, stop in _regions(end, content):
                regions[region].extend((end, position) for position in range(start, stop))
        left = flips // 2
        smallest_first = sorted(regions.items(), key=lambda item: len(item[1]))
        for done, (region, positions) in enumerate(smallest_first):
            share = min(max(1, left // (len(regions) - done)), len(positions))
            left -= share
            for end, position in random_.sample(positions, share):
                outcome = await _trial(folder, files, end, position, random_.randrange(1, 256))
                figures.outcomes[region][outcome.partition(":")[0]] += 1
                if outcome.startswith("wrong"):
                    figures.wrong.append(f"byte {position} of the {end or 'database'} ({region}): {outcome}")
    return figures


async def closed(folder: Path) -> Files:
    store = await _filled(folder / "closed.db")
    state, revision = _state(store), store.revision
    await store.close()
    return _taken(folder / "closed.db", state, revision)


async def killed(folder: Path) -> Files:
    store = await _filled(folder / "killed.db")
    files = await asyncio.to_thread(_taken, folder / "killed.db", _state(store), store.revision)
    await store.close()
    return files


async def _filled(path: Path) -> Store:
    """In few commits, so that the write-ahead log has no space reserved and stays small."""
    store = await _open(path)

    async def put(numbers: Sequence[int], size: int) -> None:
        await asyncio.gather(*(store.put(_key(number), _Value(size)) for number in numbers))

    await put(range(80), 60)
    await put(range(0, 80, 11), _LARGE)
    await put(range(0, 80, 3), 200)
    await asyncio.gather(*(store.delete(_key(number)) for number in range(5, 80, 10)))
    await store.compact(store.revision)
    await put(range(0, 80, 8), 90)
    await put(range(0, 80, 16), _LARGE)
    return store


class _Value:
    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, revision: int) -> bytes:
        return b'{"metadata":{"resourceVersion":"%d"},"text":"%s"}' % (revision, b"x" * self._size)


def _key(number: int) -> str:
    return f"main/core/{'secrets' if number % 4 == 0 else 'configmaps'}/default/{number:03}"


def _open(path: Path) -> asyncio.Future[Store]:
    return asyncio.ensure_future(Store.open(path, fsync=False, sealer=Sealer(_KEYS)))


def _state(store: Store) -> State:
    return {record.key: (record.revision, record.value) for record in store.scan("")}


def _taken(path: Path, state: State, revision: int) -> Files:
    found = {end: path.with_name(path.name + end) for end in ("", "-wal", acknowledged.SUFFIX)}
    content = {end: file.read_bytes() for end, file in found.items() if file.exists()}
    return Files({end: each for end, each in content.items() if each}, state, revision)


async def _trial(folder: Path, files: Files, end: str, position: int, change: int) -> str:
    path = folder / "trial.db"
    await asyncio.to_thread(_lay_out, path, files, end, position, change)
    try:
        store = await _open(path)
    except (errors.Corrupt, errors.CannotDecrypt):
        return "told"
    except Exception as error:
        return f"wrong: not told as damage, but as {error!r}"
    try:
        if (_state(store), store.revision) != (files.state, files.revision):
            return f"wrong: revision {store.revision} instead of {files.revision}, or other objects"
        return await _history(store)
    finally:
        await store.close()


async def _history(store: Store) -> str:
    """What a watch from the oldest retained revision gets; it, too, may be told but not wrong."""
    watch = store.watch("", store.compacted)
    try:
        async with asyncio.timeout(60):
            revisions = [(await anext(watch)).revision for _ in range(store.revision - store.compacted)]
    except errors.Corrupt:
        return "told" if store.check() else "wrong: damage was found, and the store says that all is well"
    finally:
        watch.close()
    complete = revisions == list(range(store.compacted + 1, store.revision + 1))
    return "harmless" if complete else f"wrong: a watch got {revisions}"


def _lay_out(path: Path, files: Files, end: str, position: int, change: int) -> None:
    for suffix in ("", "-wal", "-shm", acknowledged.SUFFIX):
        file = path.with_name(path.name + suffix)
        file.unlink(missing_ok=True)
        if suffix in files.content:
            content = bytearray(files.content[suffix])
            if suffix == end:
                content[position] ^= change
            file.write_bytes(content)


def _regions(end: str, content: bytes) -> Iterator[tuple[str, int, int]]:
    if end == acknowledged.SUFFIX:
        yield "mark: acknowledged revision", 0, len(content)
    elif end == "-wal":
        yield "write-ahead log: header", 0, _WAL_HEADER
        for start in range(_WAL_HEADER, len(content) - _PAGE, _FRAME_HEADER + _PAGE):
            yield "write-ahead log: frame header", start, start + _FRAME_HEADER
            yield "write-ahead log: page in a frame", start + _FRAME_HEADER, start + _FRAME_HEADER + _PAGE
    else:
        yield "database: file header", 0, 100
        for start in range(0, len(content), _PAGE):
            yield from _page_regions(content, start)


def _page_regions(content: bytes, page: int) -> Iterator[tuple[str, int, int]]:
    """See "B-tree Pages" in SQLite's description of its file format."""
    start = page + 100 if page == 0 else page
    kind = {2: "inner", 5: "inner", 10: "leaf", 13: "leaf"}.get(content[start])
    if kind is None:
        yield "database: overflow or free page", page, page + _PAGE
        return
    header = 12 if kind == "inner" else 8
    cells = int.from_bytes(content[start + 3 : start + 5], "big")
    first = int.from_bytes(content[start + 5 : start + 7], "big") or _PAGE
    yield f"database: {kind} page, header", start, start + header
    yield f"database: {kind} page, cell pointers", start + header, start + header + 2 * cells
    yield "database: unused space in a page", start + header + 2 * cells, page + first
    yield f"database: {kind} page, cells", page + first, page + _PAGE
