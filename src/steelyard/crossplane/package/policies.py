"""What guards claims where Crossplane defines them: the shipped policies, and the rules that its definitions cannot
hold; and the definitions of our own kinds that are no claims."""

from __future__ import annotations

from steelyard.api import crd, databases, redisserver, secretdelivery, vaultentries, xrd
from steelyard.compose import shipped
from steelyard.compose.offering import Offering
from steelyard.kube.objects import Object
from steelyard.settings import Platform


def guards(offering: Offering, platform: Platform) -> list[Object]:
    found = [each for pair in shipped.guards(platform, offering) for each in pair]
    for kind in offering.kinds:
        rules = xrd.rules_of_whole(kind.definition(platform.domain))
        found += rules or ()
    return found


def own_definitions(offering: Offering, platform: Platform) -> list[Object]:
    """Those that claims are made of. Of claims there are none: Crossplane makes them."""
    infrastructures = (kind for each in offering.infrastructures for kind in each.kinds)
    of_providers = (*databases.KINDS, redisserver.KIND, vaultentries.KIND)
    return [
        *(crd.definition(kind) for kind in (*infrastructures, *of_providers)),
        *secretdelivery.definitions(),
    ]
