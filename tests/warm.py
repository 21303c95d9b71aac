"""What a platform works out when it starts for the first time, worked out before processes are forked for platforms:
definitions, schemas and rules, which are the same for each. Importing this does it."""

from __future__ import annotations

from steelyard import app
from steelyard.api.clusterapi import definitions
from steelyard.compose import offering, shipped
from steelyard.kube.schema import parse
from steelyard.kube.server.expressions import compiling
from steelyard.settings import Platform


def _warm(platform: Platform) -> None:
    crds = [*shipped.definitions(platform, offering.STANDARD), *definitions.crds()]
    crds += [each for provider in app.PROVIDERS for each in provider.definitions()]
    for definition in crds:
        for version in definition["spec"]["versions"]:
            parse.from_openapi(version["schema"]["openAPIV3Schema"])
    for policy, _ in shipped.guards(platform, offering.STANDARD):
        compiling.compile_(policy["spec"])


_warm(Platform())
