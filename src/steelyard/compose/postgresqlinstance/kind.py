"""The description of the kind: what `claimkind.py` asks of every kind, said of PostgreSQLInstance."""

from __future__ import annotations

import functools
from typing import Final

from steelyard.api import externalnames, postgresql, vaultpaths
from steelyard.api.crossplane import EXTERNAL_SECRETS, PROVIDER_SQL, PUSH_SECRETS
from steelyard.compose import managed
from steelyard.compose.claimkind import ClaimKind, Watched
from steelyard.compose.postgresqlinstance import composing, effects, naming, parts
from steelyard.compose.postgresqlinstance.guide import GUIDE
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.settings import Platform


def _guards(platform: Platform) -> list[Object]:
    claims = postgresql.resource(platform.domain)
    names = externalnames.databases(
        claims, prefixes=naming.all_prefixes(platform), grants=platform.postgresql.granted()
    )
    paths = vaultpaths.policy(
        claims, platform.postgresql.vault_mount, composing.VAULT_FOLDERS, platform.environment_aliases()
    )
    return [names, paths]


POSTGRESQL_INSTANCE: Final = ClaimKind(
    noun="database",
    nouns="databases",
    definition=postgresql.kind,
    parameters=postgresql.Parameters,
    compose=composing.compose,
    guide=GUIDE,
    makes=(*parts.MAKES, PUSH_SECRETS, SECRETS),
    foreign={**dict.fromkeys(parts.MAKES, PROVIDER_SQL), PUSH_SECRETS: EXTERNAL_SECRETS},
    watches=(Watched(SECRETS, functools.partial(managed.claim_of_credentials, prefix=composing.OF_CREDENTIALS)),),
    guards=_guards,
    effects=effects.of,
)
