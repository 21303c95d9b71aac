"""A world in which Crossplane calls the function, in this process: what it does with requests and answers, as v2.1 does
it. Requirements are fetched until they are the same twice, names of what exists under a resource name stay, what is not
given back goes, what is given becomes the composite's. A provider that does everything at once plays its part when it
is told to.

Messages are real, and go through the wire's format.
"""

from __future__ import annotations

import base64
import copy
import datetime
from collections.abc import Iterable
from typing import TypeAlias

import crossplane.function.proto.v1.run_function_pb2 as fn

from steelyard.api import xrd
from steelyard.api.crossplane import IN_NAMESPACES, OBJECTS
from steelyard.api.xrd import Form
from steelyard.compose.offering import STANDARD
from steelyard.crossplane import inputs, structs
from steelyard.crossplane.serving import Function
from steelyard.kube import moments, objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform

Key: TypeAlias = tuple[str, str, str, str]

RESOURCE_NAME = "crossplane.io/composition-resource-name"
BEGIN = moments.seconds("2026-01-01T00:00:00Z")
MANAGER = "apiextensions.crossplane.io/composed/0123"
MOST_TURNS = 5
READY: Object = {"conditions": [{"type": type_, "status": "True"} for type_ in ("Ready", "Synced")]}
_MANAGED = {(each.api_version, each.kind) for pair in IN_NAMESPACES.items() for each in pair}


class Fatal(Exception):
    """What a fatal result says."""


class World:
    def __init__(self, claim: Object, platform: Platform, form: Form, *others: Object) -> None:
        self.platform = platform
        self.form = form
        self.moment = BEGIN
        self.stored: dict[Key, Object] = {}
        self.function = Function(Platform(), STANDARD, self._clock)
        self.input = inputs.document(platform)
        self.calls = 0
        self.request = fn.RunFunctionRequest()
        """The last one, with everything that was looked up."""
        self.answer = fn.RunFunctionResponse()
        self.deleted: list[str] = []
        self._uids = 0
        for each in others:
            self.store(each)
        self.claim = copy.deepcopy(claim)
        if form == xrd.LEGACY:
            self.store(self.claim)
        self.composite = composite(claim, form)
        self.composite["metadata"]["uid"] = self._uid()
        self.details: dict[str, bytes] = {}

    def _clock(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.moment, datetime.UTC)

    def store(self, obj: Object) -> Object:
        kept = copy.deepcopy(obj)
        kept["metadata"].setdefault("uid", self._uid())
        before = self.stored.get(key_of(kept))
        is_changed = before is not None and before.get("spec") != kept.get("spec")
        kept["metadata"]["generation"] = objects.generation(before or {"metadata": {"generation": 1}}) + is_changed
        self.stored[key_of(kept)] = kept
        return kept

    def find(self, kind: str, name: str = "") -> Object:
        (found,) = [obj for obj in self.all(kind) if not name or objects.name(obj) == name]
        return found

    def all(self, kind: str) -> list[Object]:
        return [obj for obj in self.stored.values() if obj["kind"] == kind]

    def composed(self) -> dict[str, Object]:
        """What the composite owns, by resource name."""
        return {
            objects.annotations(obj)[RESOURCE_NAME]: obj
            for obj in self.stored.values()
            if (objects.controller_of(obj) or {}).get("uid") == objects.uid(self.composite)
        }

    def reconcile(self) -> fn.RunFunctionResponse:
        """Raises `Fatal`, and changes nothing then."""
        observed = self.composed()
        self.answer = answer = self._run(observed)
        for result in answer.results:
            if result.severity == fn.SEVERITY_FATAL:
                raise Fatal(result.message)
        given = {name: structs.read(each.resource) for name, each in answer.desired.resources.items()}
        for name, obj in observed.items():
            if name not in given:
                self._delete(obj)
        for name, obj in given.items():
            self._apply(name, obj, observed.get(name))
        self.composite["status"] = {
            **structs.read(answer.desired.composite.resource)["status"],
            "conditions": self._conditions(answer),
        }
        self.details |= dict(answer.desired.composite.connection_details)
        return answer

    def settle(self, rounds: int = 8) -> None:
        for _ in range(rounds):
            self.provide()
            self.reconcile()

    def provide(self) -> None:
        """Everything that providers do, at once."""
        for obj in list(self.stored.values()):
            if (obj["apiVersion"], obj["kind"]) == (OBJECTS.api_version, OBJECTS.kind):
                self._keep(obj)
            elif (obj["apiVersion"], obj["kind"]) in _MANAGED:
                obj["status"] = copy.deepcopy(READY)
                self._write_credentials(obj)
            elif obj["apiVersion"].startswith("data.steelyard.dev/"):
                obj["status"] = copy.deepcopy(READY)

    def _keep(self, wrapped: Object) -> None:
        """As provider-kubernetes does, told to say nothing of Secrets' data."""
        manifest = copy.deepcopy(wrapped["spec"]["forProvider"]["manifest"])
        for each in wrapped["spec"].get("references", ()):
            source = each["patchesFrom"]
            found = self.stored.get(("v1", "Secret", source["namespace"], source["name"]))
            if found is None:
                return
            manifest[each["toFieldPath"]] = found[source["fieldPath"]]
        before = self.stored.get(key_of(manifest), {})
        manifest["metadata"] = {**objects.metadata(before), **manifest["metadata"]}
        kept = self.store({**before, **manifest})
        shown = copy.deepcopy(kept)
        if shown["kind"] == "Secret":
            shown["data"] = {"redacted": None}
        wrapped["status"] = {**copy.deepcopy(READY), "atProvider": {"manifest": shown}}

    def _write_credentials(self, obj: Object) -> None:
        place = objects.mapping(obj["spec"].get("writeConnectionSecretToRef"))
        if not place:
            return
        owner = objects.owner_reference(obj, controller=True)
        namespace = place.get("namespace") or objects.namespace(obj)
        metadata: Object = {"name": place["name"], "namespace": namespace, "ownerReferences": [owner]}
        said = {"username": objects.annotations(obj).get("crossplane.io/external-name", "x"), "password": "s3cret"}
        data = {**said, "endpoint": "db.example.com", "port": "5432"}
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        self.store({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded})

    def _run(self, observed: dict[str, Object]) -> fn.RunFunctionResponse:
        request = fn.RunFunctionRequest()
        structs.write(request.observed.composite.resource, self.composite)
        for key, value in self.details.items():
            request.observed.composite.connection_details[key] = value
        for name, obj in observed.items():
            structs.write(request.observed.resources[name].resource, obj)
        structs.write(request.input, self.input)
        before: bytes | None = None
        for _ in range(MOST_TURNS + 1):
            self.calls += 1
            self.request = request
            wire = fn.RunFunctionRequest.FromString(request.SerializeToString())
            answer = fn.RunFunctionResponse.FromString(self.function.run(wire).SerializeToString())
            asked = answer.requirements.SerializeToString(deterministic=True)
            if any(each.severity == fn.SEVERITY_FATAL for each in answer.results) or asked == before:
                return answer
            before = asked
            request.required_resources.clear()
            for name, selector in answer.requirements.resources.items():
                found = request.required_resources[name]
                for obj in self._selected(selector):
                    structs.write(found.items.add().resource, obj)
        raise AssertionError("requirements did not come to rest")

    def _selected(self, selector: fn.ResourceSelector) -> Iterable[Object]:
        for (api_version, kind, namespace, name), obj in sorted(self.stored.items()):
            if (api_version, kind) != (selector.api_version, selector.kind):
                continue
            if selector.WhichOneof("match") == "match_name":
                if (namespace, name) == (selector.namespace, selector.match_name):
                    yield obj
            elif selector.namespace in ("", namespace) and objects.matches(dict(selector.match_labels.labels), obj):
                yield obj

    def _apply(self, name: str, obj: Object, existing: Object | None) -> None:
        made = copy.deepcopy(obj)
        metadata = made["metadata"]
        assert metadata.get("name"), f"{name} has no name"
        if existing is not None:
            metadata["name"] = objects.name(existing)
        if self.form == xrd.NAMESPACED:
            assert metadata.get("namespace") == objects.namespace(self.composite), (name, metadata)
        before = existing or self.stored.get(key_of(made)) or {}
        assert not before or (objects.controller_of(before) or {}).get("uid") in (None, objects.uid(self.composite))
        metadata["annotations"] = {**metadata.get("annotations", {}), RESOURCE_NAME: name}
        metadata["ownerReferences"] = [objects.owner_reference(self.composite, controller=True)]
        owned = objects.mapping(objects.at(before, "metadata", "managedFields", 0, "fieldsV1"))
        merged = _merged(before, made, owned)
        held = {"manager": MANAGER, "operation": "Apply", "fieldsV1": _fields(made)}
        merged["metadata"]["managedFields"] = [held]
        self.store(merged)

    def edit(self, obj: Object, value: object, *path: str) -> None:
        """As somebody does by hand: the field is theirs from then on."""
        changed = copy.deepcopy(obj)
        place, tree = changed, changed["metadata"]["managedFields"][0]["fieldsV1"]
        for step in path[:-1]:
            place, tree = place[step], tree[f"f:{step}"]
        place[path[-1]] = value
        tree.pop(f"f:{path[-1]}", None)
        self.store(changed)

    def _delete(self, obj: Object) -> None:
        self.deleted.append(objects.annotations(obj)[RESOURCE_NAME])
        del self.stored[key_of(obj)]

    def _conditions(self, answer: fn.RunFunctionResponse) -> list[Object]:
        said = {
            each.type: {
                "type": each.type,
                "status": {2: "True", 3: "False"}.get(each.status, "Unknown"),
                "reason": each.reason,
                "message": each.message,
            }
            for each in answer.conditions
        }
        is_ready = answer.desired.composite.ready == fn.READY_TRUE
        word = "Available" if is_ready else "Creating"
        said["Ready"] = {"type": "Ready", "status": str(is_ready), "reason": word, "message": ""}
        before = {each["type"]: each for each in self.composite.get("status", {}).get("conditions", [])}
        return list({**before, **said}.values())

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"


def _fields(obj: Object) -> Object:
    """The tree of fields that an apply has, as the API server notes it; lists as one."""
    return {f"f:{key}": _fields(objects.mapping(value)) for key, value in obj.items()}


def _merged(before: Object, applied: Object, owned: Object) -> Object:
    """What server-side apply makes of it: what is said, and what others have set."""
    kept = {
        key: value for key, value in before.items() if key in applied or f"f:{key}" not in owned or key == "metadata"
    }
    result: Object = {**kept}
    for key, value in applied.items():
        old, new = objects.mapping(before.get(key)), objects.mapping(value)
        result[key] = _merged(old, new, owned.get(f"f:{key}", {})) if old and new else value
    return result


def composite(claim: Object, form: Form) -> Object:
    """As Crossplane makes it of a claim; in a namespace it is what was written."""
    made = copy.deepcopy(claim)
    if form == xrd.NAMESPACED:
        return made
    made["kind"] = f"X{claim['kind']}"
    metadata = made["metadata"]
    reference = {
        "apiVersion": claim["apiVersion"],
        "kind": claim["kind"],
        "namespace": metadata.pop("namespace"),
        "name": metadata["name"],
    }
    metadata["name"] = f"{metadata['name']}-x7k2p"
    made["spec"] = {**made["spec"], "claimRef": reference}
    made["spec"].pop("writeConnectionSecretToRef", None)
    return made


def key_of(obj: Object) -> Key:
    return obj["apiVersion"], obj["kind"], objects.namespace(obj), objects.name(obj)
