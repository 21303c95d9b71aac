"""What every revision says of a database in the same way: whose it is, where its credentials go, and how to connect."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from steelyard.api import vaultpaths
from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.api.postgresql import PostgreSQLInstanceSpec
from steelyard.compose import managed, names
from steelyard.compose.composed import Observed
from steelyard.compose.postgresqlinstance.naming import Names
from steelyard.compose.refusing import Refused
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from steelyard.settings.postgresservers import Reached

OF_CREDENTIALS: Final = "postgresql"
"""What the names of Secrets with logins begin with."""
VAULT_FOLDERS: Final = ("apps", "database")
"""Of Vault's, where credentials of databases are."""
NAMESAKES: Final = ("namesake", "namesake-made-by-hand")


def refuse_anothers(claim: Object, named: Names, observed: Observed) -> None:
    """No database of somebody else is taken over."""
    for requirement in NAMESAKES:
        found = observed.one(requirement)
        if found is not None and not objects.matches(names.claim_labels(claim), found):
            raise Refused(
                "ExternalNameTaken",
                f"the database {named.database} is not this claim's: Database {objects.name(found)} was made for "
                f"another one, or by hand. Make a claim with another {EXTERNAL_NAME}, or without one",
            )


def vault_path(claim: Object, spec: PostgreSQLInstanceSpec, platform: Platform, environment: str) -> str:
    mount, asked = platform.postgresql.vault_mount, spec.parameters.vault_path
    if asked is None:
        return managed.vault_path(claim, mount, VAULT_FOLDERS[0], environment)
    named = (spec.parameters.environment, environment)
    if problem := vaultpaths.problem(asked, mount, VAULT_FOLDERS, named, objects.namespace(claim)):
        raise Refused("VaultPathForbidden", f"spec.parameters.vaultPath: {asked}: {problem}")
    return asked


def in_vault(server: Reached, database: str, ssl_mode: str = "") -> dict[str, str]:
    """What the document's Job puts there, and the url under the key by which services look for it. Templates of
    External Secrets, filled in where the credentials are: no password is in an object. `ssl_mode` is what the server
    itself says of TLS, where it does."""
    host, port = server.host or "{{ .endpoint }}", str(server.port or "{{ .port }}")
    login = "{{ .username | urlquery }}:{{ .password | urlquery }}"
    return {
        "host": host,
        "port": port,
        "database": database,
        "username": "{{ .username }}",
        "password": "{{ .password }}",
        "database-url": f"postgresql://{login}@{host}:{port}/{database}?sslmode={ssl_mode or server.ssl_mode}",
    }


def details(found: dict[str, str], database: str, server: Reached) -> dict[str, str] | None:
    """What an application needs to connect, of the credentials that the provider made; None where they are not
    complete."""
    username, password = found.get("username"), found.get("password")
    host, port = server.host or found.get("endpoint"), str(server.port or found.get("port") or "")
    if not (username and password and host and port.isdecimal()):
        return None
    address = f"[{host}]" if ":" in host else host
    login = f"{quote(username, safe='')}:{quote(password, safe='')}"
    # A server of the platform's own says whether it has TLS.
    mode = found.get("sslmode") or server.ssl_mode
    url = f"postgresql://{login}@{address}:{port}/{database}?sslmode={mode}"
    return {
        "host": host,
        "endpoint": host,
        "port": port,
        "database": database,
        "username": username,
        "password": password,
        "url": url,
        "uri": url,
    }
