"""What the platform's own API has before the first request: roles, kinds, the policies that guard claims, and what the
platform file says that stands there. Mostly it was made ahead (`founding.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from steelyard import defining, founding, parts, standing
from steelyard.api import authors, vaultstanding
from steelyard.api.resources import DATA_GROUP, KVM_HOSTS, KVM_MACHINES
from steelyard.compose.infrastructures import kvmhosts
from steelyard.defining import Owner
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.schema import structural
from steelyard.kube.server.api import Api
from steelyard.kube.server.expressions import compiling
from steelyard.options import Options
from steelyard.providers.toolkit.provider import Provider
from steelyard.settings import Platform

if TYPE_CHECKING:
    from steelyard.compose.offering import Offering

FIELD_MANAGER: Final = "steelyard"


async def lay(api: Api, client: Client, options: Options) -> tuple[Sequence[Resource], Sequence[Owner]]:
    """The roles, the kinds and the policies that guard claims. The kinds of claims that are ours to look after, and
    those of our kinds that are somebody else's."""
    wanted = [provider for provider in options.providers if provider.is_wanted(options.platform)]
    made = founding.read(options.platform.domain)
    if not api.access.is_active:
        # Nothing was stored before. At later starts the server has looked after its roles by itself.
        await api.access.activate(are_laid=made is not None and await api.lay(made.of([founding.ROLES])))
    if made is None or not _is_standard(options):
        owners = await _define_kinds(client, options, wanted)
        await guard_claims(api, client, options.platform, options.offered)
        return _left([kind.resource(options.platform.domain) for kind in options.offered.kinds], owners), owners
    lifecycle = [founding.LIFECYCLE] if parts.LIFECYCLE in options.runs else []
    kinds = made.of((founding.KINDS, *lifecycle, *(founding.of_provider(each.name) for each in wanted)))
    owners = [] if await api.lay(kinds) else await _define_kinds(client, options, wanted)
    guards = made.of([founding.GUARDS]) if founding.has_guards_of(options.platform) else []
    if guards and await api.lay(guards):
        api.stamp({(each.group, each.plural): authors.stamp for each in made.claims})
    else:
        await guard_claims(api, client, options.platform, options.offered)
    return _left(made.claims, owners), owners


def _left(claims: Sequence[Resource], owners: Sequence[Owner]) -> list[Resource]:
    taken = {each.definition for each in owners}
    return [each for each in claims if each.group_resource not in taken]


def _is_standard(options: Options) -> bool:
    """Whether everything that is offered is what this version has."""
    return options.offering is None and all(each in parts.PROVIDERS for each in options.providers)


async def _define_kinds(client: Client, options: Options, wanted: Sequence[Provider]) -> list[Owner]:
    """Applies the CRDs of all our kinds, and upstream's where nobody has; unchanged ones are left alone. Those kinds
    of ours that are somebody else's."""
    from steelyard.api.clusterapi import definitions as clusterapi
    from steelyard.compose import shipped

    of_providers = [each for provider in wanted for each in provider.definitions()]
    own = [*shipped.definitions(options.platform, options.offered), *filter(is_own, of_providers)]
    upstream = [each for each in of_providers if not is_own(each)]
    if parts.LIFECYCLE in options.runs:
        upstream += clusterapi.crds()
    for crd in (*own, *upstream):
        structural.vouch_for(crd)
    return await defining.define(client, own, upstream, field_manager=FIELD_MANAGER, tell=options.tell)


def is_own(crd: Object) -> bool:
    return objects.at(crd, "spec", "group") == DATA_GROUP


async def guard_claims(api: Api, client: Client, platform: Platform, offering: Offering | None = None) -> None:
    """From before the first request on, a claim acts with its author's rights, and names what there is."""
    from steelyard.api import policies
    from steelyard.compose import shipped
    from steelyard.compose.offering import STANDARD

    offered = offering or STANDARD
    resources = [kind.resource(platform.domain) for kind in offered.kinds]
    api.stamp({(each.group, each.plural): authors.stamp for each in resources})
    for policy, _ in shipped.guards(Platform.known(), STANDARD):
        # What a platform file or somebody's kind makes of them is no text of ours, and is judged like any other.
        compiling.vouch(objects.mapping(policy["spec"]))
    for policy, binding in shipped.guards(platform, offered):
        await standing.ensure(client, policies.POLICIES, policy, field_manager=FIELD_MANAGER)
        await standing.ensure(client, policies.BINDINGS, binding, field_manager=FIELD_MANAGER)


async def keep_in_vault(client: Client, options: Options) -> None:
    """What the platform file has kept in Vault, whoever claims."""
    wanted: Sequence[tuple[Resource, Object]] = ()
    if options.platform.integrations.vault.enabled:
        from steelyard.compose.integrations import vaultplatform

        wanted = vaultplatform.standing(options.platform)
    mark = standing.Mark(*vaultstanding.LABEL, vaultstanding.KINDS)
    await standing.keep(client, wanted, mark, FIELD_MANAGER)


async def keep_hosts(client: Client, options: Options) -> None:
    """The KVM hosts of the platform file. One that it no longer names stays while machines are on it: nobody else would
    know where they are."""
    if options.offering is not None and KVM_HOSTS not in _infrastructure_kinds(options.offering):
        return
    machines = (await client.list(KVM_MACHINES)).items
    in_use = {str(host) for each in machines if (host := objects.at(each, "spec", "host"))}
    mark = standing.Mark(*kvmhosts.MARK, kvmhosts.KINDS)
    for name in await standing.keep(client, kvmhosts.standing(options.platform), mark, FIELD_MANAGER, spared=in_use):
        options.tell(
            f"KVMHost {name} is no longer in the platform file (kvm.hosts) and stays, since machines are on it; delete "
            "their clusters, and it goes at the next start"
        )


def _infrastructure_kinds(offering: Offering) -> list[Resource]:
    return [kind.resource for each in offering.infrastructures for kind in each.kinds]
