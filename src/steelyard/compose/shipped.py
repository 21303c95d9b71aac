"""What an API must have before the first claim: the definitions of the kinds, and the policies that guard claims.

The embedded platform puts them into its own API at every start; `steelyard crds` prints them for any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.api import catalogue, clusterpolicies, policies, secretdelivery
from steelyard.api.clusterfields import ClusterFields
from steelyard.compose.cluster import choosing
from steelyard.compose.offering import Offering
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.settings import Platform
from steelyard.settings.model import PREVIEW


def definitions(platform: Platform, offering: Offering) -> tuple[Object, ...]:
    """Those of Cluster API are not among them: on a management cluster they come with Cluster API."""
    return (*offering.definitions(platform.domain), *secretdelivery.definitions())


def guards(platform: Platform, offering: Offering) -> tuple[tuple[Object, Object], ...]:
    """The policies, each with the binding that puts it into force."""
    domain, allowed = platform.domain, platform.connection_secrets
    claims = [kind.resource(domain) for kind in offering.kinds]
    staged = [kind.resource(domain) for kind in offering.kinds if "environment" in kind.parameters.model_fields]
    made = [
        policies.connection_secrets(domain, claims, allowed.granted(), allowed.robot_users()),
        policies.protection(domain, claims),
    ]
    delivering = [kind.resource(domain) for kind in offering.kinds if "deliver_to" in kind.parameters.model_fields]
    if delivering:
        made.append(policies.deliveries(domain, delivering, allowed.granted_clusters(), allowed.robot_users()))
    if staged:
        previews = PREVIEW.pattern if platform.has_previews else ""
        made.append(policies.environments(domain, staged, platform.environment_names(), previews))
    clusters = [kind.resource(domain) for kind in offering.kinds if issubclass(kind.parameters, ClusterFields)]
    if clusters:
        made.append(_limits(platform, offering, clusters))
    listings = {
        name: each for name, each in platform.versions.listings().items() if name in offering.infrastructure_names
    }
    made += [policy for kind in offering.kinds for policy in kind.guards(platform)]
    warnings: list[Object] = []
    for field in catalogue.FIELDS if listings else ():
        versioned = [kind.resource(domain) for kind in offering.kinds if field in kind.parameter_names]
        if versioned:
            made.append(catalogue.refusing(domain, versioned, listings, platform.infrastructure, field))
            if not platform.versions.refuse_ended:
                warnings.append(catalogue.warning(domain, versioned, listings, platform.infrastructure, field))
    return (
        *((each, policies.binding(each)) for each in made),
        *((each, policies.binding(each, "Warn")) for each in warnings),
    )


def _limits(platform: Platform, offering: Offering, clusters: Sequence[Resource]) -> Object:
    network, pools = platform.cluster_network, platform.networks
    shared = {
        what: range_
        for what, range_, has_pools in (
            ("pods", network.pods, bool(pools.pods.pools)),
            ("services", network.services, bool(pools.services.pools)),
        )
        if not has_pools
    }
    infrastructures = [each.on(platform) for each in offering.infrastructures]
    return clusterpolicies.limits(
        platform.domain,
        clusters,
        default=platform.infrastructure,
        without_endpoint=[each.name for each in infrastructures if not each.has_endpoint],
        without_settings=[each.name for each in infrastructures if each.adjusted is None],
        without_plugin={
            plugin: [each.name for each in infrastructures if not each.has_network and plugin not in each.own_plugins]
            for plugin in sorted(choosing.OF_IMAGES)
        },
        hosts=pools.granted_hosts(),
        reserved=pools.reserved,
        shared=shared,
        memory={each.name: each.least_memory_gi for each in infrastructures if each.least_memory_gi},
        machines={each.name: each.node_ranges for each in infrastructures},
    )
