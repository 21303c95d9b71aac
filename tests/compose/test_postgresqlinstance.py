"""Single decisions about databases, each as a small case; whole ones are among the goldens."""

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
from tests.compose import cases, printed

PLATFORM = Platform()
WITH_VAULT = settings.parse("integrations: {vault: {enabled: true}}")
ROLES = ("owner", "login")
GRANTS = ("membership", "access")


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
    return {
        "apiVersion": "database.steelyard.dev/v1alpha1",
        "kind": "PostgreSQLInstance",
        "metadata": metadata,
        "spec": spec,
    }


def first_revision(obj: Object) -> Object:
    return {**obj, "status": {"compositionRevision": "v1"}}


def compose(obj: Object, observed: Observed = NOTHING, platform: Platform = PLATFORM) -> Composed:
    composed = cases.compose(obj, observed, platform)
    assert composed.refusal is None, composed.refusal
    return composed


def refusal(obj: Object, observed: Observed = NOTHING, platform: Platform = PLATFORM) -> tuple[str, str]:
    found = cases.compose(obj, observed, platform).refusal
    assert found is not None
    return found.reason, found.message


def condition(composed: Composed, type_: str) -> Any:
    return next((each for each in composed.conditions if each.type == type_), None)


def spec_of(composed: Composed, part: str) -> Object:
    return composed.desired[part].object["spec"]["forProvider"]


def provided(obj: Object, platform: Platform = PLATFORM, *, owner: str = "", **data: str) -> Observed:
    """Every part as asked for and ready, and the login's credentials; `owner` is whose they are, if not the login's."""
    ready: Object = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "True"}]}
    resources = {
        name: {**part.object, "metadata": {**objects.metadata(part.object), "uid": f"uid-of-{name}"}, "status": ready}
        for name, part in compose(obj, platform=platform).desired.items()
    }
    login = resources["login"]
    maker = {**login, "metadata": {**objects.metadata(login), "uid": owner or objects.uid(login)}}
    found = {"username": "u", "password": "p:w", "endpoint": "db.example.org", "port": "5432", **data}
    owners = [objects.owner_reference(maker, controller=True)]
    secret: Object = {
        "metadata": {"name": "s", "namespace": "n", "ownerReferences": owners},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in found.items()},
    }
    return Observed(resources, {"credentials": [secret]})


@pytest.mark.parametrize(("platform", "has_vault"), [(PLATFORM, False), (WITH_VAULT, True)], ids=["without", "with"])
def test_credentials_are_put_into_vault_only_where_that_is_enabled(platform: Platform, has_vault: bool) -> None:
    composed = compose(claim(), platform=platform)

    watching = ["usage", "backup"]
    in_vault = ["vault", "vault-api-key-maker", "vault-api-key", "vault-policy"] if has_vault else []
    assert list(composed.desired) == [*ROLES, "database", *GRANTS, *watching, *in_vault]
    assert ("vaultPath" in composed.status) is has_vault


def test_what_refers_to_another_thing_goes_before_it() -> None:
    asked = claim(secret={"name": "connection"})
    desired = compose(asked, provided(asked, WITH_VAULT), WITH_VAULT).desired
    stages = {name: part.deletion_stage for name, part in desired.items()}

    assert stages["connection"] < stages["membership"]
    assert stages["vault"] < stages["membership"]
    assert stages["membership"] == stages["access"] < stages["database"] < stages["owner"] == stages["login"]


def test_the_owner_cannot_log_in_and_the_login_acts_as_the_owner() -> None:
    composed = compose(claim())
    owner, login = spec_of(composed, "owner"), spec_of(composed, "login")
    owner_name = composed.desired["owner"].object["metadata"]["annotations"][EXTERNAL_NAME]

    assert (owner["privileges"]["login"], login["privileges"]["login"]) == (False, True)
    assert not any(login["privileges"][each] for each in ("superUser", "createDb", "createRole", "bypassRls"))
    assert {"name": "role", "value": owner_name} in login["configurationParameters"]
    assert spec_of(composed, "database")["owner"] == spec_of(composed, "membership")["memberOf"] == owner_name
    assert spec_of(composed, "access")["revokePublicOnDb"] is True


@pytest.mark.parametrize(
    ("size", "connections", "timeout"), [("small", 20, "60s"), ("medium", 60, "5min"), ("large", 200, "30min")]
)
def test_a_size_is_a_limit_and_the_defaults_of_a_session(size: str, connections: int, timeout: str) -> None:
    composed = compose(claim(size=size))
    login = spec_of(composed, "login")

    assert login["connectionLimit"] == spec_of(composed, "database")["connectionLimit"] == connections
    assert {"name": "statement_timeout", "value": timeout} in login["configurationParameters"]
    assert composed.status["parameters"]["connections"] == connections


def test_what_the_claim_leaves_out_comes_from_the_platform_file() -> None:
    platform = settings.parse("postgresql: {size: medium, storageGB: 70, enableBackup: false}")

    assert compose(claim(), platform=platform).status["parameters"] == {
        "environment": "dev",
        "size": "medium",
        "storageGB": 70,
        "enableBackup": False,
        "connections": 60,
        "deletionPolicy": "Delete",
        "deletionProtection": False,
    }


@pytest.mark.parametrize(
    ("asked", "begins"),
    [
        pytest.param(claim(), "dev_team_a_shop_", id="namespace and name"),
        pytest.param(claim(namespace="dev"), "dev_shop_", id="namespace called as the environment"),
        pytest.param(claim(environment="prod"), "prod_team_a_shop_", id="prefix of an environment by its alias"),
        pytest.param(claim(environment="pr-7", namespace="pr-7"), "pr_7_shop_", id="preview"),
        pytest.param(claim("a" * 60), "dev_team_a_aaa", id="too long"),
    ],
)
def test_the_database_is_called_after_namespace_and_name(asked: Object, begins: str) -> None:
    name = str(compose(asked).status["database"])

    assert name.startswith(begins)
    assert len(f"{name}_owner") <= 63, "PostgreSQL would cut it"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(claim("b-c", "a"), claim("c", "a-b"), id="read together the same"),
        pytest.param(claim("shop", "dev"), claim("shop", "team-a"), id="namespace left out"),
        pytest.param(claim("x" * 60 + "1"), claim("x" * 60 + "2"), id="cut"),
        pytest.param(claim("a-b"), claim("a.b"), id="written the same"),
    ],
)
def test_no_two_claims_come_to_the_same_thing(one: Object, other: Object) -> None:
    def made(obj: Object) -> set[tuple[str, str]]:
        composed = compose(obj, platform=WITH_VAULT)
        parts = {(part.resource.kind, objects.name(part.object)) for part in composed.desired.values()}
        outside = {
            (part.resource.kind, objects.annotations(part.object).get(EXTERNAL_NAME, objects.name(part.object)))
            for part in composed.desired.values()
        }
        return parts | outside

    assert made(one).isdisjoint(made(other))


def test_the_name_stays_whatever_becomes_of_the_prefix() -> None:
    asked = claim()
    before = str(compose(asked).status["database"])
    asked["status"] = {"database": before}
    platform = settings.parse("environments: {dev: {databasePrefix: other_}}")

    assert compose(asked, platform=platform).status["database"] == before
    assert str(compose(claim(), platform=platform).status["database"]).startswith("other_")


def test_an_external_name_is_honoured_where_it_is_free() -> None:
    composed = compose(claim(external="dev-ledger"))

    assert composed.status["database"] == composed.status["role"] == "dev-ledger"
    assert composed.desired["database"].object["metadata"]["annotations"][EXTERNAL_NAME] == "dev-ledger"


def test_a_namesake_is_looked_for_before_anything_is_made() -> None:
    asked = claim(external="dev-ledger")
    wanted = {
        (each.resource.kind, each.name) for name, each in compose(asked).requirements.items() if "namesake" in name
    }
    own = objects.name(compose(asked).desired["database"].object)

    assert wanted == {("Database", own), ("Database", "dev-ledger")}


@pytest.mark.parametrize("found", ["namesake", "namesake-made-by-hand"])
def test_what_somebody_else_has_under_the_name_is_not_taken_over(found: str) -> None:
    asked = claim(external="dev-ledger")
    theirs: Object = {"metadata": {"name": "x", "labels": names.claim_labels(claim("theirs"))}}
    own: Object = {"metadata": {"name": "x", "labels": names.claim_labels(asked)}}

    reason, message = refusal(asked, Observed(required={found: [theirs]}))
    assert (reason, "dev-ledger is not this claim's" in message) == ("ExternalNameTaken", True)
    assert compose(asked, Observed(required={found: [own]})).desired


@pytest.mark.parametrize(
    ("recorded", "asked"),
    [
        pytest.param("dev-ledger", "", id="taken off"),
        pytest.param("dev-ledger", "dev-other", id="changed"),
        pytest.param("dev_team_a_shop_8a1f0c52d3", "", id="forged"),
    ],
)
def test_a_claim_that_has_another_database_than_it_says_is_refused(recorded: str, asked: str) -> None:
    obj = claim(external=asked)
    obj["status"] = {"database": recorded}

    assert refusal(obj)[0] == "ExternalNameChanged"


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        pytest.param(claim(), "secret/apps/dev/team-a/shop", id="derived"),
        pytest.param(claim(namespace="dev"), "secret/apps/dev/shop", id="derived where the namespace is the stage's"),
        pytest.param(claim(environment="prod"), "secret/apps/production/team-a/shop", id="derived by an alias"),
        pytest.param(claim(vaultPath="secret/database/team-a"), "secret/database/team-a", id="asked for"),
    ],
)
def test_where_credentials_are_in_vault(asked: Object, path: str) -> None:
    composed = compose(asked, platform=WITH_VAULT)
    pushed = composed.desired["vault"].object["spec"]["data"]

    assert composed.status["vaultPath"] == path
    assert {each["match"]["remoteRef"]["remoteKey"] for each in pushed} == {path.removeprefix("secret/")}
    assert {each["match"]["remoteRef"]["property"] for each in pushed} == {
        "host", "port", "database", "username", "password", "database-url",
    }  # fmt: skip


def test_two_claims_for_one_path_are_one_object() -> None:
    """There is one of each name: the second claim finds that it is the first's."""
    one, other = (
        compose(claim(name, vaultPath="secret/database/team-a"), platform=WITH_VAULT).desired["vault"].object
        for name in ("one", "other")
    )
    assert (objects.name(one), objects.namespace(one)) == (objects.name(other), objects.namespace(other))


def test_no_password_is_in_anything_but_the_connection_secret() -> None:
    asked = claim(secret={"name": "connection"})
    composed = compose(asked, provided(asked, WITH_VAULT, password="hunter2"), WITH_VAULT)
    encoded = base64.b64encode(b"hunter2").decode()

    holding = [
        name for name, part in composed.desired.items() if "hunter2" in str(part.object) or encoded in str(part.object)
    ]
    assert holding == ["connection"]
    assert "hunter2" not in str((composed.status, composed.conditions))


@pytest.mark.parametrize(
    ("settings_of", "data", "key", "value"),
    [
        pytest.param({}, {}, "url", "{login}@db.example.org:5432/{database}?sslmode=require", id="quoted"),
        pytest.param(
            {}, {"endpoint": "fd00::1"}, "uri", "{login}@[fd00::1]:5432/{database}?sslmode=require", id="IPv6"
        ),
        pytest.param({"host": "pg.svc", "port": 6432}, {}, "host", "pg.svc", id="the platform file's host"),
        pytest.param({"host": "pg.svc", "port": 6432}, {}, "port", "6432", id="the platform file's port"),
        pytest.param(
            {"sslMode": "verify-full"},
            {},
            "url",
            "{login}@db.example.org:5432/{database}?sslmode=verify-full",
            id="TLS",
        ),
        pytest.param({}, {}, "endpoint", "db.example.org", id="the provider's host"),
        pytest.param({}, {}, "database", "{database}", id="database"),
    ],
)
def test_what_an_application_needs_to_connect(settings_of: Object, data: dict[str, str], key: str, value: str) -> None:
    platform = Platform.model_validate({"postgresql": settings_of})
    asked = claim(secret={"name": "connection"})
    composed = compose(asked, provided(asked, platform, **data), platform)

    found = base64.b64decode(composed.desired["connection"].object["data"][key]).decode()
    assert found == value.format(login="postgresql://u:p%3Aw", database=composed.status["database"])


@pytest.mark.parametrize(
    ("secret", "namespace", "owners"),
    [({"name": "c"}, "team-a", 1), ({"name": "c", "namespace": "vault"}, "vault", 0)],
    ids=["beside the claim", "elsewhere"],
)
def test_the_connection_secret_is_where_it_was_asked_for(secret: Object, namespace: str, owners: int) -> None:
    asked = claim(secret=secret)
    made = compose(asked, provided(asked)).desired["connection"].object

    assert (objects.namespace(made), len(objects.owner_references(made))) == (namespace, owners)


def test_credentials_that_are_not_the_logins_are_not_passed_on() -> None:
    asked = claim(secret={"name": "connection"})
    composed = compose(asked, provided(asked, owner="somebody-else"))

    assert "connection" not in composed.desired
    assert composed.retained == {"connection"}, "what was passed on before stays"
    assert "is not the login's" in condition(composed, "Ready").message


def test_a_database_that_can_be_used_stays_ready_while_it_is_changed() -> None:
    asked = claim()
    observed = provided(asked)
    assert condition(compose(asked, observed), "Ready").status == "True"

    changed = claim(size="large")
    changed["status"] = {"conditions": [{"type": "Ready", "status": "True", "reason": "Available"}]}
    composed = compose(changed, observed)
    assert (condition(composed, "Ready").status, condition(composed, "Ready").reason) == ("True", "Updating")
    assert condition(composed, "UpToDate").status == "False"


def test_what_a_provider_says_is_wrong_is_told() -> None:
    asked = claim()
    observed = provided(asked)
    broken = objects.copy(observed.resources["database"])
    broken["status"]["conditions"] = [{"type": "Synced", "status": "False", "message": "no such encoding"}]
    composed = compose(asked, Observed({**observed.resources, "database": broken}, observed.required))

    assert condition(composed, "Ready").status == "False"
    assert "no such encoding" in condition(composed, "Ready").message
    assert not composed.desired["database"].ready


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        pytest.param(first_revision(claim(enableBackup=True)), "this version makes no backups", id="backup"),
        pytest.param(claim(vaultPath="secret/database/dev"), "does not enable integrations.vault", id="no Vault"),
        pytest.param(first_revision(printed.CLAIMS["003 preview"]), "the annotation ttl", id="time to live"),
        pytest.param(printed.CLAIMS["003 sandbox"], "does not say what production-clone is", id="clone"),
        pytest.param(first_revision(claim()), "storageGB: 20", id="storage"),
        pytest.param(claim(version=17), "nobody says which version the server has", id="version"),
    ],
)
def test_what_has_no_effect_is_told(asked: Object, told: str) -> None:
    assert told in condition(compose(asked), "InForce").message


def test_what_is_in_force_by_now_is_no_longer_told() -> None:
    assert condition(compose(claim()), "InForce") is None


def test_an_environment_that_is_gone_changes_nothing() -> None:
    composed = cases.compose(claim(environment="moon"), NOTHING, PLATFORM)

    assert composed.refusal is not None
    assert (composed.refusal.reason, composed.desired) == ("EnvironmentNotAvailable", {})
