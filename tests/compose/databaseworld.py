"""A world in which databases come about, for tests of what composition makes of time: objects are applied as the claims
controller does it, and a provider that does everything at once plays its part when it is told to.

It can be stopped before any write, as by a kill: what was written stays, and the next round goes on from there.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Sequence
from typing import Any

from steelyard.api.crossplane import DATABASES, EXTERNAL_NAME, ROLES
from steelyard.api.databases import COPIES, USAGES
from steelyard.compose.composed import Composed, Observed, Requirement
from steelyard.kube import moments, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.plan import changes, inventory, marks, settling
from steelyard.plan.settling import Answer, Identity
from steelyard.settings import Platform
from tests.compose import cases

BEGIN = moments.seconds("2026-01-01T00:00:00Z")
READY: Object = {"conditions": [{"type": type_, "status": "True"} for type_ in ("Ready", "Synced")]}


class Killed(Exception):
    pass


class World:
    def __init__(self, claim: Object, platform: Platform, *others: Object) -> None:
        self.claim = copy.deepcopy(claim)
        self.platform = platform
        self.moment = BEGIN
        self.stored: dict[Identity, Object] = {}
        self.writes_left = 10_000
        self.phase = "Done"
        """What copies come to."""
        self._uids = 0
        for each in others:
            self.store(_resource(each), each)

    @property
    def now(self) -> str:
        return moments.text(self.moment)

    def store(self, resource: Resource, obj: Object) -> None:
        self.stored[resource, objects.namespace(obj), objects.name(obj)] = copy.deepcopy(obj)

    def composed(self) -> Composed:
        return self._found().composed

    def _found(self) -> settling.Found:
        def compose(claim: Object, observed: Observed) -> Composed:
            dated = Observed(observed.resources, observed.required, self.now)
            return cases.compose(claim, dated, self.platform)

        turns = settling.turns(compose, self.claim)
        try:
            question = next(turns)
            while True:
                parts = {name: self.stored.get(each) for name, each in question.parts.items()}
                required = {name: self._required(each) for name, each in question.requirements.items()}
                question = turns.send(Answer({name: obj for name, obj in parts.items() if obj is not None}, required))
        except StopIteration as end:
            return end.value

    def _required(self, asked: Requirement) -> Sequence[Object]:
        if asked.name:
            found = self.stored.get((asked.resource, asked.namespace, asked.name))
            return () if found is None else (found,)
        key, value = asked.label
        return [
            obj
            for (resource, _, _), obj in self.stored.items()
            if resource == asked.resource and objects.labels(obj).get(key) == value
        ]

    def look(self) -> Composed:
        """One look at the claim, as the controller takes it: record, apply, prune, report."""
        found = self._found()
        composed = found.composed
        assert composed.refusal is None, composed.refusal
        recorded = inventory.recorded(self.claim)
        decided = changes.decide(composed, found.observed, recorded, found.foreign)
        entries = inventory.union(recorded, inventory.wanted(composed))
        status: Object = dict(objects.mapping(self.claim.get("status")))
        self._write_status({**composed.status, **status, "inventory": inventory.written(entries)})
        applied = [each for each in decided if each.action in ("create", "update")]
        for each in applied:
            assert each.part is not None
            self._apply(each.part.resource, each.part.object)
        gone: list[Any] = []
        if not applied:
            stages = inventory.stages(each.entry for each in decided if each.action == "delete")
            for entry in stages[0] if stages else ():
                self._delete(entry.kind, entry.namespace, entry.name)
                gone.append(entry)
        else:
            composed = self.composed()
        left = [each for each in entries if each not in gone]
        conditions: list[Object] = [
            {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            for each in composed.conditions
        ]
        self._write_status({**composed.status, "conditions": conditions, "inventory": inventory.written(left)})
        return composed

    def provide(self, *kinds: str) -> None:
        """Everything that is there is ready, of these kinds or all; logins have credentials."""
        for (resource, _, _), obj in list(self.stored.items()):
            if resource == SECRETS or "spec" not in obj or (kinds and resource.kind not in kinds):
                continue
            if resource == COPIES:
                obj["status"] = {**READY, "phase": self.phase, "snapshotAt": self.now, "problems": ["users.email"]}
            elif resource.group.endswith(("crossplane.io", "steelyard.dev")) and not _is_claim(resource):
                obj["status"] = {**objects.mapping(obj.get("status")), **READY}
            place = objects.mapping(objects.at(obj, "spec", "writeConnectionSecretToRef"))
            if resource == ROLES and place:
                user = objects.annotations(obj)[EXTERNAL_NAME]
                data = {"username": user, "password": f"of-{user}", "endpoint": "db", "port": "5432"}
                secret: Object = {
                    "metadata": {**place, "ownerReferences": [objects.owner_reference(obj, controller=True)]},
                    "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
                }
                self.store(SECRETS, secret)

    def measures(self, percent: int) -> None:
        for (resource, _, _), obj in self.stored.items():
            if resource == USAGES:
                obj["status"] = {**READY, "percent": percent, "sizeBytes": percent * 10**8}

    def rest(self, rounds: int = 20) -> Composed:
        """Until nothing changes any more."""
        for _ in range(rounds):
            before = copy.deepcopy((self.stored, self.claim))
            composed = self.look()
            self.provide()
            if (self.stored, self.claim) == before:
                return composed
        raise AssertionError("it does not come to rest")

    def passes(self, seconds: float) -> None:
        self.moment += seconds

    def annotate(self, key: str, value: str) -> None:
        self.claim["metadata"].setdefault("annotations", {})[key] = value

    def secret(self, key: str) -> str:
        place = self.claim["spec"]["writeConnectionSecretToRef"]["name"]
        found = self.stored.get((SECRETS, objects.namespace(self.claim), place))
        return base64.b64decode(found["data"][key]).decode() if found is not None else ""

    def named(self, resource: Resource) -> set[str]:
        """What is on the server."""
        return {
            objects.annotations(obj).get(EXTERNAL_NAME, objects.name(obj))
            for (kind, _, _), obj in self.stored.items()
            if kind == resource
        }

    def limit(self, name: str) -> int:
        found = next(
            obj
            for (kind, _, _), obj in self.stored.items()
            if kind == DATABASES and objects.annotations(obj).get(EXTERNAL_NAME) == name
        )
        return int(found["spec"]["forProvider"]["connectionLimit"])

    def condition(self, type_: str) -> Object:
        found = map(objects.mapping, objects.sequence(objects.at(self.claim, "status", "conditions")))
        return next((each for each in found if each["type"] == type_), Object())

    def _apply(self, resource: Resource, obj: Object) -> None:
        self._spend()
        identity = (resource, objects.namespace(obj), objects.name(obj))
        before = self.stored.get(identity, {})
        self._uids += 1
        made = copy.deepcopy(marks.signed(obj))
        made["metadata"]["uid"] = objects.uid(before) if before else f"u-{self._uids}"
        if "status" in before:
            made["status"] = before["status"]
        self.stored[identity] = made

    def _delete(self, kind: str, namespace: str, name: str) -> None:
        self._spend()
        for identity in list(self.stored):
            if (identity[0].kind, identity[1], identity[2]) == (kind, namespace, name):
                gone = self.stored.pop(identity)
                owned = [
                    key
                    for key, obj in self.stored.items()
                    if (objects.controller_of(obj) or {}).get("uid") == objects.uid(gone)
                ]
                for each in owned:
                    del self.stored[each]

    def _write_status(self, status: Object) -> None:
        if status != self.claim.get("status"):
            self._spend()
            self.claim["status"] = copy.deepcopy(status)

    def _spend(self) -> None:
        if not self.writes_left:
            raise Killed
        self.writes_left -= 1


def _is_claim(resource: Resource) -> bool:
    return resource.kind == "PostgreSQLInstance"


def _resource(obj: Object) -> Resource:
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    kind = str(obj["kind"])
    return Resource(group, version, f"{kind.lower()}s", kind, namespaced="namespace" in obj["metadata"])
