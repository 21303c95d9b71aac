"""Programs that Steelyard works together with where they are installed: which there are, and how each is reached."""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

from pydantic import Field

from steelyard.settings.base import SettingsModel

NamespaceName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Address = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^(https?|oci)://[^\s]+$")]
VaultPath = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$")]
ChartVersion = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[0-9A-Za-z.+-]+$")]


class Integration(SettingsModel):
    enabled: bool = Field(
        default=False,
        description="Whether objects are composed for it and waited for. Off by default: embedded, none of them runs.",
    )


class Chart(SettingsModel):
    """A Helm chart, where it is and which version of it."""

    repository: Address = Field(description="Address of the repository.")
    version: ChartVersion = Field(description="Version of the chart.")


CILIUM: Final = Chart(repository="https://helm.cilium.io", version="1.17.4")
CALICO: Final = Chart(repository="https://docs.tigera.io/calico/charts", version="v3.30.3")
KUBE_OVN: Final = Chart(repository="https://kubeovn.github.io/kube-ovn", version="v1.13.13")


class NetworkPlugins(SettingsModel):
    """What carries the traffic of pods in clusters whose machines come without. A change reaches every cluster that has
    the plugin."""

    cilium: Chart = Field(default=CILIUM, description="Cilium.")
    calico: Chart = Field(default=CALICO, description="Calico, by the Tigera operator.")
    kube_ovn: Chart = Field(default=KUBE_OVN, description="Kube-OVN.")


class ArgoCD(Integration):
    namespace: NamespaceName = Field(default="argocd", description="Where Argo CD runs, and looks for clusters.")
    project: NamespaceName = Field(default="default", description="The AppProject of what Steelyard has deployed.")
    network_plugins: NetworkPlugins = Field(
        default=NetworkPlugins(), description="The charts that clusters get their network from."
    )


class Vault(Integration):
    address: Address = Field(
        default="https://vault.vault.svc:8200",
        description="Where Vault is reached from the management cluster and from workload clusters.",
    )
    mount: VaultPath = Field(default="secret", description="The key-value engine, version 2, for credentials.")
    auth_mount: VaultPath = Field(default="kubernetes", description="The engine by which the platform logs in.")


def _integration(description: str) -> Any:
    return Field(default=Integration(), description=description)


class Integrations(SettingsModel):
    """Programs that Steelyard works together with where they are installed."""

    argocd: ArgoCD = Field(
        default=ArgoCD(), description="Argo CD: new clusters are registered, applications and add-ons deployed."
    )
    kargo: Integration = _integration("Kargo: promotion of applications from stage to stage.")
    vault: Vault = Field(default=Vault(), description="Vault: credentials are kept there.")
    external_secrets: Integration = _integration("External Secrets: secrets are brought into clusters.")
    backstage: Integration = _integration("Backstage: clusters and services appear in its catalogue.")
    crossplane: Integration = _integration("Crossplane: claims are composed by its composition function.")
    keycloak: Integration = _integration("Keycloak: people log in with it.")
    tekton: Integration = _integration("Tekton: builds of applications.")
    harbor: Integration = _integration("Harbor: container images.")
    prometheus: Integration = _integration("Prometheus: metrics and alerts.")

    def enabled(self) -> tuple[str, ...]:
        """Keys of the enabled ones, as the file writes them."""
        return tuple(
            field.alias or name
            for name, field in type(self).model_fields.items()
            if cast(Integration, getattr(self, name)).enabled
        )
