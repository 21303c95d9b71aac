"""The description of the kind: what `claimkind.py` asks of every kind, said of RedisInstance."""

from __future__ import annotations

import functools
from typing import Final

from steelyard.api import externalnames, redis, secretdelivery
from steelyard.api.crossplane import EXTERNAL_SECRETS, PROVIDER_HELM, PUSH_SECRETS, RELEASES
from steelyard.api.redisserver import RESOURCE as REDIS_SERVERS
from steelyard.compose import delivery, managed
from steelyard.compose.claimkind import ClaimKind, Watched
from steelyard.compose.redisinstance import composing, effects
from steelyard.compose.redisinstance.guide import GUIDE
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.settings import Platform

_NO_PROCESSES: Final = (
    "Crossplane's provider-helm, and set redis.mode to helm in the platform file: only a platform that runs by itself "
    "makes caches as processes"
)
_OURS: Final = "the definitions of Steelyard's own kinds"


def _guards(platform: Platform) -> list[Object]:
    return [externalnames.releases(redis.resource(platform.domain))]


REDIS_INSTANCE: Final = ClaimKind(
    noun="cache",
    nouns="caches",
    definition=redis.kind,
    parameters=redis.Parameters,
    compose=composing.compose,
    guide=GUIDE,
    makes=(RELEASES, REDIS_SERVERS, PUSH_SECRETS, *delivery.MAKES),
    foreign={
        RELEASES: PROVIDER_HELM,
        REDIS_SERVERS: _NO_PROCESSES,
        PUSH_SECRETS: EXTERNAL_SECRETS,
        secretdelivery.RESOURCE: _OURS,
    },
    left=delivery.left,
    watches=(Watched(SECRETS, functools.partial(managed.claim_of_credentials, prefix=composing.OF_CREDENTIALS)),),
    guards=_guards,
    effects=effects.of,
)
