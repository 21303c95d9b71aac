"""Single decisions about caches, each as a small case; whole ones are among the goldens."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from steelyard import settings
from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.compose import names
from steelyard.compose.composed import NOTHING, Composed, Observed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from tests.compose import cases

PLATFORM = Platform()
WITH_VAULT = settings.parse("integrations: {vault: {enabled: true}}")


def claim(
    name: str = "shop",
    namespace: str = "team-a",
    *,
    external: str = "",
    secret: Object | None = None,
    **parameters: Any,
) -> Object:
    metadata: Object = {"name": name, "namespace": namespace, "uid": "u-1"}
    if external:
        metadata["annotations"] = {EXTERNAL_NAME: external}
    spec: Object = {"parameters": {"environment": "dev", **parameters}}
    if secret is not None:
        spec["writeConnectionSecretToRef"] = secret
    return {"apiVersion": "cache.steelyard.dev/v1alpha1", "kind": "RedisInstance", "metadata": metadata, "spec": spec}


def compose(obj: Object, observed: Observed = NOTHING, platform: Platform = PLATFORM) -> Composed:
    composed = cases.compose(obj, observed, platform)
    assert composed.refusal is None, composed.refusal
    return composed


def condition(composed: Composed, type_: str) -> Any:
    return next(each for each in composed.conditions if each.type == type_)


def values(composed: Composed) -> Object:
    return composed.desired["release"].object["spec"]["forProvider"]["values"]


def provided(obj: Object, platform: Platform = PLATFORM, *, owner: str = "") -> Observed:
    """The release as asked for and ready, and its password."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "True"}]}
    resources = {
        name: {**part.object, "metadata": {**objects.metadata(part.object), "uid": f"uid-of-{name}"}, "status": ready}
        for name, part in compose(obj, platform=platform).desired.items()
    }
    release = resources["release"]
    maker = {**release, "metadata": {**release["metadata"], "uid": owner or release["metadata"]["uid"]}}
    metadata: Object = {"name": "s", "ownerReferences": [objects.owner_reference(maker, controller=True)]}
    secret: Object = {"metadata": metadata, "data": {"password": base64.b64encode(b"p:w").decode()}}
    return Observed(resources, {"credentials": [secret]})


@pytest.mark.parametrize(
    ("asked", "architecture", "replicas", "told"),
    [
        pytest.param({}, "standalone", 1, "one server with 1 GiB of memory", id="the platform file's"),
        pytest.param({"replicas": 1}, "standalone", 1, "one server with 1 GiB", id="one"),
        pytest.param({"replicas": 3, "memoryGB": 8}, "replication", 3, "a primary and 3 replicas with 8", id="three"),
    ],
)
def test_replicas_decide_how_it_is_built(asked: Object, architecture: str, replicas: int, told: str) -> None:
    composed = compose(claim(**asked), provided(claim(**asked)))

    assert values(composed)["architecture"] == architecture
    assert values(composed)["replica"]["replicaCount"] == replicas
    assert told in condition(composed, "Ready").message


def test_every_server_has_the_memory_that_was_asked_for_and_data_does_not_fill_it() -> None:
    platform = settings.parse("redis: {memoryPercent: 50, whenFull: allkeys-lru}")
    found = values(compose(claim(replicas=2, memoryGB=4), platform=platform))

    for server in ("master", "replica"):
        assert found[server]["resources"] == {"requests": {"memory": "4Gi"}, "limits": {"memory": "4Gi"}}
    assert "maxmemory 2048mb\nmaxmemory-policy allkeys-lru" in found["commonConfiguration"]


@pytest.mark.parametrize(
    ("memory", "size"), [(1, "8Gi"), (4, "8Gi"), (8, "16Gi")], ids=["the least", "twice is the least", "twice"]
)
def test_the_volume_has_room_for_the_append_only_file(memory: int, size: str) -> None:
    assert values(compose(claim(memoryGB=memory)))["master"]["persistence"]["size"] == size


def test_a_volume_keeps_the_size_that_it_was_made_with() -> None:
    observed = provided(claim(memoryGB=1))
    grown = values(compose(claim(memoryGB=16), observed))

    assert grown["master"]["persistence"]["size"] == grown["replica"]["persistence"]["size"] == "8Gi"
    assert grown["master"]["resources"]["limits"]["memory"] == "16Gi"


@pytest.mark.parametrize(
    ("asked", "release"),
    [
        pytest.param(claim(), "redis-shop", id="derived"),
        pytest.param(claim(external="redis-sessions"), "redis-sessions", id="external name"),
        pytest.param(claim("x" * 50), "redis-" + "x" * 25 + "-", id="too long"),
    ],
)
def test_the_release_is_called_after_the_claim_and_stays_in_its_namespace(asked: Object, release: str) -> None:
    composed = compose(asked)
    made = composed.desired["release"].object

    assert str(composed.status["release"]).startswith(release)
    assert len(str(composed.status["release"])) <= 40
    assert made["metadata"]["annotations"][EXTERNAL_NAME] == composed.status["release"]
    assert made["spec"]["forProvider"]["namespace"] == "team-a"
    assert composed.status["host"] == f"{composed.status['release']}-master.team-a.svc"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(claim("c", "a-b"), claim("b-c", "a"), id="read together the same"),
        pytest.param(claim("x" * 60 + "1"), claim("x" * 60 + "2"), id="cut"),
        pytest.param(claim("shop", "a"), claim("shop", "b"), id="namespaces"),
    ],
)
def test_no_two_claims_come_to_the_same_thing(one: Object, other: Object) -> None:
    def made(obj: Object) -> set[tuple[str, str]]:
        desired = compose(obj, platform=WITH_VAULT).desired.values()
        return {(part.resource.kind, objects.name(part.object)) for part in desired}

    assert made(one).isdisjoint(made(other))


def test_a_release_of_somebody_else_is_not_taken_over() -> None:
    asked = claim(external="redis-sessions")
    wanted = compose(asked).requirements["namesake"]
    assert (wanted.resource.kind, wanted.name) == ("Release", objects.name(compose(asked).desired["release"].object))

    theirs: Object = {"metadata": {"name": "x", "labels": names.claim_labels(claim("theirs"))}}
    refused = cases.compose(asked, Observed(required={"namesake": [theirs]}), PLATFORM).refusal
    assert refused is not None
    assert refused.reason == "ExternalNameTaken"
    own: Object = {"metadata": {"name": "x", "labels": names.claim_labels(asked)}}
    assert compose(asked, Observed(required={"namesake": [own]})).desired


@pytest.mark.parametrize(("recorded", "asked"), [("redis-a", ""), ("redis-a", "redis-b")], ids=["taken off", "changed"])
def test_a_claim_that_has_another_release_than_it_says_is_refused(recorded: str, asked: str) -> None:
    obj = claim(external=asked)
    obj["status"] = {"release": recorded}
    refused = cases.compose(obj, NOTHING, PLATFORM).refusal

    assert refused is not None
    assert refused.reason == "ExternalNameChanged"


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        (claim(), "secret/caches/dev/team-a/shop"),
        (claim(namespace="dev"), "secret/caches/dev/shop"),
        (claim(environment="prod"), "secret/caches/production/team-a/shop"),
    ],
    ids=["derived", "namespace called as the environment", "by an alias"],
)
def test_the_password_is_put_into_vault_only_where_that_is_enabled(asked: Object, path: str) -> None:
    composed = compose(asked, platform=WITH_VAULT)
    pushed = {each["match"]["remoteRef"]["remoteKey"] for each in composed.desired["vault"].object["spec"]["data"]}

    assert (composed.status["vaultPath"], pushed) == (path, {path.removeprefix("secret/")})
    assert "vault" not in compose(asked).desired
    assert "vaultPath" not in compose(asked).status


def test_the_secret_and_what_is_in_vault_go_before_the_release() -> None:
    asked = claim(secret={"name": "connection"})
    desired = compose(asked, provided(asked, WITH_VAULT), WITH_VAULT).desired

    assert desired["connection"].deletion_stage == desired["vault"].deletion_stage < desired["release"].deletion_stage


def test_the_connection_secret_has_what_is_needed_to_connect() -> None:
    asked = claim(secret={"name": "connection"})
    made = compose(asked, provided(asked)).desired["connection"].object
    found = {key: base64.b64decode(value).decode() for key, value in made["data"].items()}

    host = "redis-shop-master.team-a.svc"
    url = f"redis://:p%3Aw@{host}:6379"
    expected = {"host": host, "endpoint": host, "port": "6379", "password": "p:w", "url": url, "uri": url}
    assert found == expected


def test_a_password_that_is_not_the_releases_is_not_passed_on() -> None:
    asked = claim(secret={"name": "connection"})
    composed = compose(asked, provided(asked, owner="somebody-else"))

    assert "connection" not in composed.desired
    assert composed.retained == {"connection"}
    assert "is not the cache's" in condition(composed, "Ready").message


def test_an_environment_that_is_gone_changes_nothing() -> None:
    composed = cases.compose(claim(environment="moon"), NOTHING, PLATFORM)

    assert composed.refusal is not None
    assert (composed.refusal.reason, composed.desired) == ("EnvironmentNotAvailable", {})
