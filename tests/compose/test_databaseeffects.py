"""What plans say is lost when a database is composed otherwise."""

from __future__ import annotations

from steelyard.api.postgresql import REFRESH, ROTATE
from steelyard.compose.effects import Disruption, Parts
from steelyard.compose.postgresqlinstance import effects
from tests.compose.databaseworld import World
from tests.compose.test_databases import COPY, HOUR, claim, copying, running


def parts(world: World) -> Parts:
    return {name: part.object for name, part in world.composed().desired.items()}


def told(before: Parts, after: Parts) -> list[str]:
    return [str(each) for each in effects.of(before, after, {})]


def test_a_database_that_goes_takes_its_data_and_its_backups_along() -> None:
    before = parts(running())

    assert "database dev-shop: data loss: it is dropped, with everything in it" in told(before, {})
    assert "backups of dev-shop: data loss: they are deleted, and no more are made" in told(before, {})


def test_one_that_is_left_on_the_server_is_said_to_stay() -> None:
    before = parts(running(claim(deletionPolicy="Orphan")))

    assert any("it stays on the server" in each for each in told(before, {}))


def test_backups_that_are_turned_off_are_lost() -> None:
    world = running()
    before = parts(world)
    world.claim["spec"]["parameters"]["enableBackup"] = False

    assert told(before, parts(world)) == ["backups of dev-shop: data loss: they are deleted, and no more are made"]


def test_a_refresh_loses_what_was_changed_in_the_copy_and_says_when() -> None:
    world = copying()
    world.rest()
    world.annotate(REFRESH, "one")
    world.rest()
    before = parts(world)
    world.passes(HOUR)
    [effect] = effects.of(before, parts(world), {})

    assert (effect.disruption, effect.subject) == (Disruption.DATA_LOSS, f"database {COPY}_c1")
    assert effect.reason.endswith(f"{COPY}_c2 has taken its place")


def test_a_rotation_loses_nothing_but_the_old_login() -> None:
    world = running()
    first = parts(world)
    world.annotate(ROTATE, "one")
    world.rest()
    second = parts(world)
    assert told(first, second) == []

    world.passes(2 * HOUR)
    assert told(second, parts(world)) == ["login dev-shop: it is dropped; whoever still uses it is cut off"]


def test_a_database_that_is_closed_is_said_to_be() -> None:
    world = running()
    before = parts(world)
    world.measures(115)

    [effect] = effects.of(before, parts(world), {})
    assert effect.disruption is Disruption.RECREATE
    assert effect.reason == "nobody can connect to it any more"
