"""The description of the kind: what `claimkind.py` asks of every kind, said of PostgreSQLInstance."""

from __future__ import annotations

import functools
from typing import Final

from steelyard.api import databasepolicies, externalnames, postgresql, programs, secretdelivery, vaultpaths
from steelyard.api.crossplane import EXTERNAL_SECRETS, PROVIDER_CONFIGS, PROVIDER_SQL, PUSH_SECRETS
from steelyard.api.externalsecrets.kinds import PASSWORDS
from steelyard.api.resources import VAULT_ENTRIES
from steelyard.compose import delivery, managed
from steelyard.compose.claimkind import ClaimKind, Watched
from steelyard.compose.postgresqlinstance import composing, effects, making, naming, sharing, terms
from steelyard.compose.postgresqlinstance.guide import GUIDE
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.settings import Platform

_OURS: Final = "the definitions of Steelyard's own kinds, or start the platform with its provider postgres"
"""What there is to install for those of ours, where they are not served."""


MAKES: Final = tuple(
    dict.fromkeys(
        (*making.OF_PROVIDER_SQL, *making.OF_OURS, PUSH_SECRETS, PASSWORDS, VAULT_ENTRIES, SECRETS, *delivery.MAKES)
    )
)


def _guards(platform: Platform) -> list[Object]:
    claims = postgresql.resource(platform.domain)
    names = externalnames.databases(
        claims, prefixes=naming.all_prefixes(platform), grants=platform.postgresql.granted()
    )
    paths = vaultpaths.policy(
        claims, platform.postgresql.vault_mount, sharing.VAULT_FOLDERS, platform.environment_aliases()
    )
    terms_of_databases = databasepolicies.terms(
        claims,
        extensions=platform.postgresql.extensions,
        templates=[each.database for each in platform.postgresql.templates],
    )
    clones = databasepolicies.clones(
        claims, platform.postgresql.clone_grants(), platform.connection_secrets.robot_users()
    )
    protected = [name for name, each in platform.environments.items() if each.protect_databases]
    aliases = [alias for name in protected for alias in platform.environments[name].aliases]
    return [names, paths, terms_of_databases, clones, databasepolicies.protection(claims, [*protected, *aliases])]


POSTGRESQL_INSTANCE: Final = ClaimKind(
    noun="database",
    nouns="databases",
    definition=postgresql.kind,
    parameters=postgresql.Parameters,
    compose=composing.compose,
    guide=GUIDE,
    makes=MAKES,
    foreign={
        **dict.fromkeys(making.OF_PROVIDER_SQL, PROVIDER_SQL),
        **dict.fromkeys((*making.OF_OURS, secretdelivery.RESOURCE), _OURS),
        **dict.fromkeys((PUSH_SECRETS, PASSWORDS), EXTERNAL_SECRETS),
        VAULT_ENTRIES: programs.that_define(f"{VAULT_ENTRIES.kind}.{VAULT_ENTRIES.group}"),
    },
    watches=(Watched(SECRETS, functools.partial(managed.claim_of_credentials, prefix=sharing.OF_CREDENTIALS)),),
    requires=(PROVIDER_CONFIGS,),
    guards=_guards,
    left=delivery.left,
    effects=effects.of,
    ttl=terms.ttl,
    protected_by=terms.protected_by,
)
