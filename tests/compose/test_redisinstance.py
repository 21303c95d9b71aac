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

PLATFORM = settings.parse("redis: {mode: helm}")
WITH_VAULT = settings.parse("{redis: {mode: helm}, integrations: {vault: {enabled: true}}}")
PROCESSES = Platform()
"""As a platform is that runs by itself."""


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
    platform = settings.parse("redis: {mode: helm, memoryPercent: 50, whenFull: allkeys-lru}")
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


def served(obj: Object, platform: Platform = PROCESSES, **status: Any) -> Observed:
    """The servers as asked for and ready, and their credentials."""
    ready = [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "True"}]
    provider = {"host": "127.0.0.1", "port": 20001, "primary": 0, **status.pop("provider", {})}
    wanted = compose(obj, platform=platform).desired["server"].object
    conditions = [*ready, *status.pop("conditions", [])]
    found = {
        **wanted,
        "metadata": {**wanted["metadata"], "uid": "u-server"},
        "status": {"atProvider": provider, "conditions": conditions},
    }
    details = {"username": "redis-shop", "password": "p:w", "endpoint": "127.0.0.1", "port": "20001"}
    secret: Object = {
        "metadata": {"name": "s", "ownerReferences": [objects.owner_reference(found, controller=True)]},
        "data": {
            key: base64.b64encode(value.encode()).decode()
            for key, value in {**details, "admin-password": "a", "previous-password": "o"}.items()
        },
    }
    return Observed({"server": found}, {"credentials": [secret], "namesake": [found]})


def test_on_a_platform_that_runs_by_itself_a_cache_is_processes() -> None:
    asked = claim(replicas=2, memoryGB=4, rotateEvery="720h")
    asked["metadata"]["annotations"] = {"steelyard.dev/rotate": "monday"}
    platform = settings.parse("redis: {memoryPercent: 50, whenFull: allkeys-lru, rotationOverlap: 10m}")
    composed = compose(asked, platform=platform)

    assert list(composed.desired) == ["server"]
    assert composed.desired["server"].object["spec"] == {
        "forProvider": {
            "username": "redis-shop",
            "replicas": 2,
            "memoryBytes": 4 << 30,
            "memoryPercent": 50,
            "whenFull": "allkeys-lru",
            "appendOnly": True,
            "rotation": {"overlap": "10m", "trigger": "monday", "every": "720h"},
        },
        "deletionPolicy": "Delete",
        "writeConnectionSecretToRef": {"namespace": "crossplane-system", "name": "redis.team-a.shop"},
    }
    assert composed.status["compositionRevision"] == "v2"


def test_what_is_needed_to_connect_to_processes_and_nothing_of_the_platforms_own() -> None:
    asked = claim(secret={"name": "connection"})
    composed = compose(asked, served(asked), PROCESSES)
    data = composed.desired["connection"].object["data"]

    assert {key: base64.b64decode(value).decode() for key, value in data.items()} == {
        "host": "127.0.0.1",
        "endpoint": "127.0.0.1",
        "port": "20001",
        "username": "redis-shop",
        "password": "p:w",
        "url": "redis://redis-shop:p%3Aw@127.0.0.1:20001",
        "uri": "redis://redis-shop:p%3Aw@127.0.0.1:20001",
    }
    status = composed.status
    assert (status["host"], status["port"], status["username"]) == ("127.0.0.1", 20001, "redis-shop")
    assert "release" not in status


def test_processes_are_ready_once_their_password_is_there_and_their_secret_is_written() -> None:
    asked = claim(secret={"name": "connection"})
    first = compose(asked, served(asked), PROCESSES)
    assert condition(first, "Ready").message == "waiting for Secret team-a/connection"

    there = served(asked)
    both = Observed({**there.resources, "connection": first.desired["connection"].object}, there.required)
    told = "one server with 1 GiB of memory at 127.0.0.1:20001"
    assert condition(compose(asked, both, PROCESSES), "Ready").message == told


def test_a_cache_that_fills_up_says_so() -> None:
    filling = {"type": "MemoryAvailable", "status": "False", "message": "at least 95 % of the 768 MiB are used"}
    asked = claim()
    ready = condition(compose(asked, served(asked, conditions=[filling]), PROCESSES), "Ready")

    assert ready.status == "True"
    assert ready.message.endswith("at 127.0.0.1:20001; at least 95 % of the 768 MiB are used")


def test_a_cache_whose_replicas_are_behind_can_be_used_and_says_so() -> None:
    behind = {"type": "Replicated", "status": "False", "message": "1 of 2 replicas follow it"}
    asked = claim(replicas=2)
    asked["status"] = {"conditions": [{"type": "Ready", "status": "True", "reason": "Available"}]}
    composed = compose(asked, served(asked, conditions=[behind]), PROCESSES)

    ready = condition(composed, "Ready")
    assert (ready.status, ready.message) == ("True", "1 of 2 replicas follow it")
    assert condition(composed, "UpToDate").status == "False"


def test_of_processes_vault_gets_what_connects_and_the_servers_go_last() -> None:
    platform = settings.parse("integrations: {vault: {enabled: true}}")
    asked = claim(secret={"name": "connection"})
    desired = compose(asked, served(asked, platform), platform).desired

    assert set(desired["vault"].object["spec"]["template"]["data"]) == {"host", "port", "username", "password", "url"}
    assert desired["connection"].deletion_stage == desired["vault"].deletion_stage < desired["server"].deletion_stage


def release_of(obj: Object) -> Object:
    return {
        "metadata": {"name": "r", "uid": "u-release", "labels": names.claim_labels(obj)},
        "spec": compose(obj).desired["release"].object["spec"],
    }


@pytest.mark.parametrize(
    ("platform", "pinned", "has_release", "made"),
    [
        pytest.param(PROCESSES, "", False, "server", id="new, processes"),
        pytest.param(PLATFORM, "", False, "release", id="new, helm"),
        pytest.param(PROCESSES, "v1", False, "server", id="waited for provider-helm in vain"),
        pytest.param(PROCESSES, "v1", True, "release", id="a release stays one"),
        pytest.param(PLATFORM, "v2", False, "server", id="processes stay processes"),
    ],
)
def test_a_cache_stays_what_it_was_made_as(platform: Platform, pinned: str, has_release: bool, made: str) -> None:
    asked = claim()
    found = [release_of(asked)] if has_release else []
    if pinned:
        asked["status"] = {"compositionRevision": pinned, **({"release": "redis-shop"} if pinned == "v1" else {})}
    composed = compose(asked, Observed(required={"former": found}), platform)

    assert list(composed.desired) == [made]
    assert composed.status["compositionRevision"] == {"server": "v2", "release": "v1"}[made]


def test_a_claim_that_asks_for_the_release_gets_it() -> None:
    asked = claim()
    asked["metadata"]["annotations"] = {"steelyard.dev/composition-revision": "v1"}

    assert list(compose(asked, platform=PROCESSES).desired) == ["release"]


def test_the_password_of_a_release_is_not_rotated_and_that_is_said() -> None:
    asked = claim(rotateEvery="24h")
    asked["metadata"]["annotations"] = {"steelyard.dev/rotate": "1"}
    told = condition(compose(asked), "InForce").message

    assert "steelyard.dev/rotate has no effect" in told
    assert "spec.parameters.rotateEvery has no effect" in told


def test_servers_of_somebody_else_are_not_taken_over() -> None:
    asked = claim(external="redis-sessions")
    theirs: Object = {"metadata": {"name": "x", "labels": names.claim_labels(claim("theirs"))}}
    refused = cases.compose(asked, Observed(required={"namesake": [theirs]}), PROCESSES).refusal

    assert refused is not None
    assert (refused.reason, "RedisServer x was made for another one" in refused.message) == ("ExternalNameTaken", True)


def test_another_name_for_servers_is_another_cache_and_refused() -> None:
    obj = claim(external="redis-b")
    obj["status"] = {"username": "redis-a", "compositionRevision": "v2"}
    refused = cases.compose(obj, NOTHING, PROCESSES).refusal

    assert refused is not None
    assert refused.reason == "ExternalNameChanged"


def test_connection_data_goes_into_clusters_with_the_url_for_the_environment() -> None:
    asked = claim(deliverTo=[{"cluster": "mall", "namespace": "web", "name": "cache"}])
    composed = compose(asked, served(asked), PROCESSES)
    copied = composed.desired["delivered"].object["data"]
    [spec] = [each.object["spec"] for each in composed.desired.values() if each.resource.kind == "SecretDelivery"]

    assert copied["REDIS_URL"] == copied["url"]
    assert spec["source"]["name"] == "delivery.redisinstance.team-a.shop"
    assert condition(composed, "Ready").status == "True"
    assert condition(composed, "Delivered").status == "False"
    both = settings.parse("integrations: {vault: {enabled: true}, externalSecrets: {enabled: true}}")
    fetched = compose(asked, served(asked, both), both)
    [spec] = [each.object["spec"] for each in fetched.desired.values() if each.resource.kind == "SecretDelivery"]
    keys = [each["secretKey"] for each in spec["manifest"]["spec"]["data"]]
    assert keys == ["host", "port", "username", "password", "url", "REDIS_URL"]
