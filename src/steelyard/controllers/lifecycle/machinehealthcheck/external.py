"""Remediation by somebody else: from the template that a check refers to, a request is made for each unhealthy machine,
named and owned by it, and taken back when the machine is healthy again.
"""

from __future__ import annotations

import contextlib
from typing import Final

from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import contract
from steelyard.controllers.lifecycle.contract import TEMPLATE_SUFFIX, Reference
from steelyard.controllers.lifecycle.marks import EXTERNALLY_REMEDIATED
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource, split_api_version
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

_WAITING: Final = "WaitingForRemediation"


def is_to_be_asked_again(asked: Verdict | None) -> bool:
    """Nothing tells of a template that is made later, or of a kind that is defined."""
    return asked is not None and asked.reason != _WAITING


class External:
    def __init__(self, client: Client, reference: Object, namespace: str) -> None:
        """`reference` is `spec.remediation.templateRef`."""
        group, version = split_api_version(str(reference.get("apiVersion") or ""))
        kind = str(reference.get("kind") or "")
        made = kind.removesuffix(TEMPLATE_SUFFIX)
        self._client = client
        self._namespace = namespace
        self._reference = Reference(group, kind, str(reference.get("name") or ""))
        self._template = Resource(group, version, contract.plural_of(kind), kind)
        self._request = Resource(group, version, contract.plural_of(made), made)

    async def ask(self, machine: Object) -> Verdict | None:
        """What the machine's condition is to say; None where the request is there already."""
        if self._reference.kind == self._request.kind:
            return self._failed(f"{self._reference.kind} is no kind of templates, whose names end in {TEMPLATE_SUFFIX}")
        if await self._find(self._request, objects.name(machine)) is not None:
            return None
        template = await self._find(self._template, self._reference.name)
        if template is None:
            message = (
                f"Error retrieving remediation template {self._reference.kind} {self._namespace}/{self._reference.name}"
            )
            return verdicts.false(EXTERNALLY_REMEDIATED, "RemediationTemplateNotFound", message)
        try:
            with contextlib.suppress(errors.AlreadyExists):
                await self._client.create(self._request, self._made(template, machine))
        except errors.ServiceUnavailable:
            raise
        except errors.ApiError as error:
            return self._failed(error.message)
        return verdicts.false(EXTERNALLY_REMEDIATED, _WAITING)

    async def take_back(self, machine: Object) -> None:
        found = await self._find(self._request, objects.name(machine))
        if found is None or objects.is_being_deleted(found) or not objects.is_owned_by(found, machine):
            return
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(self._request, objects.name(found), self._namespace, uid=objects.uid(found))

    def _made(self, template: Object, machine: Object) -> Object:
        labels = {wellknown.CLUSTER_NAME_LABEL: str(objects.at(machine, "spec", "clusterName"))}
        made = contract.clone(template, self._reference, objects.name(machine), labels=labels, annotations={})
        made["metadata"]["ownerReferences"] = [objects.owner_reference(machine)]
        return made

    async def _find(self, resource: Resource, name: str) -> Object | None:
        try:
            return await self._client.get(resource, name, self._namespace)
        except errors.NotFound:
            return None

    @staticmethod
    def _failed(message: str) -> Verdict:
        return verdicts.false(EXTERNALLY_REMEDIATED, "RemediationRequestCreationFailed", message)
