"""RedisServer: port, passwords, servers, in this order; each recorded before the next relies on it.

Between two looks nothing is done: the end of a process wakes the reconcile, and every minute or so each server is asked
once how it is, in one exchange.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
from typing import Final

import pydantic

from steelyard.api.redisserver import RESOURCE, RedisServerSpec
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object, Uid
from steelyard.kube.runtime import conditions, finalizers
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.keys import Key
from steelyard.providers.redis import accounts, converging, credentials, recorded
from steelyard.providers.redis.configuration import Limits, Role
from steelyard.providers.redis.converging import Outcome
from steelyard.providers.redis.credentials import Credentials
from steelyard.providers.redis.fleet import Fleet, Group
from steelyard.providers.redis.ports import NoneLeft, Ports
from steelyard.providers.redis.program import NoProgram
from steelyard.providers.redis.recorded import Said, State
from steelyard.providers.redis.server import Wanted, port_is_taken

FINALIZER: Final = "finalizer.managedresource.crossplane.io"
PAUSED: Final = "crossplane.io/paused"
LOOK_EVERY: Final = 60.0
RETRY: Final = 5.0
_LEVELS: Final = (100, 95, 90, 80)
"""Percent of the memory for data at which it is told how full it is."""


class Trouble(Exception):
    """It cannot be as asked for at the moment; the message says why and what to do."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RedisServerReconciler:
    def __init__(self, client: CachedClient, fleet: Fleet, ports: Ports, clock: Clock, recorder: Recorder) -> None:
        self._client = client
        self._fleet = fleet
        self._ports = ports
        self._clock = clock
        self._recorder = recorder
        self._known: dict[Key, Uid] = {}

    async def reconcile(self, key: Key) -> Result:
        obj = await self._find(key)
        await self._forget_former(key, obj)
        if obj is None:
            return Result()
        if objects.is_being_deleted(obj):
            return await self._delete(key, obj)
        if objects.annotations(obj).get(PAUSED) == "true":
            said = [Said("Synced", False, "ReconcilePaused", f"the annotation {PAUSED} is set")]
            await recorded.write(self._client, obj, recorded.read(obj), said, self._clock)
            return Result()
        obj = await finalizers.ensure(self._client, RESOURCE, obj, FINALIZER)
        try:
            return await self._bring_about(key, obj)
        except Trouble as trouble:
            await self._report_trouble(obj, trouble)
            return Result(requeue_after=RETRY)

    async def _find(self, key: Key) -> Object | None:
        try:
            return await self._client.get(RESOURCE, key.name)
        except errors.NotFound:
            return None

    async def _forget_former(self, key: Key, obj: Object | None) -> None:
        """One whose finalizer was taken off by force: nothing of it stays."""
        former = self._known.get(key)
        if former is not None and (obj is None or objects.uid(obj) != former):
            await self._fleet.erase(former)
            self._ports.release(former)
            del self._known[key]
        if obj is not None:
            self._known[key] = objects.uid(obj)

    async def _bring_about(self, key: Key, obj: Object) -> Result:
        spec = _spec(obj)
        problem = _problem(spec)
        if problem is not None and not recorded.was_ready(obj):
            raise problem
        try:
            group = await self._fleet.group(objects.uid(obj), key)
        except NoProgram as error:
            raise Trouble("NoProgram", str(error)) from error
        obj = await self._with_port(obj, group)
        state = recorded.read(obj)
        journal = _Journal(self._client, obj, self._clock, self._recorder)
        try:
            known = await credentials.ensure(self._client, obj, spec, state.port, self._now)
        except credentials.NotOurs as error:
            raise Trouble("SecretNotOurs", str(error)) from error
        state = dataclasses.replace(state, version=group.version)
        while True:
            wish = _Wish(spec, state.port, known)
            outcome = await converging.converge(group, state, spec.for_provider.replicas, wish, journal)
            state = outcome.state
            if problem is not None:
                outcome = dataclasses.replace(outcome, problems=(str(problem), *outcome.problems))
            step = known.step(spec.for_provider.rotation, self._now) if outcome.seen is not None else None
            if step is None:
                break
            await credentials.write(self._client, obj, spec, state.port, step)
            if step.rotated_at != known.rotated_at:
                self._recorder.normal(obj, "PasswordRotated", f"the old one is good until {step.previous_until}")
            known = step
        await self._report(journal.object, spec, outcome, known)
        return Result(requeue_after=self._next(spec, outcome, known))

    @property
    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _next(self, spec: RedisServerSpec, outcome: Outcome, known: Credentials) -> float:
        due = known.due_in(spec.for_provider.rotation, self._now)
        wanted = (LOOK_EVERY * random.uniform(0.75, 1.25), outcome.again_in, due)  # noqa: S311 (spread, not a secret)
        return min(each for each in wanted if each is not None)

    async def _with_port(self, obj: Object, group: Group) -> Object:
        """Recorded before anything listens there. One that nobody knows yet may be another one still."""
        uid, port = objects.uid(obj), recorded.read(obj).port
        if port and not self._ports.keep(uid, port):
            raise Trouble("PortTaken", f"port {port} is another cache's; delete one of the two")
        is_new = not group.servers and not recorded.read(obj).version
        if port and not (is_new and self._is_taken(port)):
            return obj
        self._ports.release(uid)
        try:
            port = await asyncio.to_thread(self._ports.give, uid)
        except NoneLeft as error:
            raise Trouble("PortTaken", str(error)) from error
        said = [Said("Ready", False, "Creating", "it is being started")]
        return await recorded.write(self._client, obj, State(port=port), said, self._clock)

    @staticmethod
    def _is_taken(port: int) -> bool:
        return port_is_taken(port)

    async def _report(self, obj: Object, spec: RedisServerSpec, outcome: Outcome, known: Credentials) -> None:
        ready, synced, replicated = _told(obj, outcome)
        said = [ready, synced]
        if outcome.expected:
            said.append(replicated)
        said += _fullness(spec, outcome)
        await recorded.write(
            self._client,
            obj,
            outcome.state,
            said,
            self._clock,
            members=outcome.members,
            credentials=known,
            withdrawn=() if outcome.expected else ("Replicated",),
        )

    async def _report_trouble(self, obj: Object, trouble: Trouble) -> None:
        said = [Said("Synced", False, "ReconcileError", str(trouble))]
        if not conditions.is_true(obj, "Ready"):
            said.append(Said("Ready", False, "Creating", str(trouble)))
        if conditions.message_of(obj, "Synced") != str(trouble):
            self._recorder.warning(obj, trouble.reason, str(trouble))
        await recorded.write(self._client, obj, recorded.read(obj), said, self._clock)

    async def _delete(self, key: Key, obj: Object) -> Result:
        """Processes, directories, Secret, port, in this order; the object last, which remembers them."""
        if not finalizers.has(obj, FINALIZER):
            return Result()
        uid = objects.uid(obj)
        is_kept = objects.at(obj, "spec", "deletionPolicy") == "Orphan"
        await self._fleet.erase(uid, keep_files=f"{objects.name(obj)}.{uid}" if is_kept else "")
        spec = _spec(obj)
        await credentials.erase(self._client, obj, spec)
        self._ports.release(uid)
        self._known.pop(key, None)
        await finalizers.remove(self._client, RESOURCE, obj, FINALIZER)
        return Result()


class _Journal:
    """Records intents in the object's status; `object` is the newest state of it."""

    def __init__(self, client: CachedClient, obj: Object, clock: Clock, recorder: Recorder) -> None:
        self.object = obj
        self._client = client
        self._clock = clock
        self._recorder = recorder

    async def record(self, state: State, lost: str) -> None:
        reason = "Unavailable" if recorded.was_ready(self.object) else "Creating"
        said = [Said("Ready", False, reason, lost)]
        self.object = await recorded.write(self._client, self.object, state, said, self._clock)

    def warn(self, reason: str, message: str) -> None:
        self._recorder.warning(self.object, reason, message)

    def tell(self, reason: str, message: str) -> None:
        self._recorder.normal(self.object, reason, message)


class _Wish:
    def __init__(self, spec: RedisServerSpec, port: int, known: Credentials) -> None:
        wanted = spec.for_provider
        most = min(wanted.memory_bytes, _there())
        self._limits = Limits(most, wanted.memory_percent, wanted.when_full, wanted.append_only)
        self._port = port
        self._known = known

    def __call__(self, role: Role) -> Wanted:
        return Wanted(role, self._port, self._limits, self._known.username, self._known.passwords)


def _spec(obj: Object) -> RedisServerSpec:
    try:
        return RedisServerSpec.model_validate(obj.get("spec"))
    except pydantic.ValidationError as error:
        detail = error.errors(include_url=False)[0]
        where = ".".join(map(str, ("spec", *detail["loc"])))
        raise Trouble("InvalidSpec", f"{where}: {detail['msg']}") from error


def _there() -> int:
    """Memory of this machine, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _problem(spec: RedisServerSpec) -> Trouble | None:
    """What cannot be done here. A cache that is there already goes on as far as it can."""
    wanted = spec.for_provider
    there = _there()
    if wanted.memory_bytes > there:
        return Trouble(
            "NotEnoughMemory",
            f"each server is to have {_gib(wanted.memory_bytes)} GiB of memory, and this machine has "
            f"{_gib(there)}. Ask for less",
        )
    if wanted.username in accounts.RESERVED:
        raise Trouble("UsernameReserved", f"{wanted.username} is a user of the platform's own; choose another")
    return None


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f}".removesuffix(".0")


def _told(obj: Object, outcome: Outcome) -> tuple[Said, Said, Said]:
    """Ready, Synced, Replicated."""
    problem = outcome.problems[0] if outcome.problems else ""
    following = f"{outcome.online} of {outcome.expected} replicas follow it"
    was_ready = conditions.reason_of(obj, "Ready") in ("Available", "Unavailable")
    is_usable = outcome.seen is not None and (outcome.is_complete or was_ready)
    primary = f"server {outcome.state.primary} is the primary"
    if is_usable:
        ready = Said("Ready", True, "Available", f"{primary}, {following}" if outcome.expected else "one server")
    else:
        reason = "Unavailable" if was_ready else "Creating"
        starting = following if outcome.seen else "its servers are starting"
        ready = Said("Ready", False, reason, problem or outcome.pending or starting)
    synced = Said("Synced", not problem, "ReconcileError" if problem else "ReconcileSuccess", problem)
    is_replicated = outcome.online == outcome.expected
    replicated = Said("Replicated", is_replicated, "Following" if is_replicated else "Behind", following)
    return ready, synced, replicated


def _fullness(spec: RedisServerSpec, outcome: Outcome) -> list[Said]:
    """In steps, so that a cache that fills up slowly is not a write for every key."""
    if outcome.seen is None:
        return []
    wanted = spec.for_provider
    most = wanted.memory_bytes * wanted.memory_percent // 100
    percent = 100 * outcome.seen.used_memory // most
    level = next((each for each in _LEVELS if percent >= each), 0)
    what = "writes are refused when it is full" if wanted.when_full == "noeviction" else "it lets go of keys when full"
    if not level:
        return [Said("MemoryAvailable", True, "Enough", "")]
    told = f"at least {level} % of the {most >> 20} MiB for data are used; {what}"
    return [Said("MemoryAvailable", False, "Filling" if level < _LEVELS[0] else "Full", told)]
