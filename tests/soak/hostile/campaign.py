"""Attacks one after the other on one server, each measured by what the innocent client noticed of it.

A server that hangs or dies is replaced by a new one, so that the next attack is measured as well. What an attack has
made is removed before the next: each meets the server as the first did.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import orjson

from tests.soak.hostile import memory, observed
from tests.soak.hostile.attack import Aim, Assault
from tests.soak.hostile.field import JSON, THEIRS, Field, Identity, config_maps
from tests.soak.hostile.observed import Observer, Span
from tests.soak.hostile.servers import FEW_DESCRIPTORS
from tests.soak.hostile.wire import Ended, Line

PATIENCE_SECONDS: Final = 60.0
"""How long a server has to be itself again after an attack before it counts as hung."""
BASELINE_SECONDS: Final = 5.0
"""How long the innocent client is alone first."""
_CALM_SECONDS: Final = 0.25
_PREPARE_SECONDS: Final = 90.0
_SETTLE_SECONDS: Final = 10.0
"""After what was prepared, which may be an attack itself."""
_CLEANERS: Final = 8
_PARTIAL: Final = "Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


class Serve(Protocol):
    def __call__(self, folder: Path, *, descriptors: int) -> AbstractAsyncContextManager[Field]: ...


@dataclass(frozen=True, slots=True)
class Result:
    """What one attack did."""

    aim: Aim
    span: Span
    before: int
    """Bytes resident before it."""
    answers: str
    has_hung: bool = False
    has_died: bool = False

    @property
    def growth(self) -> int:
        return max(0, self.span.peak - self.before)

    @property
    def state(self) -> str:
        return "DIED" if self.has_died else "HUNG" if self.has_hung else ""


@dataclass(slots=True)
class Life:
    """Of a server, with the innocent client beside it."""

    field_: Field
    observer: Observer
    is_narrow: bool
    began: float
    baseline: Span
    before: int
    """Bytes resident when the attacks begin."""


@dataclass(slots=True)
class Figures:
    """Of all lives of one server."""

    name: str
    results: list[Result] = field(default_factory=list[Result])
    lives: list[tuple[int, Span]] = field(default_factory=list[tuple[int, Span]])
    """Bytes before the attacks, and everything that was noted from there on."""
    baselines: list[Span] = field(default_factory=list[Span])


class Campaign:
    def __init__(
        self,
        name: str,
        folder: Path,
        serve: Serve,
        *,
        baseline_seconds: float = BASELINE_SECONDS,
        patience: float = PATIENCE_SECONDS,
        is_always_narrow: bool = False,
    ) -> None:
        self.figures = Figures(name)
        self._folder = folder
        self._serve = serve
        self._baseline_seconds = baseline_seconds
        self._patience = patience
        self._is_always_narrow = is_always_narrow
        self._stack = contextlib.AsyncExitStack()
        self._life: Life | None = None
        self._lives = 0
        self._strikes = 0

    async def __aenter__(self) -> Campaign:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Waits for what the innocent client waits for, unless something went wrong anyway."""
        await (self._stack.aclose() if kind is not None else self.end_life())

    async def strike(self, aim: Aim, seconds: float) -> Result:
        life = await self._living(is_narrow=self._is_always_narrow or aim.needs_few_descriptors)
        assaults = [Assault(life.field_, attack.who, values, self._tag(), seconds) for attack, values in aim.attacks]
        before, began = life.observer.resident, time.monotonic()
        try:
            await self._prepare(aim, assaults)
            await life.observer.until_calm(self._calm(life), _SETTLE_SECONDS)
            await self._work(aim, assaults, seconds)
        finally:
            for assault in assaults:
                assault.close()
        is_calm = await life.observer.until_calm(self._calm(life), self._patience)
        result = Result(
            aim=aim,
            span=life.observer.span(began, time.monotonic()),
            before=before,
            answers="; ".join(assault.answered() for assault in assaults),
            has_hung=not is_calm and life.observer.oldest > self._patience / 4,
            has_died=not memory.resident(life.field_.processes[:1]),
        )
        self.figures.results.append(result)
        if result.state:
            await self.end_life()
        else:
            await self._clean(life.field_, assaults)
        return result

    def _tag(self) -> str:
        self._strikes += 1
        return f"h{self._strikes:04d}"

    @staticmethod
    def _calm(life: Life) -> float:
        return max(_CALM_SECONDS, 2 * life.baseline.p99)

    async def _prepare(self, aim: Aim, assaults: list[Assault]) -> None:
        for (attack, _), assault in zip(aim.attacks, assaults, strict=True):
            if attack.prepare is not None:
                try:
                    async with asyncio.timeout(_PREPARE_SECONDS):
                        await attack.prepare(assault)
                except (Ended, TimeoutError, KeyError, ValueError) as error:
                    assault.answers[f"could not prepare: {error!r}"] += 1

    @staticmethod
    async def _work(aim: Aim, assaults: list[Assault], seconds: float) -> None:
        """All at the same time. Who waits for an answer when time is up waits no longer."""
        works: list[asyncio.Task[None]] = []
        for (attack, _), assault in zip(aim.attacks, assaults, strict=True):
            assault.deadline = time.monotonic() + seconds
            works.append(asyncio.ensure_future(attack.work(assault)))
        _, late = await asyncio.wait(works, timeout=seconds + 1)
        for task in late:
            task.cancel()
        for assault, outcome in zip(assaults, await asyncio.gather(*works, return_exceptions=True), strict=True):
            if isinstance(outcome, asyncio.CancelledError):
                assault.answers["no answer yet"] += 1
            elif isinstance(outcome, Ended | KeyError | ValueError):
                assault.answers[f"gave up: {outcome!r}"] += 1
            elif outcome is not None:
                raise outcome

    async def _living(self, *, is_narrow: bool) -> Life:
        if self._life is not None and self._life.is_narrow != is_narrow:
            await self.end_life()
        if self._life is None:
            self._life = await self._begin_life(is_narrow=is_narrow)
        return self._life

    async def _begin_life(self, *, is_narrow: bool) -> Life:
        self._lives += 1
        folder = self._folder / f"{self.figures.name}-{self._lives}"
        folder.mkdir(parents=True)
        serving = self._serve(folder, descriptors=FEW_DESCRIPTORS if is_narrow else 0)
        field_ = await self._stack.enter_async_context(serving)
        observer = await self._stack.enter_async_context(observed.innocent(field_, folder))
        await _use(field_)
        began = time.monotonic()
        await asyncio.sleep(self._baseline_seconds)
        now = time.monotonic()
        baseline = observer.span(began, now)
        self.figures.baselines.append(baseline)
        return Life(field_, observer, is_narrow, now, baseline, observer.resident)

    async def end_life(self) -> None:
        """Ends the server, once the innocent client has seen all that it waits for."""
        life, self._life = self._life, None
        try:
            if life is not None:
                has_died = not memory.resident(life.field_.processes[:1])
                if not has_died and life.observer.oldest < 1:
                    await asyncio.to_thread(life.observer.ended)
                self.figures.lives.append((life.before, life.observer.span(life.began, time.monotonic())))
        finally:
            await self._stack.aclose()

    async def _clean(self, field_: Field, assaults: list[Assault]) -> None:
        """Removes what the attacks have made in the namespace that the next ones use."""
        made = [assault for assault in assaults if "201" in assault.answers]
        for who in dict.fromkeys(field_.admin if each.identity == field_.user else each.identity for each in made):
            with contextlib.suppress(Ended):
                await _remove(who, tuple(each.tag for each in made))


async def _remove(who: Identity, tags: tuple[str, ...]) -> None:
    line = await Line.open(who, keeping=1 << 26)
    answer = await line.ask(who.request("GET", config_maps(THEIRS), b"", JSON, _PARTIAL))
    line.close()
    if answer.code != 200:
        return
    every = (str(item["metadata"]["name"]) for item in orjson.loads(answer.body)["items"])
    names = iter([name for name in every if name.startswith(tags)])

    async def some() -> None:
        line = await Line.open(who)
        for name in names:
            await line.ask(who.request("DELETE", f"{config_maps(THEIRS)}/{name}"))
        line.close()

    await asyncio.gather(*(some() for _ in range(_CLEANERS)))


_USUAL: Final = (
    ("/api", "application/json"),
    ("/apis", "application/json"),
    ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
    ("/openapi/v3", "application/json"),
    ("/openapi/v3/api/v1", "application/json"),
    ("/api/v1/configmaps?limit=500", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
    ("/api/v1/configmaps?limit=500", "application/yaml"),
)
"""What kubectl asks every server for: memory is compared with that of one that is in use."""


async def _use(field_: Field) -> None:
    line = await Line.open(field_.admin)
    try:
        for path, accept in _USUAL:
            await line.ask(field_.admin.request("GET", path, b"", JSON, f"Accept: {accept}"))
    finally:
        line.close()
