"""Keeps a `Cache` of one resource up to date: lists once, then watches, resuming from the last seen revision.

When the server no longer retains that revision (410) it lists again and tells handlers only what differs. Failures back
off, doubling up to half a minute with jitter, and once they last `problem` says so. A kind that is not served (404) has
no objects: its informer counts as synced and looks every few seconds whether it is served by now. There is no resync
and no timer while a watch is open: an idle informer does nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import logs, outlines
from steelyard.kube.runtime.cache import Cache, Handler, IndexFunction
from steelyard.kube.runtime.clock import Timer
from steelyard.kube.runtime.keys import Key

_FIRST_DELAY = 0.1
_MAX_DELAY = 30.0
_MISSING_DELAY = 5.0
_HEALTHY_WATCH = 1.0
_TROUBLE_AFTER = 30.0

_log = logs.get(__name__)


class Informer:
    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        namespace: str = "",
        label: str = "",
        clock: clocks.Clock = clocks.SYSTEM,
    ) -> None:
        """With a `label`, only objects that have it are known."""
        self.resource = resource
        self.label = label
        self.synced = asyncio.Event()
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._cache = Cache(outlines.of if outlines.concern(resource) else None)
        self._version = ""
        self._failures = 0
        self._failing_since: float | None = None
        self._trouble_handlers: list[Callable[[], None]] = []
        self.problem = ""
        """Why the resource cannot be read, for as long as that lasts; a failure that passes is none."""
        self.is_missing = False
        """Whether nothing serves the kind."""
        self.is_optional = False
        """Whether that is no problem: a kind of other people's programs, of which nobody may have an object."""

    def __len__(self) -> int:
        return len(self._cache)

    @property
    def revision(self) -> int:
        return self._cache.revision

    def get(self, namespace: str, name: str) -> Object | None:
        return self._cache.get(Key(namespace, name))

    def list(self, namespace: str = "") -> list[Object]:
        return self._cache.list(namespace)

    def by_index(self, index: str, value: str) -> list[Object]:
        return self._cache.by_index(index, value)

    def has_index(self, name: str) -> bool:
        return self._cache.has_index(name)

    def add_index(self, name: str, function: IndexFunction) -> None:
        self._cache.add_index(name, function)

    def on_change(self, handler: Handler) -> None:
        """Handlers are synchronous and quick: they put keys into queues. What is cached already is replayed to them."""
        self._cache.on_change(handler)

    def observe(self, obj: Object) -> None:
        """Puts the answer to an own write into the cache before its event arrives."""
        is_here = not self._namespace or objects.namespace(obj) == self._namespace
        if is_here and (not self.label or self.label in objects.labels(obj)):
            self._cache.observe(obj)

    def observe_deleted(self, namespace: str, name: str, uid: str = "") -> None:
        self._cache.observe_deleted(Key(namespace, name), uid)

    def on_trouble(self, handler: Callable[[], None]) -> None:
        """Told when `problem` begins and when it ends."""
        self._trouble_handlers.append(handler)

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        with logs.bind(resource=self.resource.group_resource):
            while True:
                try:
                    if not self._version:
                        await self._list()
                    await self._watch()
                except errors.Expired:
                    _log.debug("watch expired, listing again")
                    self._version = ""
                    await self._back_off(None)
                except errors.NotFound:
                    await self._wait_for_kind()
                except Exception as error:
                    await self._back_off(error)

    async def _list(self) -> None:
        listing = await self._client.list(self.resource, self._namespace, label_selector=self.label)
        self._cache.replace(listing.items, int(listing.resource_version or 0))
        self._version = listing.resource_version
        self.synced.set()
        self._recover()

    async def _watch(self) -> None:
        opened_at = self._clock.monotonic()
        recovering: Timer | None = None

        def opened() -> None:
            """Only from now on does it count as one that works: a server may also let a request wait and then fail."""
            nonlocal opened_at, recovering
            opened_at = self._clock.monotonic()
            if self._failures:
                recovering = self._clock.call_later(_HEALTHY_WATCH, self._recover)

        try:
            async for event in self._client.watch(
                self.resource,
                self._namespace,
                resource_version=self._version,
                label_selector=self.label,
                opened=opened,
            ):
                self._recover()
                self._version = objects.resource_version(event.object) or self._version
                self._cache.apply_event(event.type, event.object)
        finally:
            if recovering is not None:
                recovering.cancel()
        ended_at_once = self._clock.monotonic() - opened_at < _HEALTHY_WATCH
        if ended_at_once:
            await self._back_off(None)
        else:
            self._recover()

    async def _wait_for_kind(self) -> None:
        """Nothing serves the kind, so there is no object of it: that is known, and waits for nothing."""
        self._version = ""
        self._cache.replace([], self._cache.revision)
        self.synced.set()
        if not self.is_missing:
            self.is_missing = True
            log = _log.debug if self.is_optional else _log.warning
            log("kind is not served, and taken for empty until it is")
        self._failures += 1
        self._set_problem(f"no CustomResourceDefinition serves {self.resource.group_resource}")
        await self._clock.sleep(_MISSING_DELAY * random.uniform(0.8, 1.2))  # noqa: S311 (jitter, not a secret)

    async def _back_off(self, error: Exception | None) -> None:
        delay = min(_FIRST_DELAY * 2.0 ** min(self._failures, 32), _MAX_DELAY)
        self._failures += 1
        if error is not None:
            self._tell(error, delay)
        await self._clock.sleep(delay * random.uniform(0.8, 1.2))  # noqa: S311 (jitter, not a secret)

    def _tell(self, error: Exception, delay: float) -> None:
        now = self._clock.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        cause = error.message if isinstance(error, errors.ApiError) else f"{type(error).__name__}: {error}"
        if now - self._failing_since >= _TROUBLE_AFTER:
            self._set_problem(f"{self.resource.group_resource} cannot be read: {cause}")
        fields = {"error": cause, "failures": self._failures, "retry_in": f"{delay:.1f}s"}
        is_coming_up = isinstance(error, errors.ServiceUnavailable) and not self.synced.is_set()
        if is_coming_up:
            # A server that never answered yet is being started by somebody, who tells how that goes.
            _log.debug("not reachable yet", **fields)
        elif not logs.is_worth_repeating(self._failures):
            return
        elif isinstance(error, errors.ApiError):
            _log.warning("list or watch failed", **fields)
        else:
            _log.exception("list or watch failed", **fields)

    def _recover(self) -> None:
        if not self._failures:
            return
        if self.problem:
            _log.info("list and watch work again", failures=self._failures)
        self._failures = 0
        self._failing_since = None
        self.is_missing = False
        self._set_problem("")

    def _set_problem(self, text: str) -> None:
        has_changed = bool(text) != bool(self.problem)
        self.problem = text
        if has_changed:
            for handler in self._trouble_handlers:
                handler()
