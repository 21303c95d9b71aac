"""Databases over time: logins that are replaced, copies that are made anew, and what becomes of one that fills up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from steelyard import settings
from steelyard.api.crossplane import DATABASES, GRANTS, ROLES
from steelyard.api.databases import BACKUPS, COPIES, USAGES
from steelyard.api.postgresql import BACK_UP, MAKE_ROOM, REFRESH, ROTATE
from steelyard.compose.postgresqlinstance import storage
from steelyard.kube import moments
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from tests.compose.databaseworld import Killed, World

PLATFORM = Platform()
HOUR = 3600.0
BASE = "dev-shop"


def claim(name: str = "shop", namespace: str = "dev", **parameters: Any) -> Object:
    return {
        "apiVersion": "database.steelyard.dev/v1alpha1",
        "kind": "PostgreSQLInstance",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"u-{name}",
            "annotations": {"crossplane.io/external-name": f"dev-{name}"},
        },
        "spec": {
            "parameters": {"environment": "dev", **parameters},
            "writeConnectionSecretToRef": {"name": f"{name}-connection"},
        },
    }


def running(asked: Object | None = None, platform: Platform = PLATFORM, *others: Object) -> World:
    world = World(asked or claim(), platform, *others)
    world.rest()
    return world


def role_limits(world: World) -> set[int]:
    return {
        obj["spec"]["forProvider"]["connectionLimit"]
        for (kind, _, _), obj in world.stored.items()
        if kind == ROLES and obj["spec"]["forProvider"]["privileges"]["login"]
    }


def test_a_new_database_is_ready_and_watched() -> None:
    world = running()

    assert world.condition("Ready")["status"] == world.condition("UpToDate")["status"] == "True"
    assert world.named(ROLES) == {BASE, f"{BASE}_owner"}
    assert world.named(DATABASES) == {BASE}
    assert len(world.named(USAGES)) == len(world.named(BACKUPS)) == 1
    assert world.secret("username") == world.secret("database") == BASE


def test_a_rotation_changes_the_secret_when_the_new_login_works_and_keeps_the_old_one_for_an_hour() -> None:
    world = running()
    world.annotate(ROTATE, "one")
    world.look()
    assert world.named(ROLES) == {BASE, f"{BASE}_r2", f"{BASE}_owner"}
    assert world.secret("username") == BASE, "the new login is not there yet"
    world.provide("Role")
    world.look()
    assert world.secret("username") == BASE, "it may not connect yet"

    world.rest()
    assert (world.secret("username"), world.secret("password")) == (f"{BASE}_r2", f"of-{BASE}_r2")
    assert world.named(ROLES) == {BASE, f"{BASE}_r2", f"{BASE}_owner"}
    again = world.composed().look_again
    assert HOUR - 5 <= again <= HOUR

    world.passes(again + 1)
    world.rest()
    assert world.named(ROLES) == {f"{BASE}_r2", f"{BASE}_owner"}
    assert len(world.named(GRANTS)) == 2
    assert world.claim["status"]["login"]["generation"] == 2
    assert "former" not in world.claim["status"]["login"]


def test_a_rotation_by_schedule() -> None:
    world = running(claim(rotateEvery="24h"))
    assert world.claim["status"]["login"]["dueAt"] == moments.text(world.moment + 24 * HOUR)
    world.passes(24 * HOUR)
    world.rest()

    assert world.secret("username") == f"{BASE}_r2"
    assert world.composed().look_again <= HOUR


def test_a_second_rotation_while_one_is_under_way_comes_after_it() -> None:
    world = running()
    world.annotate(ROTATE, "one")
    world.look()
    world.annotate(ROTATE, "two")
    world.rest()

    assert world.secret("username") == f"{BASE}_r3"
    assert world.named(ROLES) == {BASE, f"{BASE}_r2", f"{BASE}_r3", f"{BASE}_owner"}


def test_who_asks_for_rotations_all_the_time_gets_a_few_at_once() -> None:
    world = running()
    for number in range(10):
        world.annotate(ROTATE, str(number))
        world.rest()
    assert len(world.named(ROLES)) == 5, "the owner, the login, and three that still work"

    world.passes(2 * HOUR)
    world.rest()
    assert world.claim["status"]["login"]["trigger"] == "9", "the last wish counts, once there is room"


def test_an_annotation_that_a_new_claim_has_asks_for_nothing() -> None:
    asked = claim()
    asked["metadata"]["annotations"][ROTATE] = "from Git"
    world = running(asked)

    assert world.named(ROLES) == {BASE, f"{BASE}_owner"}


@pytest.mark.parametrize("looks", range(8))
def test_a_status_that_is_lost_loses_no_login_and_leaves_none_behind(looks: int) -> None:
    world = running()
    world.annotate(ROTATE, "one")
    for _ in range(looks):
        world.look()
        world.provide()
    used = world.secret("username")
    world.claim.pop("status")
    world.look()
    assert world.secret("username") in (used, f"{BASE}_r2")
    assert world.secret("username") in world.named(ROLES)

    world.rest()
    world.passes(2 * HOUR)
    world.rest()
    assert world.named(ROLES) == {world.secret("username"), f"{BASE}_owner"}


def outcome(world: World) -> Any:
    return world.named(ROLES), world.named(DATABASES), world.named(GRANTS), world.named(COPIES), world.secret("uri")


def killed_at_every_write(make: Callable[[], World], change: Callable[[World], None]) -> None:
    undisturbed = make()
    change(undisturbed)
    undisturbed.rest()
    undisturbed.passes(2 * HOUR)
    undisturbed.rest()
    writes = 0
    while True:
        world = make()
        change(world)
        world.writes_left = writes
        try:
            world.rest()
            was_killed = False
        except Killed:
            was_killed = True
        assert not world.secret("username") or world.secret("username") in world.named(ROLES)
        assert not world.secret("database") or world.secret("database") in world.named(DATABASES)
        world.writes_left = 10_000
        world.rest()
        world.passes(2 * HOUR)
        world.rest()
        assert outcome(world) == outcome(undisturbed), f"killed before write {writes}"
        if not was_killed:
            break
        writes += 1
    assert writes > 3


def test_a_rotation_comes_to_the_same_end_wherever_the_platform_is_killed() -> None:
    killed_at_every_write(running, lambda world: world.annotate(ROTATE, "one"))


def test_a_database_is_made_wherever_the_platform_is_killed() -> None:
    killed_at_every_write(lambda: World(claim(), PLATFORM), lambda _: None)


@pytest.mark.parametrize(
    ("before", "percent", "level"),
    [
        ("ok", 79, "ok"),
        ("ok", 80, "low"),
        ("low", 76, "low"),
        ("low", 74, "ok"),
        ("low", 95, "almost full"),
        ("almost full", 91, "almost full"),
        ("almost full", 100, "read-only"),
        ("read-only", 96, "read-only"),
        ("read-only", 94, "almost full"),
        ("read-only", 110, "closed"),
        ("closed", 106, "closed"),
        ("closed", 104, "read-only"),
        ("closed", 10, "ok"),
        ("ok", 300, "closed"),
    ],
)
def test_a_level_is_left_later_than_it_is_entered(before: str, percent: int, level: str) -> None:
    assert storage.of({"status": {"percent": percent}}, before, "", "").level == level


def parameters_of(world: World) -> list[Object]:
    logins = [obj for (kind, _, _), obj in world.stored.items() if kind == ROLES]
    return [each for obj in logins for each in obj["spec"]["forProvider"].get("configurationParameters", [])]


def test_what_a_database_that_fills_up_does() -> None:
    world = running()
    world.measures(85)
    world.rest()
    assert "85 % of its 20 GB" in world.condition("StorageLow")["message"]
    assert world.condition("Ready")["status"] == "True"

    world.measures(101)
    world.rest()
    assert {"name": "default_transaction_read_only", "value": "on"} in parameters_of(world)
    assert (world.limit(BASE), world.condition("Ready")["status"]) == (20, "True")

    world.measures(112)
    world.rest()
    assert (world.limit(BASE), role_limits(world)) == (0, {0})
    assert world.condition("Ready")["reason"] == "Degraded"
    assert "steelyard db open shop -n dev --for 30m" in world.condition("Ready")["message"]

    world.annotate(MAKE_ROOM, moments.text(world.moment + 1800))
    world.rest()
    assert (world.limit(BASE), role_limits(world)) == (1, {1})
    assert world.composed().look_again == 1800
    world.passes(1801)
    world.rest()
    assert world.limit(BASE) == 0

    world.measures(40)
    world.rest()
    assert world.limit(BASE) == 20
    assert {"name": "default_transaction_read_only", "value": "on"} not in parameters_of(world)
    assert world.condition("StorageLow") == {}


@pytest.mark.parametrize("said", ["soon", "2126-01-01T00:00:00Z", "2020-01-01T00:00:00Z"])
def test_room_is_granted_for_a_while_and_not_for_ever(said: str) -> None:
    world = running()
    world.measures(120)
    world.annotate(MAKE_ROOM, said)
    world.rest()

    assert world.limit(BASE) == 0


def test_a_backup_is_asked_for_by_a_new_value() -> None:
    world = running()
    world.annotate(BACK_UP, "now")
    world.rest()

    [backup] = [obj for (kind, _, _), obj in world.stored.items() if kind == BACKUPS]
    assert backup["spec"] | {"providerConfigRef": {}} == {
        "providerConfigRef": {},
        "database": BASE,
        "every": "24h",
        "keep": 7,
        "trigger": "now",
    }
    assert running(claim(enableBackup=False)).named(BACKUPS) == set()


RULES: Object = {"tables": {"users": {"columns": {"email": {"action": "hash"}}}}}
PRODUCTION = "prod_shop"


def source(**parameters: Any) -> tuple[Object, Object]:
    """The claim whose data it is, and its Database."""
    theirs: Object = {
        "apiVersion": "database.steelyard.dev/v1alpha1",
        "kind": "PostgreSQLInstance",
        "metadata": {
            "name": "shop",
            "namespace": "production",
            "annotations": {"crossplane.io/external-name": PRODUCTION},
        },
        "spec": {"parameters": {"environment": "production", "masking": RULES, **parameters}},
    }
    made = running(theirs | {"spec": {**theirs["spec"], "writeConnectionSecretToRef": {"name": "c"}}})
    database = next(obj for (kind, _, _), obj in made.stored.items() if kind == DATABASES)
    return theirs, database


def clone_of(**parameters: Any) -> Object:
    return claim("copy", cloneFrom={"name": "shop", "namespace": "production"}, **parameters)


def copying(**parameters: Any) -> World:
    return World(clone_of(**parameters), PLATFORM, *source())


COPY = "dev-copy"
GRANT = "postgresql: {clones: [{claimsIn: [dev], of: [production]}]}"


def test_nobody_connects_to_a_copy_before_it_is_complete() -> None:
    world = copying()
    world.phase = "Copying"
    world.rest()
    assert world.limit(f"{COPY}_c1") == 0
    assert world.condition("Ready")["status"] == "False"
    assert "the copy is being filled (masked copy of production/shop)" in world.condition("Ready")["message"]
    assert world.secret("uri") == ""

    world.phase = "Done"
    world.rest()
    assert world.limit(f"{COPY}_c1") == 20
    assert world.secret("database") == f"{COPY}_c1"
    assert "masked copy of production/shop as of" in world.condition("Ready")["message"]


def test_the_rules_are_those_of_the_data() -> None:
    world = World(clone_of(masking={"unclassified": "keep"}), PLATFORM, *source())
    world.rest()

    [made] = [obj for (kind, _, _), obj in world.stored.items() if kind == COPIES]
    assert made["spec"]["source"] == {"providerConfigRef": {"name": "postgres-provider"}, "database": PRODUCTION}
    assert made["spec"]["masking"]["unclassified"] == "refuse"
    assert made["spec"]["masking"]["tables"].keys() == {"users"}


def test_a_refresh_is_a_new_database_and_the_old_one_goes_after_a_while() -> None:
    world = copying()
    world.rest()
    world.annotate(REFRESH, "one")
    world.phase = "Copying"
    world.rest()
    assert world.secret("database") == f"{COPY}_c1"
    assert (world.limit(f"{COPY}_c1"), world.limit(f"{COPY}_c2")) == (20, 0)
    assert (world.condition("Ready")["status"], world.condition("UpToDate")["reason"]) == ("True", "Updating")

    world.phase = "Done"
    world.rest()
    assert world.secret("database") == f"{COPY}_c2"
    assert (world.limit(f"{COPY}_c1"), world.limit(f"{COPY}_c2")) == (0, 20), "old sessions finish; none is new"
    world.passes(601)
    world.rest()
    assert world.named(DATABASES) == {f"{COPY}_c2", PRODUCTION}
    assert len(world.named(COPIES)) == 1


def test_a_refresh_comes_to_the_same_end_wherever_the_platform_is_killed() -> None:
    def make() -> World:
        world = copying()
        world.rest()
        return world

    killed_at_every_write(make, lambda world: world.annotate(REFRESH, "one"))


@pytest.mark.parametrize("looks", range(8))
def test_a_copy_whose_status_is_lost_is_found_again(looks: int) -> None:
    world = copying()
    world.rest()
    world.annotate(REFRESH, "one")
    for _ in range(looks):
        world.look()
        world.provide()
    world.claim.pop("status")
    world.look()
    assert world.secret("database") in world.named(DATABASES)

    world.rest()
    world.passes(2 * HOUR)
    world.rest()
    assert world.named(DATABASES) == {world.secret("database"), PRODUCTION}


def test_a_copy_that_is_refused_says_why_and_is_tried_again_when_asked() -> None:
    world = copying()
    world.phase = "Refused"
    world.rest()
    assert "the copy was refused: users.email" in world.condition("Ready")["message"]
    assert world.composed().waits_untold

    world.annotate(REFRESH, "again")
    world.phase = "Done"
    world.rest()
    assert world.secret("database") == f"{COPY}_c2"
    assert world.named(DATABASES) == {f"{COPY}_c2", PRODUCTION}


def test_a_sandbox_is_made_anew_every_day() -> None:
    asked = clone_of()
    asked["spec"]["parameters"]["environment"] = "sandbox"
    asked["metadata"]["annotations"] = {}
    world = World(asked, PLATFORM, *source())
    world.rest()
    first = world.secret("database")
    world.passes(24 * HOUR)
    world.rest()

    assert first.endswith("_c1")
    assert world.secret("database").endswith("_c2")


def test_a_copy_outlives_its_source() -> None:
    world = copying()
    world.rest()
    for identity in [each for each in world.stored if each[0].kind == "PostgreSQLInstance"]:
        del world.stored[identity]
    world.rest()
    assert world.condition("Ready")["status"] == "True"

    world.annotate(REFRESH, "one")
    world.rest()
    assert world.secret("database") == f"{COPY}_c1"
    assert "there is no such claim" in world.condition("UpToDate")["message"]


def test_a_status_that_somebody_wrote_has_nobody_elses_database_copied() -> None:
    theirs, database = source()
    theirs["status"] = {"database": "prod_payroll", "compositionRevision": "v2"}
    world = World(clone_of(), PLATFORM, theirs, database)
    world.rest()

    assert world.named(COPIES) == set()
    assert "cannot be copied" in world.condition("Ready")["message"]


@pytest.mark.parametrize(
    ("grants", "anonymise", "asks"),
    [("", None, True), (GRANT, None, False), (GRANT, False, True)],
    ids=["no grant", "granted", "granted and not masked"],
)
def test_whose_right_is_asked_for_before_a_copy(grants: str, anonymise: bool | None, asks: bool) -> None:
    said = {} if anonymise is None else {"anonymise": anonymise}
    asked = claim("copy", cloneFrom={"name": "shop", "namespace": "production", **said})
    reading = World(asked, settings.parse(grants), *source()).composed().reading

    assert (reading is not None) is asks
    if reading is not None:
        assert (reading.namespace, reading.parts) == ("production", {"copy-c1"})


def test_a_database_of_the_first_revision_keeps_everything_when_it_is_moved() -> None:
    first = World({**claim(), "status": {"compositionRevision": "v1"}}, PLATFORM)
    first.rest()
    before = {key: obj["metadata"]["uid"] for key, obj in first.stored.items() if "uid" in obj["metadata"]}
    secret = first.secret("uri")
    first.annotate("steelyard.dev/composition-revision", "v2")
    first.rest()

    assert first.claim["status"]["compositionRevision"] == "v2"
    assert {key: first.stored[key]["metadata"]["uid"] for key in before} == before
    assert first.secret("uri") == secret
    assert len(first.named(USAGES)) == 1


def test_a_database_stays_on_the_server_that_it_was_made_on() -> None:
    world = running()
    world.platform = settings.parse("postgresql: {servers: [{providerConfig: other, namespaces: [dev]}]}")
    world.rest()
    assert world.claim["status"]["server"] == "postgres-provider"

    assert running(platform=world.platform).claim["status"]["server"] == "other"


def test_what_is_to_stay_after_the_claim_is_left_on_the_server() -> None:
    world = running(claim(deletionPolicy="Orphan"))
    world.annotate(ROTATE, "one")
    world.rest()
    policies = {
        (kind.kind, obj["metadata"]["annotations"].get("crossplane.io/external-name")): obj["spec"]["deletionPolicy"]
        for (kind, _, _), obj in world.stored.items()
        if kind in (ROLES, DATABASES)
    }
    assert policies == {
        ("Database", BASE): "Orphan",
        ("Role", f"{BASE}_owner"): "Orphan",
        ("Role", f"{BASE}_r2"): "Orphan",
        ("Role", BASE): "Delete",
    }


@pytest.mark.parametrize(
    ("platform", "parameters", "reason"),
    [
        ("postgresql: {version: 14}", {"version": 16}, "ServerTooOld"),
        ("", {"extensions": ["dblink"]}, "ExtensionForbidden"),
        ("", {"template": "seed"}, "TemplateForbidden"),
    ],
)
def test_what_the_platform_file_does_not_allow_is_refused(platform: str, parameters: Object, reason: str) -> None:
    refusal = World(claim(**parameters), settings.parse(platform)).composed().refusal

    assert refusal is not None
    assert refusal.reason == reason


def test_a_database_of_a_template_shares_what_the_template_has() -> None:
    platform = settings.parse("postgresql: {templates: [{database: seed, owner: seed_owner}]}")
    world = running(claim(template="seed", extensions=["pg_trgm"]), platform)

    database = next(obj for (kind, _, _), obj in world.stored.items() if kind == DATABASES)
    assert {"template": "seed", "strategy": "FILE_COPY"}.items() <= database["spec"]["forProvider"].items()
    granted = [obj["spec"]["forProvider"] for (kind, _, _), obj in world.stored.items() if kind == GRANTS]
    assert {"role": f"{BASE}_owner", "memberOf": "seed_owner"} in granted


def test_what_the_documents_call_a_source_is_the_platform_files_to_say() -> None:
    asked = claim("copy")
    asked["metadata"]["annotations"]["source"] = "production-clone"
    platform = settings.parse("postgresql: {sources: {production-clone: {namespace: production, name: shop}}}")
    world = World(asked, platform, *source())
    assert world.composed().reading is None
    world.rest()

    assert world.secret("database") == f"{COPY}_c1"


def test_vault_is_told_of_the_database_in_use_and_of_the_login_in_use() -> None:
    platform = settings.parse("integrations: {vault: {enabled: true}}")
    config: Object = {
        "apiVersion": "postgresql.sql.crossplane.io/v1alpha1",
        "kind": "ProviderConfig",
        "metadata": {"name": "postgres-provider"},
        "spec": {"credentials": {"connectionSecretRef": {"namespace": "crossplane-system", "name": "admin"}}},
    }
    world = World(claim(), platform, config)
    world.rest()
    pushes = [obj for (kind, _, _), obj in world.stored.items() if kind.kind == "PushSecret"]
    assert {str(each["spec"]["selector"]) for each in pushes} >= {"{'secret': {'name': 'postgresql.dev.shop'}}"}
    paths = {obj["spec"]["path"] for (kind, _, _), obj in world.stored.items() if kind.kind == "VaultEntry"}
    assert {"database/config/postgres-dev.dev.shop", "database/roles/dev.dev.shop-readwrite"} <= paths

    world.annotate(ROTATE, "one")
    world.rest()
    pushes = [obj for (kind, _, _), obj in world.stored.items() if kind.kind == "PushSecret"]
    assert {str(each["spec"]["selector"]) for each in pushes} >= {"{'secret': {'name': 'postgresql.dev.shop.r2'}}"}
