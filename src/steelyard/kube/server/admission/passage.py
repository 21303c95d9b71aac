"""One request's way past the webhooks and policies, between what the server makes of a request and what it stores.

While webhooks are asked, the rest of the server goes on: whoever calls this reads the object again afterwards, or
writes with the expectation that it is unchanged, and starts over if it is not.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.admission import dispatching, judging
from steelyard.kube.server.bodies.options import DeleteOptions, WriteOptions
from steelyard.kube.server.call import Call
from steelyard.kube.server.candidates import candidates
from steelyard.kube.server.candidates.candidates import Candidate
from steelyard.kube.server.catalogue import scales
from steelyard.kube.server.catalogue.configurations import Plan
from steelyard.kube.server.catalogue.matching import Attributes, Operation
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core


class Overtaken(Exception):
    """While webhooks were asked, something else took what this request was to get: start over."""


@dataclass(slots=True)
class Passage:
    core: Core
    plan: Plan
    attributes: Attributes
    outcome: dispatching.Outcome
    call: Call
    wanted: WriteOptions
    shape: Served | None = None
    """What is written, where a subresource takes objects of a kind of its own."""

    def name(self, name: str) -> None:
        """The name that was made for a new object which came without one."""
        attributes = self.attributes
        attributes.name = name
        attributes.namespace = _namespace(attributes.served, attributes.namespace, name)

    async def mutate(self, candidate: Candidate) -> None:
        """Lets the mutating webhooks change the candidate."""
        if not self.plan.mutating:
            return
        served, before = self.shape or self.attributes.served, candidate.obj
        shown = self.attributes.obj = self._shown(before)
        await self._ask(mutating=True)
        changed = self.attributes.obj
        if changed is shown:
            return
        if self.attributes.subresource == "scale":
            obj = objects.copy(before)
            scales.put(served, obj, objects.at(changed, "spec", "replicas"))
        else:
            obj = _with_owners_of(before, changed)
        try:
            decoded = candidates.decode(served, obj, dataclasses.replace(self.wanted, field_validation="Ignore"))
        except errors.ApiError as error:
            # Nobody is told what it was decoded as, since nobody but the webhook has sent it.
            said = error.message.partition(" cannot be handled as a ")[2].partition(": ")[2]
            if said.startswith("converting "):
                raise errors.Unclassified(said) from None
            raise errors.internal(said or error.message) from None
        candidate.obj = decoded.obj

    async def validate(self, obj: Object, candidate: Candidate) -> None:
        """Asks the policies and then the validating webhooks about the object as it would be stored; all warnings go
        to the candidate."""
        if self.plan.validating or self.plan.policies:
            self.attributes.obj = self._shown(obj)
            await self._ask(mutating=False)
        candidate.warnings += tuple(self.outcome.warnings)

    async def delete(self) -> tuple[str, ...]:
        """Asks all of them about a deletion; the warnings."""
        await self._ask(mutating=True)
        await self._ask(mutating=False)
        return tuple(self.outcome.warnings)

    def _shown(self, obj: Object) -> Object:
        return _shown(self.attributes.served, self.attributes.subresource, obj)

    async def _ask(self, *, mutating: bool) -> None:
        ask = dispatching.mutate if mutating else dispatching.validate
        try:
            if not mutating and self.plan.policies:
                await judging.judge(self.core, self.plan.policies, self.attributes, self.outcome)
            await ask(self.core, self.plan, self.attributes, self.outcome)
        except errors.ApiError as error:
            error.warnings = tuple(self.outcome.warnings)
            raise
        finally:
            if self.outcome.annotations:
                self.call.annotations = self.outcome.annotations


def of_write(
    core: Core,
    served: Served,
    call: Call,
    wanted: WriteOptions,
    operation: Operation,
    old: Object | None = None,
    *,
    shape: Served | None = None,
) -> Passage | None:
    """None if neither a webhook nor a policy can be concerned."""
    plan = core.webhooks.plan(served, call.subresource, operation)
    if plan is None:
        return None
    options: Object = {
        "kind": "CreateOptions" if operation == "CREATE" else "UpdateOptions",
        "apiVersion": "meta.k8s.io/v1",
    }
    if wanted.dry_run:
        options["dryRun"] = ["All"]
    for field in ("fieldManager", "fieldValidation"):
        if call.options.get(field):
            options[field] = call.options[field]
    name = call.name or (objects.name(objects.mapping(call.body)) if operation == "CREATE" else "")
    shown = _shown(served, call.subresource, old) if old is not None else None
    attributes = Attributes(
        served,
        operation,
        name,
        _namespace(served, call.namespace, name),
        call.user,
        options,
        call.subresource,
        old=shown,
        dry_run=wanted.dry_run,
    )
    return Passage(core, plan, attributes, dispatching.Outcome(), call, wanted, shape)


def of_deletion(core: Core, served: Served, call: Call, wanted: DeleteOptions, old: Object) -> Passage | None:
    plan = core.webhooks.plan(served, "", "DELETE")
    if plan is None:
        return None
    options: Object = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    if wanted.propagation:
        options["propagationPolicy"] = wanted.propagation
    if wanted.dry_run:
        options["dryRun"] = ["All"]
    preconditions = {"uid": wanted.uid, "resourceVersion": wanted.resource_version}
    if any(preconditions.values()):
        options["preconditions"] = {key: value for key, value in preconditions.items() if value}
    # A request to delete a collection names no object.
    name = call.name if call.verb == "delete" else ""
    namespace = _namespace(served, call.namespace or objects.namespace(old), name)
    attributes = Attributes(served, "DELETE", name, namespace, call.user, options, old=old, dry_run=wanted.dry_run)
    return Passage(core, plan, attributes, dispatching.Outcome(), call, WriteOptions("", dry_run=wanted.dry_run))


def _namespace(served: Served, namespace: str, name: str) -> str:
    """Of a request about a namespace, webhooks are told that namespace."""
    return name if served.resource.plural == "namespaces" and not served.resource.group else namespace


def _shown(served: Served, subresource: str, obj: Object) -> Object:
    return scales.of(served, obj) if subresource == "scale" else obj


def _with_owners_of(before: Object, changed: Object | None) -> Object:
    """Who manages which field is the server's to say, whatever a webhook made of it."""
    obj = changed or {}
    metadata = {**objects.metadata(obj)}
    metadata.pop("managedFields", None)
    if managed := objects.metadata(before).get("managedFields"):
        metadata["managedFields"] = managed
    return {**obj, "metadata": metadata}
