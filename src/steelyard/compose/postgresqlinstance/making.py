"""The objects of a database of the second revision, in the order in which each finds what it refers to.

A role that cannot log in owns the database and what is in it; logins are members of it and act as it, so that they can
come and go without taking tables along. Nobody else may connect. A rotation adds a login, a refresh of a copy adds a
database; each has a resource name of its own, so that what is old and what is new are there side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from steelyard.api.crossplane import DATABASES, EXTENSIONS, EXTERNAL_NAME, GRANTS, ROLES
from steelyard.api.databases import BACKUPS, COPIES, USAGES
from steelyard.api.postgresql import UsedParameters
from steelyard.compose import managed
from steelyard.compose.composed import FIRST_STAGE, Desired
from steelyard.compose.postgresqlinstance import naming, storage
from steelyard.compose.postgresqlinstance.generations import Generations
from steelyard.compose.postgresqlinstance.naming import Names
from steelyard.compose.postgresqlinstance.storage import Storage
from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.settings.data import PostgreSQL
from steelyard.settings.databases import Template

OWNER: Final = "owner"
DATABASE: Final = "database"
USAGE: Final = "usage"
BACKUP: Final = "backup"
OF_PROVIDER_SQL: Final = (ROLES, DATABASES, GRANTS, EXTENSIONS)
OF_OURS: Final = (USAGES, BACKUPS, COPIES)

# A Grant whose Database went first cannot be revoked and hangs; a role that has a database still cannot be dropped.
_GRANT_STAGE: Final = FIRST_STAGE + 1
_DATABASE_STAGE: Final = FIRST_STAGE + 2
_ROLE_STAGE: Final = FIRST_STAGE + 3


@frozen
class Shape:
    """What is to be there."""

    named: Names
    used: UsedParameters
    settings: PostgreSQL
    config: str
    """The ProviderConfig of the server."""
    credentials: str
    """What the Secret with the first login's password is called."""
    storage: Storage
    logins: Generations
    copies: Generations | None
    """None for a database that is no copy."""
    filled: frozenset[int]
    """Copies that are complete: they may be connected to."""
    extensions: Sequence[str]
    template: Template | None
    copy_specs: Mapping[int, Object]
    """What is known of how each copy is filled: source and masking."""
    trigger: str
    """By which a backup is asked for."""

    @property
    def databases(self) -> tuple[int, ...]:
        """The generations of copies; 0 is the database that is none."""
        return (0,) if self.copies is None else self.copies.all

    @property
    def database(self) -> int | None:
        """The one in use; None while there is none."""
        if self.copies is None:
            return 0
        return self.copies.active or None


def login(generation: int) -> str:
    """The resource name."""
    return f"login{_login_mark(generation)}"


def database(generation: int) -> str:
    return f"{DATABASE}{_copy_mark(generation)}"


def copy(generation: int) -> str:
    return f"copy{_copy_mark(generation)}"


def usage(generation: int) -> str:
    return f"{USAGE}{_copy_mark(generation)}"


def credentials(shape: Shape, generation: int) -> str:
    """The Secret for the password of one login."""
    return shape.credentials if generation == 1 else f"{shape.credentials}.r{generation}"


def credentials_required(generation: int) -> str:
    """Under which name that Secret is looked up."""
    return f"credentials{_login_mark(generation)}"


def of_login(shape: Shape, generation: int) -> frozenset[str]:
    """Resource names of what it takes to use a login with the database in use."""
    found = {OWNER, login(generation), f"membership{_login_mark(generation)}"}
    if shape.database is not None:
        found.add(_access(generation, shape.database))
    return frozenset(found)


def of_database(shape: Shape, generation: int) -> frozenset[str]:
    """The same of a database with the login in use."""
    extensions = {f"extension-{each}{_copy_mark(generation)}" for each in shape.extensions}
    return frozenset({OWNER, database(generation), _access(shape.logins.active, generation), *extensions})


def of(shape: Shape) -> dict[str, Desired]:
    """By resource name."""
    found: dict[str, Desired] = {OWNER: _role(shape, shape.named.owner, {"privileges": _privileges(login=False)})}
    if shape.template is not None and shape.template.owner is not None:
        spec: Object = {"role": shape.named.owner, "memberOf": shape.template.owner}
        found["template"] = _grant(shape, f"{_object(shape)}-template", spec)
    for each in shape.logins.all:
        found[login(each)] = _login(shape, each)
    for each in shape.databases:
        found[database(each)] = _database(shape, each)
    found |= _grants(shape)
    for each in shape.databases:
        if each in shape.copy_specs:
            found[copy(each)] = _copy(shape, each)
        if not each or each in shape.filled:
            found |= dict(_extensions(shape, each))
    return found | dict(_watching(shape))


def _watching(shape: Shape) -> Iterator[tuple[str, Desired]]:
    """What looks after the database in use."""
    if shape.database is None:
        return
    name = naming.clone(shape.named, shape.database)
    limit = shape.used.storage_gb * storage.GB
    spec: Object = {**_config(shape), "database": name, "limitBytes": limit}
    yield usage(shape.database), _ours(USAGES, naming.of_object(name), spec)
    plan = shape.used.backup
    if shape.used.enable_backup and plan is not None:
        wanted: Object = {**_config(shape), "database": name, "every": plan.every, "keep": plan.keep}
        if shape.trigger:
            wanted["trigger"] = shape.trigger[:253]
        yield BACKUP, _ours(BACKUPS, _object(shape), wanted)


def _ours(resource: Resource, name: str, spec: Object) -> Desired:
    return managed.part(resource, name, spec, stage=_GRANT_STAGE, annotations={})


def _role(shape: Shape, name: str, parameters: Object, *, policy: str = "", secret: str = "") -> Desired:
    spec: Object = {"forProvider": parameters, **_terms(shape, policy)}
    if secret:
        spec["writeConnectionSecretToRef"] = {"namespace": shape.settings.credentials_namespace, "name": secret}
    return managed.part(ROLES, naming.of_object(name), spec, stage=_ROLE_STAGE, annotations={EXTERNAL_NAME: name})


def _login(shape: Shape, generation: int) -> Desired:
    size = shape.settings.sizes.of(shape.used.size)
    session = {
        "role": shape.named.owner,
        "statement_timeout": size.statement_timeout,
        "idle_in_transaction_session_timeout": size.idle_transaction_timeout,
        "work_mem": size.work_memory,
    }
    if shape.storage.is_read_only:
        session["default_transaction_read_only"] = "on"
    parameters: Object = {
        "privileges": _privileges(login=True),
        "connectionLimit": shape.storage.connections(shape.used.connections),
        "configurationParameters": [{"name": name, "value": value} for name, value in session.items()],
    }
    return _role(
        shape,
        naming.login(shape.named, generation),
        parameters,
        policy="" if generation == shape.logins.active else "Delete",
        secret=credentials(shape, generation),
    )


def _privileges(*, login: bool) -> Object:
    """What is not said, a provider leaves as it finds it: so all of them are."""
    denied = ("superUser", "createDb", "createRole", "replication", "bypassRls")
    return {"login": login, "inherit": True, **dict.fromkeys(denied, False)}


def _database(shape: Shape, generation: int) -> Desired:
    name = naming.clone(shape.named, generation)
    # Of template0, since a template that others write to would let them leave things in everybody's database.
    parameters: Object = {
        "owner": shape.named.owner,
        "encoding": "UTF8",
        "template": shape.template.database if shape.template is not None else "template0",
        "allowConnections": True,
        "isTemplate": False,
        "connectionLimit": _connections(shape, generation),
    }
    if shape.template is not None:
        # Files are copied, by which a server whose file system can shares them until they are written to.
        parameters["strategy"] = "FILE_COPY"
    spec: Object = {
        "forProvider": parameters,
        **_terms(shape, "" if generation == shape.database else "Delete"),
    }
    return managed.part(
        DATABASES, naming.of_object(name), spec, stage=_DATABASE_STAGE, annotations={EXTERNAL_NAME: name}
    )


def _connections(shape: Shape, generation: int) -> int:
    """Nobody connects to a copy that is not complete, nor anew to one that has been replaced."""
    usual = shape.storage.connections(shape.used.connections)
    if generation == shape.database:
        return usual
    is_next = shape.copies is not None and generation == shape.copies.next
    return shape.used.connections if is_next and generation in shape.filled else 0


def _grants(shape: Shape) -> dict[str, Desired]:
    found: dict[str, Desired] = {}
    for each in shape.logins.all:
        name = naming.login(shape.named, each)
        spec: Object = {"role": name, "memberOf": shape.named.owner}
        found[f"membership{_login_mark(each)}"] = _grant(shape, f"{naming.of_object(name)}-membership", spec)
    for each in shape.logins.all:
        for generation in shape.databases:
            found[_access(each, generation)] = _access_grant(shape, each, generation)
    return found


def _access_grant(shape: Shape, login_generation: int, generation: int) -> Desired:
    name = naming.login(shape.named, login_generation)
    spec: Object = {
        "role": name,
        "database": naming.clone(shape.named, generation),
        "privileges": ["ALL"],
        "revokePublicOnDb": True,
    }
    return _grant(shape, f"{naming.of_object(name)}-access{_copy_mark(generation)}", spec)


def _grant(shape: Shape, name: str, parameters: Object) -> Desired:
    spec: Object = {"forProvider": parameters, **_terms(shape, "")}
    return managed.part(GRANTS, name, spec, stage=_GRANT_STAGE, annotations={})


def _extensions(shape: Shape, generation: int) -> Iterator[tuple[str, Desired]]:
    database_name = naming.clone(shape.named, generation)
    for each in shape.extensions:
        spec: Object = {"forProvider": {"extension": each, "database": database_name}, **_terms(shape, "")}
        name = naming.of_object(f"{database_name}_{each}")
        made = managed.part(EXTENSIONS, name, spec, stage=_GRANT_STAGE, annotations={EXTERNAL_NAME: each})
        yield f"extension-{each}{_copy_mark(generation)}", made


def _copy(shape: Shape, generation: int) -> Desired:
    name = naming.clone(shape.named, generation)
    spec: Object = {**_config(shape), "database": name, "owner": shape.named.owner, **shape.copy_specs[generation]}
    return _ours(COPIES, naming.of_object(name), spec)


def _terms(shape: Shape, policy: str) -> Object:
    """What is replaced goes, whatever becomes of the rest with the claim."""
    return {**_config(shape), "deletionPolicy": policy or shape.used.deletion_policy or "Delete"}


def _config(shape: Shape) -> Object:
    return {"providerConfigRef": {"name": shape.config}}


def _object(shape: Shape) -> str:
    return naming.of_object(shape.named.database)


def _access(login_generation: int, generation: int) -> str:
    return f"access{_login_mark(login_generation)}{_copy_mark(generation)}"


def _login_mark(generation: int) -> str:
    return "" if generation == 1 else f"-r{generation}"


def _copy_mark(generation: int) -> str:
    return f"-c{generation}" if generation else ""
