"""Claims composed without anything observed: for manifests in files, and for plans that ask no server.

What follows from what is there (a kubeconfig that is copied, a range that is free) is left out or preliminary: told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from steelyard.api.clusterapi.resources import CLUSTERS
from steelyard.compose import identity, names
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.composed import NOTHING, Composed
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform


@frozen
class Rendered:
    composed: Composed
    notes: Sequence[str]
    """What is missing in it, or may come out otherwise where there is something to look at."""

    @property
    def parts(self) -> dict[str, Object]:
        return parts(self.composed)


def render(kind: ClaimKind, claim: Object, platform: Platform) -> Rendered:
    composed = identity.of_file(claim, kind.compose(claim, NOTHING, platform))
    return Rendered(composed, list(_notes(composed)))


def parts(composed: Composed) -> dict[str, Object]:
    """By resource name, in the order in which they are applied."""
    return {name: part.object for name, part in composed.desired.items()}


def by_claim(manifests: Sequence[Object]) -> Mapping[tuple[str, str, str], Mapping[str, Object]]:
    """Rendered manifests under kind, namespace and name of their claim, each by resource name; others are left out."""
    found: dict[tuple[str, str, str], dict[str, Object]] = {}
    for each in manifests:
        labels, part = objects.labels(each), objects.annotations(each).get(names.RESOURCE_NAME)
        claim = tuple(labels.get(key, "") for key in (names.CLAIM_KIND, names.CLAIM_NAMESPACE, names.CLAIM_NAME))
        if part and all(claim):
            kind, namespace, name = claim
            found.setdefault((kind, namespace, name), {})[part] = each
    return found


def _notes(composed: Composed) -> Iterator[str]:
    if composed.retained:
        yield f"left out, as what they are made from is not there yet: {', '.join(sorted(composed.retained))}"
    if any(each.resource == CLUSTERS and not each.name for each in composed.requirements.values()):
        yield "its ranges are those of a platform without other clusters; there they may be others"
