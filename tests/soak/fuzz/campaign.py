"""Runs the fuzzer against a server in a process of its own, watching the server all the while.

Besides the answers it looks at what a user would notice: an ordinary request goes in between all the time and must be
answered, memory must not grow without end, nothing unforeseen may be in the log, and the process must live.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from tests.conformance import keys, ours, replay
from tests.conformance.replay import Server
from tests.harness import ROOT
from tests.soak.fuzz import mutation, rawhttp, seeds, situation
from tests.soak.fuzz.findings import Finding, Findings, minimised, signature
from tests.soak.fuzz.request import Request
from tests.soak.fuzz.wire import Answer, NoAnswer, Wire

AT_ONCE: Final = 8
KEYS: Final = "keys"
"""What both servers trust, in the campaign's folder."""
RAW_SHARE: Final = 0.03
RAW_SECONDS: Final = 0.2
_PROBE_SECONDS: Final = 0.05
_REPORT_EVERY: Final = 5000
_ASKED_EVERY: Final = 20
_DEFINITIONS: Final = 12
_EXPECTED_IN_LOG: Final = "Invalid HTTP request received."

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Target:
    server: Server
    process: asyncio.subprocess.Process
    log: Path

    @property
    def token(self) -> str:
        return self.server.tokens[replay.ADMIN]

    def megabytes(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0


@dataclass(slots=True)
class Figures:
    sent: int = 0
    codes: Counter[int] = field(default_factory=Counter[int])
    unanswered: int = 0
    """Broken HTTP that got a closed connection instead of an answer."""
    silent: list[str] = field(default_factory=list[str])
    """Well-formed requests without an answer."""
    findings: list[Finding] = field(default_factory=list[Finding])
    slowest_probe: float = 0.0
    failed_probes: list[str] = field(default_factory=list[str])
    memory: tuple[float, float] = (0.0, 0.0)
    """Megabytes after the first tenth, and at the end."""
    logged: str = ""
    seconds: float = 0.0

    def problems(self) -> list[str]:
        found = [finding.text() for finding in self.findings if finding.is_ours_alone]
        found += [f"no answer: {each}" for each in self.silent[:5]]
        found += [f"an ordinary request in between: {each}" for each in self.failed_probes[:5]]
        if self.logged:
            found.append(f"in the server's log:\n{self.logged}")
        return found

    def summary(self) -> str:
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(self.codes.items()))
        return (
            f"{self.sent} requests in {self.seconds:.0f} s ({codes}; {self.unanswered} broken ones cut off); "
            f"{len(self.findings)} kinds of 5xx, {sum(map(_is_ours_alone, self.findings))} of them ours alone; "
            f"slowest ordinary request in between {self.slowest_probe * 1000:.0f} ms; "
            f"memory {self.memory[0]:.0f} -> {self.memory[1]:.0f} MB"
        )


def _is_ours_alone(finding: Finding) -> bool:
    return finding.is_ours_alone


class _Turns:
    """Who sends: each worker for itself, or one alone while the others wait."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)
        self._emptying = asyncio.Lock()

    def one(self) -> asyncio.Semaphore:
        return self._places

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        async with contextlib.AsyncExitStack() as held:
            async with self._emptying:
                for _ in range(AT_ONCE):
                    await held.enter_async_context(self._places)
            yield


async def run(target: Target, seed: int, count: int, report: Report) -> Figures:
    figures = Figures()
    findings = Findings()
    turns = _Turns()
    sequences = seeds.sequences()
    started = time.monotonic()
    random_ = random.Random(seed)

    async def worker(worker_seed: int) -> None:
        own = random.Random(worker_seed)
        wire = Wire(target.server.url)
        try:
            for before, request in _endless(own, sequences):
                if figures.sent >= count:
                    return
                figures.sent += 1
                if figures.sent == count // 10:
                    figures.memory = (target.megabytes(), 0.0)
                if figures.sent % _REPORT_EVERY == 0:
                    report(f"{figures.sent} requests, {len(findings.all())} kinds of 5xx, {target.megabytes():.0f} MB")
                async with turns.one():
                    answer = await _one(target, wire, request, figures)
                if answer is not None and answer.is_failure:
                    finding = findings.add(request, answer, before)
                    if finding.wants_a_situation:
                        async with turns.alone():
                            await _look_closer(target, finding, request, before)
        finally:
            await wire.close()

    probing = asyncio.create_task(_probe(target, figures))
    await asyncio.gather(*(worker(random_.randrange(1 << 62)) for _ in range(AT_ONCE)))
    probing.cancel()
    await asyncio.gather(probing, return_exceptions=True)
    figures.seconds = time.monotonic() - started
    if target.process.returncode is not None:
        figures.failed_probes.append(f"the server ended with {target.process.returncode}")
    else:
        figures.memory = (figures.memory[0], target.megabytes())
        figures.findings = findings.all()
    lines = target.log.read_text(errors="replace").splitlines()
    figures.logged = "\n".join(line for line in lines if line != _EXPECTED_IN_LOG)[-4000:]
    return figures


async def _look_closer(target: Target, finding: Finding, request: Request, before: tuple[Request, ...]) -> None:
    """While nothing else changes the server: what was there, and how small the request can be."""
    finding.looks += 1
    finding.situation = await situation.taken(target.server, request)
    finding.request, finding.before = request, before
    again = await send(target.server, request)
    if again is not None and signature(again) == signature(finding.answer):
        finding.is_repeated = True
        finding.answer = again
        finding.smallest, finding.answer = await minimised(finding, lambda smaller: send(target.server, smaller))


def _endless(random_: random.Random, sequences: list[list[Request]]) -> Iterator[tuple[tuple[Request, ...], Request]]:
    """Each request with those of its sequence that came before it."""
    while True:
        before: tuple[Request, ...] = ()
        for seed in random_.choice(sequences):
            if random_.random() < RAW_SHARE:
                yield (), rawhttp.request(random_)
            request = mutation.mutated(random_, seed)
            yield before, request
            before = (*before, request)


async def _one(target: Target, wire: Wire, request: Request, figures: Figures) -> Answer | None:
    is_raw = request.raw is not None
    try:
        if is_raw:
            # What follows a broken request on the same connection would be answered out of step.
            wire = Wire(target.server.url)
            answer = await wire.exchange(request.encoded(target.token), seconds=RAW_SECONDS)
        else:
            answer = await wire.exchange(request.encoded(target.token))
    except NoAnswer as error:
        if is_raw:
            figures.unanswered += 1
        else:
            figures.silent.append(f"{request.encoded('$TOKEN')[:600]!r}: {error}")
        return None
    except TimeoutError:
        figures.unanswered += 1
        if not is_raw:
            figures.silent.append(f"{request.encoded('$TOKEN')[:600]!r}: too late")
        await wire.close()
        return None
    finally:
        if is_raw:
            await wire.close()
    figures.codes[answer.code] += 1
    return answer


async def _probe(target: Target, figures: Figures) -> None:
    """The ordinary request in between; it also brings the namespace back, which some requests delete."""
    wire = Wire(target.server.url)
    namespace = orjson.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": seeds.NAMESPACE}})
    ordinary = Request("POST", "/api/v1/namespaces", body=namespace).encoded(target.token)
    # Objects with finalizers, which some requests make, would hold it for good.
    let_go = Request("PUT", f"/api/v1/namespaces/{seeds.NAMESPACE}/finalize", body=namespace).encoded(target.token)
    try:
        while True:
            started = time.monotonic()
            try:
                answer = await wire.exchange(ordinary)
            except (NoAnswer, TimeoutError) as error:
                figures.failed_probes.append(repr(error))
            else:
                figures.slowest_probe = max(figures.slowest_probe, time.monotonic() - started)
                if answer.code not in (201, 409):
                    figures.failed_probes.append(f"{answer.code} {answer.body[:300]!r}")
                elif b"being deleted" in answer.body:
                    await wire.exchange(let_go)
            await asyncio.sleep(_PROBE_SECONDS)
    finally:
        await wire.close()


async def compare(figures: Figures, upstream: Server, report: Report) -> None:
    """Asks upstream for its answer to each request that got a 5xx from us, in the situation in which it got it."""
    for number, finding in enumerate(figures.findings, 1):
        await _ask_upstream(finding, upstream)
        if number % _ASKED_EVERY == 0:
            report(f"asked about {number} of {len(figures.findings)}")


async def _ask_upstream(finding: Finding, upstream: Server) -> None:
    for with_webhooks, request in itertools.product((False, True), finding.shapes):
        async with situation.brought(upstream, finding.situation, with_webhooks=with_webhooks):
            finding.upstream = await send(upstream, request)
        if not finding.is_ours_alone:
            return
    async with situation.brought(upstream, situation.NOTHING, with_webhooks=False):
        for request in finding.before:
            await send(upstream, request)
        finding.upstream = await send(upstream, finding.request)


async def send(server: Server, request: Request) -> Answer | None:
    wire = Wire(server.url)
    try:
        return await wire.exchange(request.encoded(server.tokens[replay.ADMIN]), seconds=5)
    except (NoAnswer, TimeoutError):
        return None
    finally:
        await wire.close()


@contextlib.asynccontextmanager
async def serving(folder: Path, random_: random.Random) -> AsyncGenerator[Target]:
    """Our server with the corpus's kinds, ended whatever happens."""
    log = folder / "server.log"
    shared = folder / KEYS
    keys.write(shared)
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.conformance.ours", str(folder), str(shared)),
            cwd=ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
        )
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        assert url, log.read_text()
        target = Target(Server("ours", url, ours.known_tokens()), process, log)
        await prepare(target.server, random_)
        yield target
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 20)


async def prepare(server: Server, random_: random.Random) -> None:
    """The kind that the whole corpus shares, and the rest of what the requests are about."""
    async with replay.session() as session:
        await replay.prepare(session, server)
    await prepare_upstream(server, random_)


async def prepare_upstream(server: Server, random_: random.Random) -> None:
    """Of a server that has the corpus's shared kind already."""
    async with replay.session() as session:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": seeds.NAMESPACE}}
        await _create(session, server, "/api/v1/namespaces", namespace)
        for definition in seeds.definitions(random_, _DEFINITIONS):
            await _create(session, server, seeds.DEFINITIONS, definition)


async def _create(session: Any, server: Server, path: str, body: Any) -> None:
    headers = {"Authorization": f"Bearer {server.tokens[replay.ADMIN]}"}
    async with session.post(server.url + path, json=body, headers=headers) as response:
        # Some definitions are there to be refused.
        assert response.status < 500, await response.text()
