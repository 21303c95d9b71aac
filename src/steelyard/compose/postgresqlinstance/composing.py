"""Composes a PostgreSQLInstance: the claim and what was observed in, the objects and status of a database out.

spec.parameters: {environment: dev}   ->   Roles, Database, Grants; connection Secret; …

By the revision that the claim is pinned to, each of which is a module of its own.
"""

from __future__ import annotations

from typing import Final

from steelyard.api.postgresql import PostgreSQLInstanceSpec
from steelyard.compose import refusing as refusals
from steelyard.compose.composed import Composed, Observed
from steelyard.compose.postgresqlinstance import revision1, revision2
from steelyard.compose.refusing import Refused, refusing
from steelyard.kube.objects import Object
from steelyard.settings import Platform

REVISION: Final = revision2.REVISION
"""The revision that new claims get. A change of what is composed is a new one, beside the old."""
REVISIONS: Final = frozenset({revision1.REVISION, revision2.REVISION})


@refusing
def compose(claim: Object, observed: Observed, platform: Platform) -> Composed:
    spec = refusals.spec(claim, PostgreSQLInstanceSpec)
    revision = refusals.revision(claim, REVISIONS, REVISION)
    environment = platform.environment_name(spec.parameters.environment)
    if not environment:
        raise Refused(
            "EnvironmentNotAvailable",
            f"the platform file has no environment {spec.parameters.environment}; the database stays as it is. Bring "
            f"the environment back; there are {', '.join(platform.environments)}",
        )
    composed = revision1.compose if revision == revision1.REVISION else revision2.compose
    return composed(claim, spec, environment, observed, platform)
