"""Where connection data of claims may go, besides their own namespaces."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from steelyard.settings.base import SettingsModel

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
NamespaceName = Annotated[str, Field(pattern=rf"^{_LABEL}$")]
ServiceAccountName = Annotated[str, Field(pattern=rf"^{_LABEL}/{_LABEL}(\.{_LABEL})*$", max_length=320)]


class Grant(SettingsModel):
    """Claims in some namespaces may have their connection Secrets written into others, and into clusters of others."""

    claims_in: tuple[NamespaceName | Literal["*"], ...] = Field(
        min_length=1, strict=False, description="Namespaces of the claims; * is any."
    )
    secrets_to: tuple[NamespaceName, ...] = Field(
        default=(), strict=False, description="Namespaces in which their Secrets may be, each by its name."
    )
    clusters_in: tuple[NamespaceName, ...] = Field(
        default=(),
        strict=False,
        description="Namespaces whose clusters their Secrets may be delivered into, each by its name.",
    )

    @model_validator(mode="after")
    def _grants_something(self) -> Self:
        if not (self.secrets_to or self.clusters_in):
            raise ValueError("must have secretsTo or clustersIn")
        return self


class ConnectionSecrets(SettingsModel):
    """Where claims may have the kubeconfigs of their clusters written, besides their own namespaces. Without a grant
    the author of a claim must be allowed to create Secrets there."""

    grants: tuple[Grant, ...] = Field(
        default=(),
        strict=False,
        description="Claims that need no right of their author, such as those of teams for Argo CD: each grant has "
        "claimsIn, the namespaces of the claims (* is any), and secretsTo, those of the Secrets, as in "
        "{claimsIn: [team-a], secretsTo: [argocd]}; or clustersIn, namespaces whose clusters connection data may be "
        "delivered into (deliverTo).",
    )
    robots: tuple[ServiceAccountName, ...] = Field(
        default=(),
        strict=False,
        description="Service accounts, as namespace/name, that write claims for others, such as Argo CD's: what they "
        "may do themselves does not count, only the grants do.",
    )

    def granted(self) -> dict[str, tuple[str, ...]]:
        """By the namespace of the claims."""
        found: dict[str, set[str]] = {}
        for grant in self.grants:
            for source in grant.claims_in:
                found.setdefault(source, set()).update(grant.secrets_to)
        return {source: tuple(sorted(targets)) for source, targets in found.items()}

    def granted_clusters(self) -> dict[str, tuple[str, ...]]:
        """Namespaces of clusters, by the namespace of the claims."""
        found: dict[str, set[str]] = {}
        for grant in self.grants:
            for source in grant.claims_in:
                found.setdefault(source, set()).update(grant.clusters_in)
        return {source: tuple(sorted(targets)) for source, targets in found.items()}

    def allows(self, source: str, target: str) -> bool:
        granted = self.granted()
        return target in granted.get(source, ()) or target in granted.get("*", ())

    def allows_clusters(self, source: str, target: str) -> bool:
        granted = self.granted_clusters()
        return target in granted.get(source, ()) or target in granted.get("*", ())

    def robot_users(self) -> tuple[str, ...]:
        """As the API knows them."""
        return tuple(f"system:serviceaccount:{each.replace('/', ':', 1)}" for each in self.robots)
