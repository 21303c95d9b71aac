"""Logins of a database that Vault makes on demand, and takes back: a connection to the database, a role or two.

    vault read database/creds/dev.team-a.shop-readwrite     username, password, for an hour

A login is a member of the role that owns the database and acts as it, so that what it creates is the owner's. At its
end its sessions are ended, what it owns all the same is given to the owner, and it is dropped: what TemporaryLogin does
without Vault. The connection is one of this database, since that is where PostgreSQL reassigns and drops.

The role's name has the environment, the namespace and the claim's name with dots between, which none of them has in it:
so a policy can name all of a namespace.
"""

from __future__ import annotations

from typing import Final

from steelyard.api.externalsecrets.kinds import PASSWORDS
from steelyard.compose import managed
from steelyard.compose.composed import FIRST_STAGE, Desired
from steelyard.compose.integrations import vaultentries, vaultpolicies
from steelyard.compose.integrations.vaultentries import OWN, Hidden
from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.settings.integrations import Vault

CONNECTION: Final = "vault-database"
READ_WRITE: Final = "vault-database-readwrite"
READ_ONLY: Final = "vault-database-readonly"
POLICY: Final = "vault-policy"
API_KEY: Final = "vault-api-key"
API_KEY_MAKER: Final = "vault-api-key-maker"
"""Resource names of the parts."""
RESOURCE_NAMES: Final = (READ_WRITE, READ_ONLY, CONNECTION, POLICY, API_KEY, API_KEY_MAKER)

_PLUGIN: Final = "postgresql-database-plugin"
_LATER: Final = FIRST_STAGE + 1
_KEY_LENGTH: Final = 40
_LOGIN: Final = '"{{name}}"'
_UNTIL: Final = "PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'"
"""With what Vault fills in."""


@frozen
class Database:
    """A database as Vault must know it."""

    name: str
    """Of the objects: one that no two claims share, such as `names.external` gives."""
    environment: str
    namespace: str
    """Of the claim."""
    service: str
    """Name of the claim."""
    host: str
    """Of the server, as Vault reaches it."""
    port: int
    database: str
    owner: str
    """The role that owns it, and cannot log in."""
    admin: tuple[str, str]
    """Namespace and name of the Secret with username and password of who may make roles on the server."""
    ssl_mode: str = "require"
    connection_limit: int = -1
    """Of each login; -1 for none."""


def role_of(database: Database, access: str = "readwrite") -> str:
    return f"{database.environment}.{database.namespace}.{database.service}-{access}"


def parts(settings: Vault, database: Database) -> dict[str, Desired]:
    """Nothing where the platform file turns it off. Roles, and the logins that were made of them, go first, then the
    connection, then the database: Vault would hold it by its sessions."""
    if not (settings.enabled and settings.configure and settings.database.enabled):
        return {}
    roles = {READ_WRITE: role_of(database), READ_ONLY: role_of(database, "readonly")}
    creation = {READ_WRITE: _read_write(database), READ_ONLY: _read_only(database)}
    made = {CONNECTION: _connection(settings, database, list(roles.values()))}
    for part, role in roles.items():
        made[part] = vaultentries.entry(
            settings,
            f"database-{database.name}-{role.rpartition('-')[2]}",
            f"{settings.database.mount}/roles/{role}",
            {
                "db_name": _config(database),
                "creation_statements": creation[part],
                "revocation_statements": _revocation(database),
                "default_ttl": settings.database.default_ttl,
                "max_ttl": settings.database.max_ttl,
            },
            revokes=f"{settings.database.mount}/creds/{role}",
        )
    return made


def service_policy(settings: Vault, name: str, path: str, roles: tuple[str, ...] = ()) -> dict[str, Desired]:
    """What a service may read: what is at its path, given with the engine, and logins of these roles."""
    if not (settings.enabled and settings.configure):
        return {}
    rules = vaultpolicies.of_service(settings, path.partition("/")[2], roles)
    return {POLICY: vaultentries.policy(settings, f"{OWN}-service-{name}", rules)}


def service_role(settings: Vault, mount: str, service: str, policy: str, account: tuple[str, str]) -> Desired:
    """Lets a service account (namespace, name) of the cluster behind an auth engine log in as the service."""
    namespace, name = account
    return vaultentries.entry(
        settings,
        f"service-{mount}-{service}"[:253],
        f"auth/{mount}/role/{service}",
        {
            "bound_service_account_names": [name],
            "bound_service_account_namespaces": [namespace],
            "token_policies": [policy],
            "token_ttl": "1h",
            "token_max_ttl": "24h",
        },
    )


def api_key(settings: Vault, pushing: managed.Pushing, path: str) -> dict[str, Desired]:
    """A key made up once and kept beside the other keys of the path, as `api-key`. It is in Vault and nowhere else."""
    if not settings.enabled:
        return {}
    push = managed.push(pushing, "-", path, {})
    name = f"{push.object['metadata']['name']}-api-key"
    metadata: Object = {"name": name, "namespace": pushing.credentials_namespace}
    spec: Object = {
        **push.object["spec"],
        "updatePolicy": "IfNotExists",
        "selector": {"generatorRef": {"apiVersion": PASSWORDS.api_version, "kind": PASSWORDS.kind, "name": name}},
        "data": [
            {
                "match": {
                    "secretKey": "password",
                    "remoteRef": {"remoteKey": path.partition("/")[2], "property": "api-key"},
                }
            }
        ],
    }
    del spec["template"]
    maker: Object = {
        "apiVersion": PASSWORDS.api_version,
        "kind": PASSWORDS.kind,
        "metadata": metadata,
        "spec": {"length": _KEY_LENGTH, "symbols": 0, "noUpper": False, "allowRepeat": True},
    }
    return {
        API_KEY_MAKER: Desired(PASSWORDS, maker, deletion_stage=_LATER),
        API_KEY: Desired(
            push.resource, {**push.object, "metadata": metadata, "spec": spec}, deletion_stage=FIRST_STAGE
        ),
    }


def _config(database: Database) -> str:
    return f"postgres-{database.environment}.{database.namespace}.{database.service}"


def _connection(settings: Vault, database: Database, roles: list[str]) -> Desired:
    namespace, secret = database.admin
    host = f"[{database.host}]" if ":" in database.host else database.host
    url = f"postgresql://{{{{username}}}}:{{{{password}}}}@{host}:{database.port}/{database.database}"
    data: Object = {
        "plugin_name": _PLUGIN,
        "connection_url": f"{url}?sslmode={database.ssl_mode}",
        "allowed_roles": roles,
        # It keeps none open: the database has few, and must let go of all when it is dropped.
        "max_open_connections": 2,
        "max_idle_connections": -1,
        "max_connection_lifetime": "10s",
        "password_authentication": "scram-sha-256",
    }
    secrets = [Hidden(field, namespace, secret, field) for field in ("username", "password")]
    return vaultentries.entry(
        settings,
        f"database-{database.name}",
        f"{settings.database.mount}/config/{_config(database)}",
        data,
        secrets=secrets,
        compare=("connection_url", "allowed_roles", "plugin_name"),
        stage=_LATER,
    )


def _read_write(database: Database) -> list[str]:
    return [
        f"{_login(database)} IN ROLE {_name(database.owner)};",
        f"ALTER ROLE {_LOGIN} IN DATABASE {_name(database.database)} SET role TO {_text(database.owner)};",
    ]


def _read_only(database: Database) -> list[str]:
    """Tables of `public` as they are when the login is made."""
    return [
        f"{_login(database)};",
        f"GRANT CONNECT ON DATABASE {_name(database.database)} TO {_LOGIN};",
        f"GRANT USAGE ON SCHEMA public TO {_LOGIN};",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {_LOGIN};",
    ]


def _login(database: Database) -> str:
    return (
        f"CREATE ROLE {_LOGIN} WITH LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE {_UNTIL} "
        f"CONNECTION LIMIT {database.connection_limit}"
    )


def _revocation(database: Database) -> list[str]:
    return [
        f"ALTER ROLE {_LOGIN} NOLOGIN;",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{{name}}';",
        f"REASSIGN OWNED BY {_LOGIN} TO {_name(database.owner)};",
        f"DROP OWNED BY {_LOGIN};",
        f"DROP ROLE IF EXISTS {_LOGIN};",
    ]


def _name(value: str) -> str:
    """As SQL writes a name."""
    doubled = value.replace('"', '""')
    return f'"{doubled}"'


def _text(value: str) -> str:
    doubled = value.replace("'", "''")
    return f"'{doubled}'"
