"""What carries the traffic of pods on machines that come without a network, and where its manifests come from."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from steelyard.settings.base import SettingsModel

FetchedPlugin = Literal["cilium", "calico", "kube-ovn"]
"""Those whose images come from registries."""
NetworkPlugin = Literal["flannel", "cilium", "calico", "kube-ovn"]
FLANNEL: Final = "flannel"
"""The one that images of machines on KVM hosts have."""
ObjectName = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
NamespaceName = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]


class Manifests(SettingsModel):
    """A ConfigMap or Secret whose values are manifests."""

    kind: Literal["ConfigMap", "Secret"] = Field(default="ConfigMap", description="ConfigMap or Secret.")
    name: ObjectName = Field(description="Its name.")


def _manifests(plugin: str) -> Any:
    return Field(
        default=(),
        strict=False,
        description=f"What has those of {plugin}, as in [{{kind: ConfigMap, name: {plugin}}}].",
    )


class NetworkManifests(SettingsModel):
    """Manifests of network plugins, for where Argo CD does not install them: a ClusterResourceSet of Cluster API brings
    them into each cluster, and a change of them reaches every cluster when its claim is next looked at. In them,
    ${POD_CIDR}, ${SERVICE_CIDR}, ${CONTROL_PLANE_ENDPOINT_HOST}, ${CONTROL_PLANE_ENDPOINT_PORT} and
    ${CONTROL_PLANE_ADDRESSES} stand for what is different in each."""

    namespace: NamespaceName = Field(default="steelyard-system", description="Where the ConfigMaps and Secrets are.")
    cilium: tuple[Manifests, ...] = _manifests("cilium")
    calico: tuple[Manifests, ...] = _manifests("calico")
    kube_ovn: tuple[Manifests, ...] = _manifests("kube-ovn")

    def of(self, plugin: str) -> tuple[Manifests, ...]:
        return {"cilium": self.cilium, "calico": self.calico, "kube-ovn": self.kube_ovn}.get(plugin, ())
