"""`steelyard db` against a platform with a server of its own: what is printed, what is refused, and with which code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steelyard.cli.exits import Exit
from tests.cli.terminal import Terminal
from tests.harness import PlatformProcess

NAMESPACE = "data"


@pytest.fixture(scope="module")
def database(shared: PlatformProcess, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a claim for a database that is Ready."""
    folder = tmp_path_factory.mktemp("terminal")
    terminal = Terminal(shared.data_dir.root, folder)
    body = {
        "apiVersion": "database.steelyard.dev/v1alpha1",
        "kind": "PostgreSQLInstance",
        "metadata": {"name": "shop", "namespace": NAMESPACE},
        "spec": {
            "parameters": {"environment": "dev", "enableBackup": False},
            "writeConnectionSecretToRef": {"name": "shop-connection"},
        },
    }
    for each in ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, body):
        file = folder / f"{each['kind']}.json"
        file.write_text(json.dumps(each))
        done = terminal.run("apply", "-f", str(file))
        assert done.code == Exit.OK, done.err
    done = terminal.run("wait", "shop", "-n", NAMESPACE, "--timeout", "90s")
    assert done.code == Exit.OK, done.err
    return "shop"


def test_the_uri_is_that_of_the_connection_secret(terminal: Terminal, database: str) -> None:
    done = terminal.run("db", "uri", database, "-n", NAMESPACE)

    assert done.code == Exit.OK, done.err
    assert done.out.startswith("postgresql://dev_data_shop_")


def test_a_database_without_backups_says_so(terminal: Terminal, database: str) -> None:
    listed = terminal.run("db", "list", database, "-n", NAMESPACE)
    assert (listed.code, listed.out) == (Exit.OK, "")
    assert "spec.parameters.enableBackup is false" in listed.err

    asked = terminal.run("db", "backup", database, "-n", NAMESPACE)
    assert asked.code == Exit.FAILED
    assert "set spec.parameters.enableBackup to true first" in asked.err

    restored = terminal.run("db", "restore", database, "-n", NAMESPACE, "--backup", "x", "--into", "other")
    assert restored.code == Exit.FAILED
    assert "has no backup x" in restored.err


def test_only_a_copy_is_made_anew(terminal: Terminal, database: str) -> None:
    done = terminal.run("db", "refresh", database, "-n", NAMESPACE)

    assert done.code == Exit.FAILED
    assert "is no copy of another database; nothing was done" in done.err


def test_room_is_granted_for_a_while(terminal: Terminal, database: str) -> None:
    done = terminal.run("db", "open", database, "-n", NAMESPACE, "--for", "30m")
    assert done.code == Exit.OK, done.err
    assert "one session is granted until" in done.out
    assert "It is not closed at present" in done.err

    too_long = terminal.run("db", "open", database, "-n", NAMESPACE, "--for", "48h")
    assert too_long.code == Exit.USAGE
    assert "at most 24h" in too_long.err


def test_a_rotation_is_waited_for(terminal: Terminal, database: str) -> None:
    before = terminal.run("db", "uri", database, "-n", NAMESPACE).out
    done = terminal.run("db", "rotate", database, "-n", NAMESPACE, "--wait", "--timeout", "90s")

    assert done.code == Exit.OK, done.err
    assert "_r2; the connection Secret has it already" in done.err
    assert terminal.run("db", "uri", database, "-n", NAMESPACE).out != before


def test_what_would_be_masked_is_shown(terminal: Terminal, database: str, tmp_path: Path) -> None:
    unasked = terminal.run("db", "anonymise", database, "-n", NAMESPACE)
    assert unasked.code == Exit.USAGE
    assert "add --check" in unasked.err

    empty = terminal.run("db", "anonymise", "--check", database, "-n", NAMESPACE)
    assert empty.code == Exit.OK, empty.err
    assert "the copy can be made" in empty.err

    rules = tmp_path / "rules.yaml"
    rules.write_text("tables: {users: {columns: {email: {action: scramble}}}}\n")
    wrong = terminal.run("db", "anonymise", "--check", database, "-n", NAMESPACE, "--rules", str(rules))
    assert wrong.code == Exit.USAGE
    assert "tables.users.columns.email.action" in wrong.err


def test_a_database_is_described(terminal: Terminal, database: str) -> None:
    done = terminal.run("describe", database, "-n", NAMESPACE)

    assert done.code == Exit.OK, done.err
    for words in (
        "dev database dev_data_shop_",
        "small: 20 connections",
        "backups: none are made",
        "login: dev_data_shop_",
    ):
        assert words in done.out
    assert f'psql "$(steelyard db uri {database} -n {NAMESPACE}' in done.out


def test_what_is_no_database_is_said(terminal: Terminal, database: str) -> None:
    done = terminal.run("db", "uri", f"{database}x", "-n", NAMESPACE)

    assert done.code == Exit.FAILED
    assert "did you mean data/shop?" in done.err
