from __future__ import annotations

import pytest

from steelyard import settings
from steelyard.cli import checks
from steelyard.settings.postgresservers import Address
from steelyard.settings.problems import SettingsError

DSN = "postgresql://admin@db.example.com/postgres"


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("{dsn: 'postgresql://admin:secret@db.example.com/postgres'}", "put that into a file or a Secret"),
        ("{dsn: 'mysql://admin@db.example.com'}", "must begin with postgresql://"),
        ("{dsn: 'postgresql://db.example.com'}", "must name a user and a host"),
        (f"{{dsn: '{DSN}?sslmode=prefer'}}", "sslmode must be one of"),
        (f"{{dsn: '{DSN}?options=-csearch_path'}}", "only sslmode is known here"),
        ("{ca: /etc/ca.crt}", "belong to a dsn"),
        ("{password: {file: /etc/password}}", "belong to a dsn"),
        (f"{{dsn: '{DSN}', password: {{}}}}", "must be a secret or a file"),
        (f"{{dsn: '{DSN}', clientKey: /etc/key}}", "go together"),
        ("{embedded: {directory: relative}}", "postgresql.embedded.directory"),
        ("{embedded: {listen: {address: db.example.com}}}", "must be an IP address of this machine"),
        ("{embedded: {listen: {address: 192.0.2.1, networks: [{network: everywhere}]}}}", "must be a network"),
        ("{embedded: {maxConnections: 5}}", "postgresql.embedded.maxConnections"),
        ("{servers: [{providerConfig: postgres-provider}]}", "is the providerConfig of two servers"),
    ],
)
def test_a_server_that_cannot_be_meant_is_refused(file: str, told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings.parse(f"postgresql: {file}")
    assert told in str(refused.value)
    assert "admin:secret" not in str(refused.value)


def test_a_dsn_says_where_the_server_is_and_checks_its_certificate_unless_told_otherwise() -> None:
    found = settings.parse(f"postgresql: {{dsn: '{DSN}'}}").postgresql.address
    assert found == Address("db.example.com", 5432, "admin", "postgres", "verify-full")
    other = settings.parse("postgresql: {dsn: 'postgresql://a%40b@[::1]:6432?sslmode=disable'}").postgresql.address
    assert other == Address("::1", 6432, "a@b", "postgres", "disable")
    assert settings.parse("").postgresql.address is None, "the platform runs one itself"


def test_a_namespace_decides_on_which_server_before_the_environment_does() -> None:
    platform = settings.parse(
        """
postgresql:
  servers:
  - {providerConfig: for-production, environments: [production]}
  - {providerConfig: for-payments, namespaces: [payments]}
"""
    )
    chosen = platform.postgresql.server_for
    assert chosen("team-a", "dev").provider_config == "postgres-provider"
    assert chosen("team-a", "production").provider_config == "for-production"
    assert chosen("payments", "production").provider_config == "for-payments"
    assert list(platform.postgresql.all_servers()) == ["postgres-provider", "for-production", "for-payments"]


def test_doctor_tells_of_a_server_that_others_reach_and_secrets_do_not_name() -> None:
    listening = "embedded: {listen: {address: 192.0.2.10}}"
    unnamed = settings.parse(f"postgresql: {{{listening}}}")
    [found] = checks.unnamed_servers(unnamed)
    assert found.level == "note"
    assert (
        "postgres-provider listens at 192.0.2.10 for other machines, but connection Secrets name loopback" in found.text
    )
    further = f"servers: [{{providerConfig: payments, namespaces: [payments], {listening}}}]"
    [found] = checks.unnamed_servers(settings.parse(f"postgresql: {{host: db.example.com, {listening}, {further}}}"))
    assert "the server payments listens" in found.text


def test_doctor_is_silent_about_servers_on_loopback() -> None:
    assert list(checks.unnamed_servers(settings.parse(""))) == []
