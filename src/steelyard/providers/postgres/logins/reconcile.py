"""TemporaryLogin, one reconcile: what is past its end goes first, then the serial is recorded, then the login is made.

    status.serial -> role on the server -> Secret -> status.login

Killed anywhere in between, the next reconcile finds the serial and goes on: a role that the Secret does not name yet
gets another password, since nobody knows the first; one that it names is done. What has our mark and nobody's status is
ended, so nothing is left behind.
"""

from __future__ import annotations

import contextlib
import secrets

from steelyard.api.databases import LOGINS, TemporaryLoginSpec, TemporaryLoginStatus
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import finalizers
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.verdicts import Verdict
from steelyard.providers.postgres import ours, reports
from steelyard.providers.postgres.logins import plan, secret
from steelyard.providers.postgres.logins.plan import Decision, Login, Standing
from steelyard.providers.postgres.logins.server import Fact, LoginServer
from steelyard.providers.postgres.parts import Tools
from steelyard.providers.postgres.problems import Problem


def reconciler(tools: Tools) -> TemporaryLoginReconciler:
    return TemporaryLoginReconciler(tools)


class TemporaryLoginReconciler:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._client = tools.client
        self._clock = tools.clock

    async def reconcile(self, key: Key) -> Result:
        obj = await reports.fetch(self._client, LOGINS, key)
        if obj is None or reports.is_paused(obj):
            return Result()
        try:
            if objects.is_being_deleted(obj):
                return await self._delete(obj)
            obj = await finalizers.ensure(self._client, LOGINS, obj, reports.FINALIZER)
            if ours.is_on_its_way(self._client, obj):
                return Result()
            return await self._bring_about(obj)
        except Problem as problem:
            await reports.failed(self._client, LOGINS, key, self._clock, problem, *self._without(obj, problem))
            return Result(requeue_after=problem.retry_after)

    def _without(self, obj: Object, problem: Problem) -> list[Verdict]:
        """What else is to be said where nobody has a login by now."""
        seen = plan.standing(TemporaryLoginStatus.model_validate(obj.get("status") or {}))
        if objects.is_being_deleted(obj) or (seen.login and seen.login.expires_at > self._clock.now()):
            return []
        if seen.login is None:
            return [reports.creating(f"There is no login yet: {problem}")]
        return [reports.unavailable(f"The login has ended, and there is no other: {problem}")]

    async def _bring_about(self, obj: Object) -> Result:
        spec = TemporaryLoginSpec.model_validate(obj["spec"])
        seen = plan.standing(TemporaryLoginStatus.model_validate(obj.get("status") or {}))
        server = LoginServer(self._tools.servers, spec, objects.uid(obj))
        facts = {each.name: each for each in await server.facts()}
        decision = await self._decide(obj, spec, seen, facts)
        pending = plan.name_of(spec, seen.serial) if decision.is_pending else ""
        await self._end_rest(server, facts, decision.living | {pending})
        if decision.wants_another or (pending and pending not in facts and await server.is_taken(pending)):
            serial = await self._free_serial(server, spec, seen.serial)
            obj = await self._record(obj, spec, decision, serial)
            seen = Standing(serial, decision.current, decision.former, spec.trigger)
            pending = plan.name_of(spec, serial)
        if pending:
            made = await self._make(obj, spec, server, pending, facts.get(pending))
            former = plan.switched(decision, made, self._clock.now())
            for name in sorted(decision.living - {made.name, *(each.name for each in former)}):
                await server.end(name)
        else:
            assert decision.current is not None
            made, former = decision.current, decision.former
            await server.keep(facts[made.name])
        return await self._report(obj, spec, seen, made, former)

    async def _decide(self, obj: Object, spec: TemporaryLoginSpec, seen: Standing, facts: dict[str, Fact]) -> Decision:
        now = self._clock.now()
        values = await secret.read(self._client, spec.write_connection_secret_to_ref, obj)
        told = secret.login_in(values, now=now)
        mine = {name for name, each in facts.items() if each.is_mine}
        return plan.decide(spec, seen, now, secret_names=told.name if told else "", on_server=mine)

    async def _end_rest(self, server: LoginServer, facts: dict[str, Fact], spared: frozenset[str]) -> None:
        """All with our mark that are past their end, or that a killed platform has left."""
        for name in sorted(facts.keys() - spared):
            if facts[name].is_mine:
                await server.end(name)
            else:
                # Nobody else does it; but that it cannot be done is no problem of this object's.
                with contextlib.suppress(Problem):
                    await server.end(name)

    async def _free_serial(self, server: LoginServer, spec: TemporaryLoginSpec, serial: int) -> int:
        """The next one whose name nobody else has."""
        serial += 1
        while await server.is_taken(plan.name_of(spec, serial)):
            serial += 1
        return serial

    async def _record(self, obj: Object, spec: TemporaryLoginSpec, decision: Decision, serial: int) -> Object:
        said = reports.AVAILABLE if decision.current else reports.creating("The login is being made.")
        return await reports.report(
            self._client, LOGINS, obj, self._clock, [said], {"serial": serial, "trigger": spec.trigger}
        )

    async def _make(
        self, obj: Object, spec: TemporaryLoginSpec, server: LoginServer, name: str, there: Fact | None
    ) -> Login:
        now = self._clock.now().replace(microsecond=0)
        where = spec.write_connection_secret_to_ref
        told = secret.login_in(await secret.read(self._client, where, obj), now=now)
        if there is not None and told is not None and told.name == name:
            await server.keep(there)
            return told
        password = secrets.token_urlsafe(24)
        made = Login(name, now + plan.life(spec))
        place = await self._tools.servers.place(spec.provider_config_ref.name)
        await server.make(name, password, made.expires_at, there)
        values = secret.content(spec, place, made, password, self._tools.settings.ssl_mode)
        await secret.write(self._client, where, obj, values)
        return made

    async def _report(
        self, obj: Object, spec: TemporaryLoginSpec, seen: Standing, made: Login, former: tuple[Login, ...]
    ) -> Result:
        more: Object = {
            "login": made.to_status().to_json(),
            "former": [each.to_status().to_json() for each in former] or None,
            "serial": seen.serial,
            "trigger": seen.trigger,
        }
        await reports.report(self._client, LOGINS, obj, self._clock, [reports.AVAILABLE, reports.SYNCED], more)
        return Result(requeue_after=plan.look_again(spec, made, former, self._clock.now()))

    async def _delete(self, obj: Object) -> Result:
        if not finalizers.has(obj, reports.FINALIZER):
            return Result()
        spec = TemporaryLoginSpec.model_validate(obj["spec"])
        obj = await reports.report(self._client, LOGINS, obj, self._clock, [reports.DELETING])
        await secret.delete(self._client, spec.write_connection_secret_to_ref, obj)
        server = LoginServer(self._tools.servers, spec, objects.uid(obj))
        for each in await server.facts():
            await server.end(each.name)
        if spec.access == "ReadOnly":
            await server.end_reader()
        await finalizers.remove(self._client, LOGINS, obj, reports.FINALIZER)
        return Result()
