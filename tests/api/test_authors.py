"""The annotations that say who asked for a Secret in another namespace are the server's, whatever a client sends."""

from __future__ import annotations

import pytest

from steelyard.api import authors
from steelyard.api.authors import AUTHOR, GROUPS, Author
from steelyard.kube import objects
from steelyard.kube.objects import Object

FORGED = {AUTHOR: "root", GROUPS: "system:masters"}
JANES = {AUTHOR: "jane", GROUPS: "team\nsystem:authenticated"}


def claim(namespace: str = "", annotations: dict[str, str] | None = None, name: str = "s") -> Object:
    reference = {"name": name, **({"namespace": namespace} if namespace else {})}
    metadata: Object = {"name": "c", "namespace": "team-a", **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata, "spec": {"writeConnectionSecretToRef": reference}}


CASES: dict[str, tuple[Object, Object | None, dict[str, str]]] = {
    "new, elsewhere": (claim("argocd"), None, JANES),
    "new, elsewhere, forged": (claim("argocd", FORGED), None, JANES),
    "new, at home, forged": (claim("", FORGED), None, {}),
    "new, at home by name": (claim("team-a", FORGED), None, {}),
    "unchanged": (claim("argocd"), claim("argocd", FORGED), FORGED),
    "unchanged, taken out": (claim("argocd", {"a": "b"}), claim("argocd", FORGED), {"a": "b", **FORGED}),
    "unchanged, nobody known": (claim("argocd", JANES), claim("argocd"), {}),
    "another name": (claim("argocd", FORGED, name="t"), claim("argocd", FORGED), JANES),
    "another namespace": (claim("kube-system", FORGED), claim("argocd", FORGED), JANES),
    "brought home": (claim("", FORGED), claim("argocd", FORGED), {}),
}


@pytest.mark.parametrize(("written", "old", "expected"), CASES.values(), ids=CASES)
def test_the_author_is_who_set_the_reference(written: Object, old: Object | None, expected: dict[str, str]) -> None:
    authors.stamp(written, old, "jane", ("team", "system:authenticated"))
    assert objects.annotations(written) == expected
    assert objects.metadata(written).get("annotations") != {}


def test_an_author_is_read_as_it_was_written() -> None:
    assert authors.of(claim("argocd", JANES)) == Author("jane", ("team", "system:authenticated"))
    assert authors.of(claim("argocd")) is None
