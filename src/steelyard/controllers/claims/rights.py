"""Whose rights a claim acts with where it reaches out of its namespace: those of its author, asked for at every use.

Admission has judged the claim when it was written. Since then a grant may have gone from the platform file, or the
author may have lost the right; so the question is put again before anything is written there.
"""

from __future__ import annotations

from typing import Final

from steelyard.api import authors
from steelyard.api.authors import Author
from steelyard.compose.composed import Reading
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.settings import Platform

REVIEWS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
_WRITE_ANEW: Final = "Write the reference anew (take spec.writeConnectionSecretToRef out and put it back)"


class Rights:
    def __init__(self, client: Client, platform: Platform) -> None:
        self._client = client
        self._allowed = platform.connection_secrets
        self._robots = frozenset(platform.connection_secrets.robot_users())

    async def problem(self, claim: Object) -> str:
        """Why the connection Secret may not be written where the claim wants it, and what to do; nothing if it may."""
        namespace, target = objects.namespace(claim), authors.destination(claim)
        if not target or self._allowed.allows(namespace, target):
            return ""
        author = authors.of(claim)
        person = None if author is None or author.name in self._robots else author
        if person is not None and await may(self._client, person, "create", "secrets", target):
            return ""
        return f"the connection Secret cannot go to namespace {target}: {self._words(author, namespace)}"

    async def reading_problem(self, claim: Object, reading: Reading) -> str:
        """Why data of another namespace may not be copied for the claim, and what to do; nothing if it may."""
        author, namespace, target = authors.of_clone(claim), objects.namespace(claim), reading.namespace
        person = None if author is None or author.name in self._robots else author
        if person is not None and await may(self._client, person, "get", "secrets", target):
            return ""
        about = f"data of namespace {target} cannot be copied"
        grant = (
            f"grant masked copies of databases in {target} to claims in {namespace} (postgresql.clones in the platform "
            "file)"
        )
        if author is None:
            return f"{about}: the claim does not say who asked for it. Make it anew, or {grant}"
        if person is None:
            return f"{about}: {author.name} acts for others, so its own rights do not count. {_capital(grant)}"
        return f"{about}: {author.name} may not read Secrets there. Allow {author.name} to, or {grant}"

    def _words(self, author: Author | None, namespace: str) -> str:
        grant = f"grant it to claims in {namespace} (connectionSecrets.grants in the platform file)"
        if author is None:
            return f"the claim does not say who asked for it. {_WRITE_ANEW}, or {grant}"
        if author.name in self._robots:
            return f"{author.name} acts for others, so its own rights do not count. {grant.capitalize()}"
        ask = f"Allow {author.name} to create Secrets there, {grant}, or leave out writeConnectionSecretToRef.namespace"
        return f"{author.name} may not create Secrets there. {ask}"


async def may(client: Client, author: Author, verb: str, plural: str, namespace: str, name: str = "") -> bool:
    """Whether they may do that with a kind of the core group there; without a name, with any of them."""
    asked: Object = {"verb": verb, "resource": plural, "namespace": namespace}
    if name:
        asked["name"] = name
    review: Object = {
        "apiVersion": REVIEWS.api_version,
        "kind": REVIEWS.kind,
        "spec": {"user": author.name, "groups": list(author.groups), "resourceAttributes": asked},
    }
    answer = await client.create(REVIEWS, review)
    return objects.at(answer, "status", "allowed") is True


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
