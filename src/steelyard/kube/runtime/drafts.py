"""Writes what a reconciler changed on its copy of an object, and nothing else.

A reconcile takes a `Draft`, changes `draft.object` as it goes, and ends with `draft.save()`: at most one patch of
the object and one of its status, none where nothing differs. Lists in metadata (finalizers, owner references) have
several writers, so a patch of them carries the resourceVersion and conflicts when the object moved on; a status has
one writer and needs none, but for kinds with conditions of several writers' (`shares_status`). Every patch carries the
UID, so that none lands on a later object of the same name.
"""

from __future__ import annotations

from typing import cast

from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource, split_api_version
from steelyard.kube.runtime import patching

_SHARED_LISTS = ("finalizers", "ownerReferences")


class Draft:
    def __init__(self, client: Client, resource: Resource, original: Object, *, shares_status: bool = False) -> None:
        self.client = client
        self.resource = resource
        self.shares_status = shares_status
        self.original = original
        self.object = objects.copy(original)

    @property
    def metadata(self) -> Object:
        return cast(Object, self.object.setdefault("metadata", {}))

    @property
    def spec(self) -> Object:
        return cast(Object, self.object.setdefault("spec", {}))

    @property
    def status(self) -> Object:
        return cast(Object, self.object.setdefault("status", {}))

    def add_finalizer(self, finalizer: str) -> None:
        finalizers = objects.finalizers(self.object)
        if finalizer not in finalizers:
            self.metadata["finalizers"] = [*finalizers, finalizer]

    def add_owner(self, owner: Object, *, controller: bool) -> None:
        """In place of a reference to the same owner that says otherwise about `controller`, and of those to earlier
        objects of its name, which do not exist any more."""
        references = objects.owner_references(self.object)
        wanted = objects.owner_reference(owner, controller=controller, block_owner_deletion=controller)
        namesakes = [each for each in references if _has_the_name_of(each, wanted)]
        is_so = len(namesakes) == 1 and namesakes[0].get("uid") == wanted["uid"]
        if not is_so or bool(namesakes[0].get("controller")) != controller:
            self.metadata["ownerReferences"] = [*(each for each in references if each not in namesakes), wanted]

    def set_label(self, name: str, value: str) -> None:
        if objects.labels(self.object).get(name) != value:
            cast(Object, self.metadata.setdefault("labels", {}))[name] = value

    def set_annotation(self, name: str, value: str) -> None:
        if objects.annotations(self.object).get(name) != value:
            cast(Object, self.metadata.setdefault("annotations", {}))[name] = value

    def is_initialized(self, part: str) -> bool:
        return bool(objects.at(self.object, "status", "initialization", part))

    def set_initialized(self, part: str) -> None:
        """`status.initialization` only ever goes forward, and must not be there while it is empty."""
        cast(Object, self.status.setdefault("initialization", {}))[part] = True

    async def save(self) -> None:
        """Writes the object, then its status; `status.observedGeneration` is that of the object as written."""
        await self.save_object()
        await self.save_status()

    async def save_object(self) -> None:
        patch = patching.merge_patch(_without_status(self.original), _without_status(self.object))
        if not patch:
            return
        metadata = objects.mapping(patch.get("metadata"))
        touches_shared_lists = any(name in metadata for name in _SHARED_LISTS)
        # What is known of a shared status must still be so when it is written after this.
        is_exclusive = touches_shared_lists or self.shares_status
        written = await self._patch(patch, metadata, exclusively=is_exclusive)
        status = self.object.get("status")
        self.original = written
        self.object = objects.copy(written)
        if status is not None:
            self.object["status"] = status

    async def save_status(self) -> None:
        generation = objects.generation(self.object)
        if generation and "status" in self.object:
            self.status["observedGeneration"] = generation
            for condition in map(objects.mapping, objects.sequence(self.status.get("conditions"))):
                if "observedGeneration" in condition:
                    condition["observedGeneration"] = generation
        before = objects.mapping(self.original.get("status"))
        patch = patching.merge_patch(before, objects.mapping(self.object.get("status")))
        if patch:
            await self._patch({"status": patch}, {}, exclusively=self.shares_status, subresource="status")

    async def finish(self, finalizer: str) -> None:
        """Lets the object go with one write: the finalizer comes off, and nobody will read the status any more."""
        self.object = objects.copy(self.original)
        self.metadata["finalizers"] = [each for each in objects.finalizers(self.object) if each != finalizer]
        try:
            await self.save_object()
        except errors.NotFound:
            return

    async def _patch(
        self, patch: Object, metadata: Object, *, exclusively: bool = False, subresource: str = ""
    ) -> Object:
        identity: Object = {"uid": objects.uid(self.original)}
        if exclusively:
            identity["resourceVersion"] = objects.resource_version(self.original)
        return await self.client.patch(
            self.resource,
            objects.name(self.original),
            {**patch, "metadata": {**metadata, **identity}},
            objects.namespace(self.original),
            subresource=subresource,
        )


def _has_the_name_of(one: Object, other: Object) -> bool:
    """Whether two owner references name the same kind, in any version of its group, and the same name."""
    groups = (split_api_version(str(each.get("apiVersion") or ""))[0] for each in (one, other))
    return (one.get("kind"), one.get("name")) == (other.get("kind"), other.get("name")) and len(set(groups)) == 1


def _without_status(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name != "status"}


async def ensure_owner(
    client: Client, resource: Resource, obj: Object, owner: Object, *, controller: bool, labels: dict[str, str]
) -> Object:
    """The object with `owner` among its owners and with the labels: one patch where anything is missing."""
    draft = Draft(client, resource, obj)
    draft.add_owner(owner, controller=controller)
    for name, value in labels.items():
        draft.set_label(name, value)
    await draft.save_object()
    return draft.object
