"""A disk that is really full: a small file system of its own, in a mount namespace that ends with the process.

    python -m tests.soak.disk FOLDER        inside the namespace, with the file system on FOLDER

Filled to the last byte, given space again, filled again and killed while full. In between: what writers are told, that
readers and watchers go on, and that everything acknowledged is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson

from tests.harness import ROOT, DidNotStart, PlatformProcess
from tests.soak.site import CONFIG_MAPS, Site, config_map

_MEGABYTES: Final = 64
_MEGABYTES_A_ROUND: Final = 32
"""Each time it is full there is more on it that stays."""
_WAYS: Final = (("unshare", "--mount"), ("unshare", "--map-root-user", "--mount"))
_CHUNK: Final = 1 << 20
_WRITES_BEFORE: Final = 30
"""Enough for the store to reserve space for its log, which is then used up as well."""


class Impossible(Exception):
    """No file system can be mounted here; the message says why."""


def run(folder: Path, seed: int, rounds: int) -> str:
    """The figures, from a process in a namespace of its own. Raises Impossible and AssertionError."""
    mount = _mount(_MEGABYTES + _MEGABYTES_A_ROUND * rounds)
    way = _way(folder, mount)
    program = [sys.executable, "-m", "tests.soak.disk", str(folder), str(seed), str(rounds)]
    done = subprocess.run([*way, "sh", "-c", mount, str(folder), *program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


def _mount(megabytes: int) -> str:
    return f'mount -t tmpfs -o size={megabytes}m tmpfs "$0" && exec "$@"'


def _way(folder: Path, mount: str) -> tuple[str, ...]:
    complaints: list[str] = []
    for way in _WAYS:
        try:
            tried = subprocess.run(
                [*way, "sh", "-c", mount, str(folder), "true"], capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            raise Impossible("there is no unshare on the PATH") from None
        if tried.returncode == 0:
            return way
        complaints.append(tried.stderr.strip())
    raise Impossible(f"no file system can be mounted: {'; '.join(complaints)}")


class Ballast:
    """What takes the space that is left."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ballast"

    def fill(self) -> None:
        with contextlib.suppress(OSError), self._path.open("ab", buffering=0) as file:
            for size in _sizes():
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def _sizes() -> Iterator[int]:
    size = _CHUNK
    while size:
        yield size
        size //= 4


class Scene:
    """The platform on the small disk, its acknowledged objects, and a watch of them."""

    def __init__(self, platform: PlatformProcess, site: Site, random_: random.Random) -> None:
        self.platform = platform
        self.site = site
        self.random = random_
        self.acknowledged: dict[str, str] = {}
        """The text of each object."""
        self.watched: dict[str, str] = {}
        self.refusals = 0
        self._number = 0

    async def write_until_refused(self) -> tuple[Any, str]:
        """Objects of any size; the first refusal, with what it asks the client to wait."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            code, answer, wait = await self.write(self.random.choice((10, 1000, 30_000)))
            if code != 201:
                return answer, wait
        raise AssertionError("no write was ever refused")

    async def use_up_the_rest(self) -> None:
        """A large write that fails leaves room for small ones; until there is none for the smallest either."""
        refused_in_a_row = 0
        while refused_in_a_row < 3:
            code, _, _ = await self.write(1)
            refused_in_a_row = 0 if code == 201 else refused_in_a_row + 1

    async def write(self, size: int) -> tuple[int, Any, str]:
        self._number += 1
        name, text = f"n{self._number}", f"{self._number}-" + "x" * size
        async with self.site.session.post(self.site.url + CONFIG_MAPS, json=config_map(name, text)) as response:
            answer = orjson.loads(await response.read())
            if response.status == 201:
                self.acknowledged[name] = text
            else:
                self.refusals += 1
            return response.status, answer, response.headers.get("Retry-After", "")

    async def follow(self) -> None:
        """Until cancelled or the platform ends."""
        timeout = aiohttp.ClientTimeout(total=None)
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with self.site.session.get(f"{self.site.url}{CONFIG_MAPS}?watch=1", timeout=timeout) as response:
                async for line in response.content:
                    obj = orjson.loads(line)["object"]
                    self.watched[obj["metadata"]["name"]] = obj.get("data", {}).get("text", "")

    async def check(self) -> None:
        """What is there is what was acknowledged, to a reader and to the watcher."""
        code, listed = await self.site.call("GET", CONFIG_MAPS)
        assert code == 200, listed
        shown = {item["metadata"]["name"]: item.get("data", {}).get("text", "") for item in listed["items"]}
        ours = {name: text for name, text in shown.items() if name.startswith("n")}
        assert ours == self.acknowledged, f"{ours.keys() ^ self.acknowledged.keys()}"
        for _ in range(200):
            if self.acknowledged.items() <= self.watched.items():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"the watch lacks {self.acknowledged.keys() - self.watched.keys()}")

    async def ready(self) -> tuple[int, str]:
        return await self.site.call("GET", "/readyz")


async def scene(folder: Path, seed: int, rounds: int) -> str:
    random_ = random.Random(seed)
    ballast = Ballast(folder)
    with PlatformProcess(folder / "platform") as platform:
        await asyncio.to_thread(platform.start)
        async with Site(platform) as site:
            site.look()
            played = Scene(platform, site, random_)
            for number in range(rounds):
                following = asyncio.create_task(played.follow())
                for _ in range(_WRITES_BEFORE):
                    await played.write(100)
                await _fill_and_free(played, ballast)
                if number % 2:
                    await _fill_and_kill(played, ballast)
                    site.look()
                    played.watched = {}
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            await played.write(100)
            log = platform.log.read_text()
            assert "Traceback" not in log, log[-3000:]
    return f"{rounds} times full: {len(played.acknowledged)} writes acknowledged and there, {played.refusals} refused"


async def _fill_and_free(played: Scene, ballast: Ballast) -> None:
    await asyncio.to_thread(ballast.fill)
    refusal, wait = await played.write_until_refused()
    assert (refusal["kind"], refusal["code"], refusal["reason"]) == ("Status", 503, "ServiceUnavailable"), refusal
    assert "the disk is full: nothing was written" in refusal["message"], refusal
    assert f"free some space for {played.platform.data_dir.database} and try again" in refusal["message"], refusal
    assert wait == "1", wait
    await played.check()
    await played.use_up_the_rest()
    for verb, path, body in (
        ("POST", CONFIG_MAPS, config_map("refused")),
        ("PUT", f"{CONFIG_MAPS}/n1", config_map("n1", "changed")),
        ("DELETE", f"{CONFIG_MAPS}/n1", None),
    ):
        code, answer = await played.site.call(verb, path, body)
        assert code == 503, (verb, code, answer)
        played.refusals += 1
    code, text = await played.ready()
    assert (code, "[-]store failed: the disk is full" in text) == (500, True), text
    await played.check()
    pid = played.platform.process and played.platform.process.pid
    await asyncio.to_thread(ballast.remove)
    for _ in range(500):
        code, text = await played.ready()
        if code == 200:
            break
        await asyncio.sleep(0.01)
    assert code == 200, f"space is there again, and nobody noticed: {text}"
    code, answer, _ = await played.write(5000)
    assert code == 201, answer
    assert played.platform.process is not None
    assert played.platform.process.pid == pid, "it was started anew"
    await played.check()


async def _fill_and_kill(played: Scene, ballast: Ballast) -> None:
    """Killed while full. Without space it may start or say why not; with space it starts, and all is there."""
    await asyncio.to_thread(ballast.fill)
    await played.write_until_refused()
    played.platform.kill()
    told = ""
    try:
        await asyncio.to_thread(played.platform.start)
    except DidNotStart as error:
        told = str(error)
    played.platform.kill()
    assert "Traceback" not in told, told
    assert not told or "No space left" in told or "full" in told, told
    await asyncio.to_thread(ballast.remove)
    await asyncio.to_thread(played.platform.start)
    played.site.look()
    code, listed = await played.site.call("GET", CONFIG_MAPS)
    assert code == 200
    assert played.acknowledged.keys() <= {item["metadata"]["name"] for item in listed["items"]}


if __name__ == "__main__":
    assert os.path.ismount(sys.argv[1])
    print(asyncio.run(scene(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
