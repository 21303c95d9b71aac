"""The description of the kind: what `claimkind.py` asks of every kind, said of PostgreSQLAccess."""

from __future__ import annotations

import functools
from typing import Final

from steelyard.api import postgresqlaccess
from steelyard.api.crossplane import DATABASES
from steelyard.api.databases import LOGINS
from steelyard.compose import managed
from steelyard.compose.claimkind import ClaimKind, Guide, Reported, Watched
from steelyard.compose.postgresqlaccess import composing
from steelyard.kube.resources import SECRETS

GUIDE: Final = Guide(
    example={
        "parameters": {"instance": "shop", "access": "readOnly", "ttl": "8h"},
        "writeConnectionSecretToRef": {"name": "shop-reports"},
    },
    notes=(
        "A claim becomes a TemporaryLogin. The Secret always has a login that lives for at least a third of `ttl`: "
        "read it anew when a connection is refused. At its end a login's sessions are ended, what it has made is the "
        "database owner's, and it is dropped.",
        "The database is that of a PostgreSQLInstance in the same namespace. A new value of the annotation "
        "`steelyard.dev/rotate` (`steelyard db rotate`) asks for another login now.",
        "With `integrations.vault` enabled, Vault makes such logins as well: `vault read "
        "database/creds/<environment>.<namespace>.<name>-readwrite`, or `-readonly`.",
    ),
    conditions=(
        Reported("Ready", "True", "Available", "There is a login to use."),
        Reported("Ready", "True", "Updating", "There is, while it is changed."),
        Reported("Ready", "False", "Creating", "It is being made; the message says what is waited for."),
        Reported("Ready", "False", "Degraded", "There was one, and a part of it no longer is ready."),
        Reported("UpToDate", "True", "AsAskedFor", "It is exactly what the claim asks for."),
        Reported("UpToDate", "False", "", "It is not, or not yet; the reason is that of `Ready`."),
    ),
    deletion="the connection Secret goes first, then the login, whose sessions are ended",
)
_OURS: Final = "the definitions of Steelyard's own kinds, or start the platform with its provider postgres"

POSTGRESQL_ACCESS: Final = ClaimKind(
    noun="access",
    nouns="accesses",
    definition=postgresqlaccess.kind,
    parameters=postgresqlaccess.Parameters,
    compose=composing.compose,
    guide=GUIDE,
    makes=(LOGINS, SECRETS),
    foreign={LOGINS: _OURS},
    watches=(Watched(SECRETS, functools.partial(managed.claim_of_credentials, prefix=composing.OF_CREDENTIALS)),),
    requires=(DATABASES,),
    ttl=lambda _claim, _platform: "",
)
