"""A tenant with rights in one namespace tries every reference of every kind into another, and so does an almighty
service account that is declared to act for others: by the table of `references.py`, which has to name every field that
could be one. `make conformance` tries the same on kube-apiserver."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from steelyard import settings
from steelyard.compose import offering
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.composed import NOTHING
from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.call import AUTHENTICATED, User
from tests.api import references
from tests.api.references import NO_REFERENCES, REFERENCES, ROBOT, TENANT, WITHOUT_EFFECT, Attempt
from tests.conformance import corpus
from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import NAMESPACE, Stage

RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource(RBAC, "v1", "rolebindings", "RoleBinding")
CLUSTER_BINDINGS = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
OTHER = "team-b"
VARIABLES = {"NS": NAMESPACE, "OTHER": OTHER}
ATTEMPTS = list(references.attempts())
USERS = {
    TENANT: User(TENANT, (AUTHENTICATED,)),
    ROBOT: User(ROBOT, ("system:serviceaccounts", "system:serviceaccounts:argocd", AUTHENTICATED)),
}

each_kind = pytest.mark.parametrize("kind", offering.STANDARD.kinds, ids=lambda kind: kind.resource("").kind)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    async with stages.opened(tmp_path, references.PLATFORM) as stage:
        await stage.crash()
        await stage.namespace(OTHER)
        groups = sorted({kind.resource("steelyard.dev").group for kind in offering.STANDARD.kinds})
        rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
        role: Object = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "claims"}}
        await stage.client.create(ROLES, {**role, "rules": rules})
        tenant = {"apiGroup": RBAC, "kind": "User", "name": TENANT}
        for name in ("claims", "edit"):
            await stage.client.create(BINDINGS, binding(name, tenant, NAMESPACE))
        robot = {"kind": "ServiceAccount", "namespace": "argocd", "name": "controller"}
        await stage.client.create(CLUSTER_BINDINGS, binding("cluster-admin", robot))
        yield stage


def binding(role: str, subject: Object, namespace: str = "") -> Object:
    metadata = {"name": f"test-{role}", **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


@pytest.mark.parametrize("user", [TENANT, ROBOT], ids=["tenant", "robot"])
async def test_nothing_of_anothers_is_reached(stage: Stage, user: str) -> None:
    client = stage.as_(USERS[user])
    assert ATTEMPTS
    for number, attempt in enumerate(ATTEMPTS):
        resource, asked = attempt.kind.resource("steelyard.dev"), attempt.reference
        own, foreign = f"own-{number}", f"foreign-{number}"
        assert await client.create(resource, filled(attempt.claim(own, asked.own))), attempt.title
        for dry_run in (True, False):
            with pytest.raises((errors.Forbidden, errors.Invalid)) as refused:
                await client.create(resource, filled(attempt.claim(foreign, asked.foreign)), dry_run=dry_run)
            assert attempt.said_to(user) in refused.value.message, attempt.title
        with pytest.raises((errors.Forbidden, errors.Invalid)) as refused:
            await client.apply(resource, filled(attempt.claim(foreign, asked.foreign)), field_manager="test")
        assert attempt.said_to(user) in refused.value.message, attempt.title
        with pytest.raises((errors.Forbidden, errors.Invalid)) as refused:
            await client.patch(resource, own, filled(references.with_values({}, asked.foreign)), NAMESPACE)
        assert attempt.said_to(user, later=True) in refused.value.message, attempt.title


async def test_the_tenant_has_no_right_elsewhere_and_the_robot_has_every_right(stage: Stage) -> None:
    """Else the test above would show nothing."""
    claim = filled(Attempt(offering.STANDARD.kinds[0], REFERENCES[0]).claim("a", {}))
    elsewhere: Object = {**claim, "metadata": {**claim["metadata"], "namespace": OTHER}}
    resource = offering.STANDARD.kinds[0].resource("steelyard.dev")
    with pytest.raises(errors.Forbidden):
        await stage.as_(USERS[TENANT]).create(resource, elsewhere)
    assert await stage.as_(USERS[ROBOT]).create(resource, elsewhere)


def filled(body: Object) -> Object:
    return corpus.filled(body, VARIABLES)


def fields_of(kind: ClaimKind) -> set[str]:
    return {
        field
        for reference in REFERENCES
        if not reference.kinds or kind.resource("").kind in reference.kinds
        for field in reference.fields
    }


@each_kind
def test_every_field_that_takes_any_text_was_thought_about(kind: ClaimKind) -> None:
    known = fields_of(kind) | set(NO_REFERENCES) | set(WITHOUT_EFFECT)

    assert [field for field in references.texts(kind) if field not in known] == [], (
        "a field that could point at something: put it into tests/api/references.py"
    )


@each_kind
def test_a_reference_in_the_table_says_all_the_fields_that_it_uses(kind: ClaimKind) -> None:
    for reference in REFERENCES:
        assert set(reference.foreign) <= set(reference.fields)
        assert reference.fields[0] in reference.foreign


def test_no_row_of_the_table_is_about_nothing() -> None:
    there = {field for kind in offering.STANDARD.kinds for field in references.texts(kind)}
    named = {field for kind in offering.STANDARD.kinds for field in fields_of(kind)} | {*NO_REFERENCES, *WITHOUT_EFFECT}

    assert {field for field in named if not field.startswith("metadata.annotations.")} <= there
    kinds = {kind.resource("").kind for kind in offering.STANDARD.kinds}
    assert {each for reference in REFERENCES for each in reference.kinds} <= kinds


def composed_of(claim: Object) -> Any:
    kind = offering.STANDARD.kind_of(claim)
    assert kind is not None
    made = kind.compose(claim, NOTHING, settings.parse(""))
    assert made.refusal is None
    return made.desired


@each_kind
def test_what_is_kept_without_effect_changes_nothing(kind: ClaimKind) -> None:
    attempt = Attempt(kind, REFERENCES[0])
    values = {field.replace("*", "theirs"): "theirs" for field in WITHOUT_EFFECT}

    assert composed_of(filled(attempt.claim("a", values))) == composed_of(filled(attempt.claim("a", {})))


class Looked(dict[str, str]):
    """Remembers which keys were asked for."""

    def __init__(self, found: dict[str, str]) -> None:
        super().__init__(found)
        self.keys_asked_for: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.keys_asked_for.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.keys_asked_for.add(str(key))
        return super().__contains__(key)

    def __getitem__(self, key: str) -> str:
        self.keys_asked_for.add(key)
        return super().__getitem__(key)


@each_kind
def test_every_annotation_that_is_composed_of_was_thought_about(kind: ClaimKind) -> None:
    claim = filled(Attempt(kind, REFERENCES[0]).claim("a", {}))
    annotations = Looked({"some": "thing"})
    claim["metadata"]["annotations"] = annotations
    composed_of(claim)

    known = {*fields_of(kind), *NO_REFERENCES, *WITHOUT_EFFECT}
    assert {key for key in annotations.keys_asked_for if f"metadata.annotations.{key}" not in known} == set()
