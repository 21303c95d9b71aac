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
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson

from steelyard.api import resources
from steelyard.api.clusterapi.resources import MACHINES
from steelyard.kube.store import reserve
from tests.harness import ROOT, PlatformProcess
from tests.soak.site import CONFIG_MAPS, Site, config_map

_MEGABYTES: Final = 64
_MEGABYTES_A_ROUND: Final = 32
"""Each time it is full there is more on it that stays."""
_WAYS: Final = (("unshare", "--mount"), ("unshare", "--map-root-user", "--mount"))
_CHUNK: Final = 1 << 20
_LINES: Final = 60
_ROOM_FOR_RESERVE: Final = reserve.SIZE + _CHUNK
_CLAIMS: Final = resources.workload_clusters("steelyard.dev")
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

    def leave(self, size: int) -> None:
        """All but so many bytes."""
        self.fill()
        os.truncate(self._path, self._path.stat().st_size - size)

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
        self.deletions = 0
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

    async def until_ready(self) -> None:
        for _ in range(1000):
            code, _ = await self.ready()
            if code == 200:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("space is there again, and nobody noticed")

    async def delete(self, number: int) -> None:
        """So many of the acknowledged objects, each of which must be deleted at once."""
        for name in self.random.sample(sorted(self.acknowledged), number):
            code, answer = await self.site.call("DELETE", f"{CONFIG_MAPS}/{name}")
            assert code == 200, answer
            del self.acknowledged[name]
            self.deletions += 1

    async def claim(self) -> None:
        """A cluster, with machines and all that belongs to them."""
        spec = {"parameters": {"environment": "dev", "workerReplicas": 1}}
        body = {"apiVersion": _CLAIMS.api_version, "kind": _CLAIMS.kind, "metadata": {"name": "shop"}, "spec": spec}
        code, answer = await self.site.call("POST", _CLAIMS.path("default"), body)
        assert code == 201, answer
        claim: Any = None
        for _ in range(1000):
            _, claim = await self.site.call("GET", _CLAIMS.path("default", "shop"))
            conditions = claim.get("status", {}).get("conditions", [])
            if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(claim)

    async def delete_claim(self) -> None:
        """Everything of it, on a disk that is full."""
        code, answer = await self.site.call("DELETE", _CLAIMS.path("default", "shop"))
        assert code == 200, answer
        claim: Any = None
        for _ in range(1200):
            code, claim = await self.site.call("GET", _CLAIMS.path("default", "shop"))
            _, machines = await self.site.call("GET", MACHINES.path("default"))
            if code == 404 and not machines["items"]:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(claim)


async def scene(folder: Path, seed: int, rounds: int) -> str:
    random_ = random.Random(seed)
    ballast = Ballast(folder)
    with PlatformProcess(folder / "platform") as platform, _told(platform):
        await asyncio.to_thread(_start_in_vain, platform, ballast)
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
    return (
        f"{rounds} times full: {len(played.acknowledged)} writes acknowledged and there, {played.refusals} refused, "
        f"{played.deletions} deleted while full"
    )


@contextlib.contextmanager
def _told(platform: PlatformProcess) -> Generator[None]:
    """What the platform said last goes with what is wrong: its files are gone with the namespace."""
    try:
        yield
    except AssertionError as error:
        error.add_note("\n".join(platform.log.read_text().splitlines()[-_LINES:]))
        raise


def _start_in_vain(platform: PlatformProcess, ballast: Ballast) -> None:
    """The first start needs space, and says so."""
    ballast.fill()
    command = [sys.executable, "-m", "steelyard", "up", "--port", "0", "--data-dir", str(platform.data_dir.root)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    ballast.remove()
    assert done.returncode == 1, done
    assert "No space left" in done.stderr or "the disk is full" in done.stderr, done.stderr
    for word in ("Traceback", "steelyard up", "--port"):
        assert word not in done.stderr, done.stderr


async def _back_up_in_vain(played: Scene) -> None:
    """Neither on the platform's disk nor on that of whoever asks for it; a clear word, and nothing left."""
    target = played.platform.data_dir.root.parent / "backup.tar"
    command = [sys.executable, "-m", "steelyard", "backup", str(target)]
    command += ["--data-dir", str(played.platform.data_dir.root)]
    done = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in (1, 2), done
    assert "Traceback" not in done.stderr, done.stderr
    assert "full" in done.stderr or "No space" in done.stderr, done.stderr
    left = [path.name for path in target.parent.iterdir() if "backup" in path.name]
    assert left == [], left


async def _fill_and_free(played: Scene, ballast: Ballast) -> None:
    await asyncio.to_thread(ballast.fill)
    refusal, wait = await played.write_until_refused()
    assert (refusal["kind"], refusal["code"], refusal["reason"]) == ("Status", 503, "ServiceUnavailable"), refusal
    assert "the disk is full: nothing was written" in refusal["message"], refusal
    assert f"free some space for {played.platform.data_dir.database} and try again" in refusal["message"], refusal
    assert wait == "1", wait
    await played.check()
    await played.use_up_the_rest()
    kept = next(iter(played.acknowledged))
    for verb, path, body in (
        ("POST", CONFIG_MAPS, config_map("refused")),
        ("PUT", f"{CONFIG_MAPS}/{kept}", config_map(kept, "changed")),
    ):
        code, answer = await played.site.call(verb, path, body)
        assert code == 503, (verb, code, answer)
        played.refusals += 1
    await _back_up_in_vain(played)
    await played.delete(len(played.acknowledged) // 2)
    code, text = await played.ready()
    assert (code, "[-]store failed: reason withheld" in text) == (500, True), text
    code, text = await played.site.call("GET", "/readyz/store")
    assert (code, "the disk is full" in text) == (500, True), text
    await played.check()
    pid = played.platform.process and played.platform.process.pid
    await asyncio.to_thread(ballast.remove)
    await played.until_ready()
    assert played.platform.data_dir.reserve.stat().st_blocks, "the next time it is full there is nothing to use"
    code, answer, _ = await played.write(5000)
    assert code == 201, answer
    assert played.platform.process is not None
    assert played.platform.process.pid == pid, "it was started anew"
    await played.check()


async def _fill_and_kill(played: Scene, ballast: Ballast) -> None:
    """Killed while full, and ended while full: it starts without space, serves, and deletes everything there is."""
    await played.claim()
    await asyncio.to_thread(ballast.fill)
    await played.write_until_refused()
    played.platform.kill()
    for end in (played.platform.kill, played.platform.terminate):
        await asyncio.to_thread(played.platform.start)
        played.site.look()
        code, listed = await played.site.call("GET", CONFIG_MAPS)
        assert code == 200
        assert played.acknowledged.keys() <= {item["metadata"]["name"] for item in listed["items"]}
        code, answer, _ = await played.write(1)
        assert code == 503, answer
        await played.delete(len(played.acknowledged) // 3)
        end()
    # When it starts there is room for the reserve, and hardly any when it has: nobody writes into that.
    await asyncio.to_thread(ballast.leave, _ROOM_FOR_RESERVE + played.random.randrange(_CHUNK))
    await asyncio.to_thread(played.platform.start)
    played.site.look()
    await played.write_until_refused()
    await played.delete_claim()
    await played.delete(len(played.acknowledged))
    await asyncio.to_thread(ballast.remove)
    await played.until_ready()
    code, answer, _ = await played.write(1000)
    assert code == 201, answer


if __name__ == "__main__":
    assert os.path.ismount(sys.argv[1])
    print(asyncio.run(scene(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
