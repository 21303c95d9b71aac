"""Databases as a developer has them, with the real kubectl and psql on a server that the platform runs: made, resized,
rotated, copied, restored, expired and deleted, with nothing left on the server."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.test_first_cluster import Shell
from tests.harness import PlatformProcess

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed"),
]

PLATFORM = "domain: yourdomain.com\npostgresql: {rotationOverlap: 1m, cloneGrace: 1m}\n"
_SHORTLY = ["--overlap", "15"]
"""Seconds for which old logins and copies stay, where the platform file can say a minute at least."""
NAMESPACE = "dev"
KINDS = (
    "roles.postgresql.sql.crossplane.io",
    "databases.postgresql.sql.crossplane.io",
    "grants.postgresql.sql.crossplane.io",
    "extensions.postgresql.sql.crossplane.io",
    "databaseusages",
    "databasebackups",
    "databasecopies",
    "temporarylogins",
)
DEV = """\
apiVersion: database.yourdomain.com/v1alpha1
kind: PostgreSQLInstance
metadata:
  name: dev-database
  namespace: dev
  annotations:
    crossplane.io/external-name: dev-db
spec:
  parameters:
    environment: dev
    size: small
    storageGB: 20
    enableBackup: true
    vaultPath: secret/database/dev
  compositionSelector:
    matchLabels:
      crossplane.io/xrd: xpostgresqlinstances.database.yourdomain.com
  writeConnectionSecretToRef:
    name: postgres-connection
"""


class Developer(Shell):
    def secret(self, name: str, namespace: str = NAMESPACE) -> dict[str, str]:
        data = self.json("get", "secret", name, "-n", namespace)["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def psql(self, uri: str, *statements: str) -> list[str]:
        done = self.try_psql(uri, *statements)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def try_psql(self, uri: str, *statements: str) -> subprocess.CompletedProcess[str]:
        commands = [part for each in statements for part in ("-c", each)]
        return subprocess.run(
            ["psql", uri, "-v", "ON_ERROR_STOP=1", "-Atq", *commands],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def claim(self, name: str, namespace: str = NAMESPACE, **parameters: Any) -> None:
        body = yaml.safe_load(DEV)
        body["metadata"] = {"name": name, "namespace": namespace}
        body["spec"]["parameters"] = {"environment": "dev", **parameters}
        body["spec"]["writeConnectionSecretToRef"] = {"name": f"{name}-connection"}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(body))

    def ready(self, name: str, kind: str = "pg") -> None:
        self.kubectl("wait", "-n", NAMESPACE, f"{kind}/{name}", "--for=condition=Ready", "--timeout=90s")

    def on_the_server(self) -> tuple[set[str], set[str]]:
        """Databases and roles that are not PostgreSQL's or the platform's own."""
        admin = self.secret("postgres-admin-creds", "crossplane-system")
        uri = f"postgresql://{admin['username']}:{admin['password']}@{admin['endpoint']}:{admin['port']}/postgres"
        own = {"postgres", "template0", "template1", admin["username"]}
        databases = set(self.psql(uri, "SELECT datname FROM pg_database")) - own
        roles = set(self.psql(uri, "SELECT rolname FROM pg_roles WHERE rolname NOT LIKE 'pg\\_%'")) - own
        return databases, roles

    def left(self) -> str:
        return "".join(self.kubectl("get", kind, "--ignore-not-found", "-o", "name") for kind in KINDS)


@pytest.fixture
def developer(tmp_path: Path, kubectl: str) -> Iterator[Developer]:
    with PlatformProcess(tmp_path, platform=PLATFORM, victim=_SHORTLY) as platform:
        platform.start()
        developer = Developer(platform, kubectl, tmp_path / "kubectl-cache")
        developer.kubectl("create", "namespace", NAMESPACE)
        yield developer


def until(question: Any, *, seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(1)
    return answer


def test_a_database_is_used_resized_rotated_and_deleted_without_leftovers(developer: Developer) -> None:
    developer.kubectl("apply", "-f", "-", stdin=DEV)
    developer.ready("dev-database")
    first = developer.secret("postgres-connection")
    assert first.keys() == {"username", "password", "endpoint", "host", "port", "database", "uri", "url"}
    developer.psql(first["uri"], "CREATE TABLE notes (id int PRIMARY KEY, body text)", "INSERT INTO notes VALUES (1)")
    assert developer.steelyard("db", "uri", "dev-database", "-n", NAMESPACE).strip() == first["uri"]

    change = '{"spec": {"parameters": {"size": "medium", "extensions": ["pg_trgm"]}}}'
    developer.kubectl("patch", "-n", NAMESPACE, "pg/dev-database", "--type=merge", "-p", change)
    developer.kubectl("wait", "-n", NAMESPACE, "pg/dev-database", "--for=condition=UpToDate", "--timeout=90s")
    assert developer.psql(first["uri"], "SHOW statement_timeout") == ["5min"]
    assert developer.psql(first["uri"], "SELECT extname FROM pg_extension WHERE extname = 'pg_trgm'") == ["pg_trgm"]

    developer.steelyard("db", "rotate", "dev-database", "-n", NAMESPACE, "--wait")
    second = developer.secret("postgres-connection")
    assert second["username"] != first["username"]
    assert developer.psql(second["uri"], "SELECT count(*) FROM notes") == ["1"]
    assert developer.psql(first["uri"], "SELECT count(*) FROM notes") == ["1"], "the old login works for a while"
    until(lambda: developer.try_psql(first["uri"], "SELECT 1").returncode != 0, seconds=90)
    assert developer.on_the_server() == ({"dev-db"}, {"dev-db_r2", "dev-db_owner"})

    told = developer.steelyard("describe", "dev-database", "-n", NAMESPACE)
    for words in (
        "medium: 60 connections",
        "storage: 0 % of 20 GB",
        "login: dev-db_r2, generation 2",
        "backups: every",
    ):
        assert words in told
    developer.kubectl("delete", "-n", NAMESPACE, "pg/dev-database", "--timeout=90s")
    assert developer.on_the_server() == (set(), set())
    assert developer.left() == ""
    assert "postgres-connection" not in developer.kubectl("get", "secret", "-A", "-o", "name")


def test_copies_are_masked_and_backups_are_restored(developer: Developer) -> None:
    rules = {"tables": {"users": {"columns": {"id": {"action": "keep"}, "email": {"action": "fakeEmail"}}}}}
    developer.claim("shop")
    developer.ready("shop")
    shop = developer.secret("shop-connection")["uri"]
    developer.psql(
        shop, "CREATE TABLE users (id int PRIMARY KEY, email text)", "INSERT INTO users VALUES (1, 'anna@example.org')"
    )
    developer.claim("copy", cloneFrom={"name": "shop"}, enableBackup=False)
    refused = until(
        lambda: (
            "was refused" in (told := developer.kubectl("get", "pg", "copy", "-n", NAMESPACE, "-o", "yaml")) and told
        )
    )
    assert "users.email" in refused
    assert developer.kubectl("get", "secret", "-n", NAMESPACE, "copy-connection", "--ignore-not-found") == ""

    developer.claim("shop", masking=rules)
    developer.steelyard("db", "refresh", "copy", "-n", NAMESPACE, "--wait", "--timeout", "90s")
    copy = developer.secret("copy-connection")["uri"]
    [masked] = developer.psql(copy, "SELECT email FROM users")
    assert masked.endswith("@example.com")
    assert "anna" not in masked

    developer.steelyard("db", "backup", "shop", "-n", NAMESPACE, "--wait", "--timeout", "90s")
    dumps = json.loads(developer.steelyard("db", "list", "shop", "-n", NAMESPACE, "-o", "json"))
    [dump] = [each["name"] for each in dumps if each["reason"] == "asked for"]  # A scheduled one may be due by now.
    developer.psql(shop, "DROP TABLE users")
    developer.steelyard(
        "db", "restore", "shop", "-n", NAMESPACE, "--backup", dump, "--into", "again", "--wait", "--timeout", "90s"
    )
    again = developer.secret("again-connection")["uri"]
    assert developer.psql(again, "SELECT email FROM users") == ["anna@example.org"]

    developer.kubectl("delete", "-n", NAMESPACE, "pg", "--all", "--timeout=90s")
    assert developer.on_the_server() == (set(), set())
    assert developer.left() == ""


def test_a_login_for_a_while_reads_and_goes_with_its_claim(developer: Developer) -> None:
    developer.claim("shop")
    developer.ready("shop")
    owner = developer.secret("shop-connection")["uri"]
    developer.psql(owner, "CREATE TABLE users (id int)")
    developer.steelyard(
        "create", "access", "reports", "-n", NAMESPACE, "--instance", "shop", "--access", "readOnly", "--ttl", "5m",
        "--wait",
    )  # fmt: skip
    secret = {"spec": {"writeConnectionSecretToRef": {"name": "reports-connection"}}}
    developer.kubectl("patch", "-n", NAMESPACE, "pgaccess/reports", "--type=merge", "-p", json.dumps(secret))
    name = "reports-connection"
    until(lambda: developer.kubectl("get", "secret", "-n", NAMESPACE, name, "--ignore-not-found", "-o", "name"))
    reader = developer.secret(name)["uri"]
    assert developer.psql(reader, "SELECT count(*) FROM users") == ["0"]
    tries = ("SET default_transaction_read_only = off", "INSERT INTO users VALUES (1)")
    assert "permission denied" in developer.try_psql(reader, *tries).stderr

    developer.kubectl("delete", "-n", NAMESPACE, "pgaccess/reports", "--timeout=90s")
    assert developer.try_psql(reader, "SELECT 1").returncode != 0


def test_a_preview_is_told_when_it_ends_and_production_is_protected(developer: Developer) -> None:
    developer.kubectl("create", "namespace", "pr-17")
    developer.claim("pr-17-database", "pr-17", environment="pr-17", enableBackup=False)
    found = until(
        lambda: developer.json("get", "pg", "pr-17-database", "-n", "pr-17").get("status", {}).get("expiresAt")
    )
    created = developer.json("get", "pg", "pr-17-database", "-n", "pr-17")["metadata"]["creationTimestamp"]
    begin, end = (time.strptime(each, "%Y-%m-%dT%H:%M:%SZ") for each in (created, found))
    assert time.mktime(end) - time.mktime(begin) == 168 * 3600

    developer.claim("ledger", environment="production", enableBackup=False)
    with pytest.raises(AssertionError, match="is protected, as databases in production are"):
        developer.kubectl("delete", "-n", NAMESPACE, "pg/ledger")
    change = '{"spec": {"parameters": {"deletionProtection": false}}}'
    developer.kubectl("patch", "-n", NAMESPACE, "pg/ledger", "--type=merge", "-p", change)
    developer.kubectl("delete", "-n", NAMESPACE, "pg/ledger", "--timeout=90s")
