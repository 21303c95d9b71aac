"""Programs that Steelyard works together with where they are installed: which there are, and how each is reached."""

import ipaddress
from typing import Annotated, Any, Final, Literal, Self, cast

from pydantic import AfterValidator, Field, field_validator, model_validator

from steelyard.settings.base import SettingsModel
from steelyard.settings.networks import Network

NamespaceName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Address = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^(https?|oci)://[^\s]+$")]
VaultPath = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$")]
VaultMount = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,63}$")]
VaultTtl = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,5}[smh]$")]
ObjectName = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
EntityName = Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")]
EntityReference = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^([a-z]+:)?([^\s:/]+/)?[^\s:/]+$")]
Certificates = Annotated[str, Field(max_length=100_000, pattern=r"^\s*-----BEGIN CERTIFICATE-----")]
ChartVersion = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[0-9A-Za-z.+-]+$")]


def _address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError as error:
        raise ValueError(f"must be an IP address such as 10.96.0.10: {error}") from error


IPAddress = Annotated[str, AfterValidator(_address)]


class Integration(SettingsModel):
    enabled: bool = Field(
        default=False,
        description="Whether objects are composed for it and waited for. Off by default: embedded, none of them runs.",
    )


class Chart(SettingsModel):
    """A Helm chart, where it is and which version of it."""

    repository: Address = Field(description="Address of the repository.")
    version: ChartVersion = Field(description="Version of the chart.")


_PROMETHEUS: Final = "https://prometheus-community.github.io/helm-charts"
CILIUM: Final = Chart.known(repository="https://helm.cilium.io", version="1.17.4")
CALICO: Final = Chart.known(repository="https://docs.tigera.io/calico/charts", version="v3.30.3")
KUBE_OVN: Final = Chart.known(repository="https://kubeovn.github.io/kube-ovn", version="v1.13.13")
METRICS_SERVER: Final = Chart.known(repository="https://kubernetes-sigs.github.io/metrics-server", version="3.12.2")
KUBE_STATE_METRICS: Final = Chart.known(repository=_PROMETHEUS, version="5.27.0")
NODE_EXPORTER: Final = Chart.known(repository=_PROMETHEUS, version="4.45.3")
CERT_EXPORTER: Final = Chart.known(repository="https://joe-elliott.github.io/cert-exporter", version="3.12.0")


class NetworkPlugins(SettingsModel):
    """What carries the traffic of pods in clusters whose machines come without. A change reaches every cluster that has
    the plugin."""

    cilium: Chart = Field(default=CILIUM, description="Cilium.")
    calico: Chart = Field(default=CALICO, description="Calico, by the Tigera operator.")
    kube_ovn: Chart = Field(default=KUBE_OVN, description="Kube-OVN.")


class AddOns(SettingsModel):
    """What claims can ask for by addOns. A change reaches every cluster that has the add-on."""

    metrics_server: Chart = Field(default=METRICS_SERVER, description="For kubectl top and horizontal autoscaling.")
    kube_state_metrics: Chart = Field(default=KUBE_STATE_METRICS, description="Metrics about objects of the cluster.")
    node_exporter: Chart = Field(default=NODE_EXPORTER, description="Metrics about its machines.")
    cert_exporter: Chart = Field(default=CERT_EXPORTER, description="Metrics about when certificates end.")


class ArgoCD(Integration):
    """Argo CD on the management cluster, which deploys into all clusters."""

    namespace: NamespaceName = Field(default="argocd", description="Where Argo CD runs, and looks for clusters.")
    project: NamespaceName = Field(default="default", description="The AppProject of what Steelyard has deployed.")
    network_plugins: NetworkPlugins = Field(
        default=NetworkPlugins.known(), description="The charts that clusters get their network from."
    )
    add_ons: AddOns = Field(default=AddOns.known(), description="The charts of what claims can have installed.")


class VaultSecret(SettingsModel):
    """Where a secret is that the platform shows to Vault: never in this file."""

    file: Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^/[^\x00]*$")] | None = Field(
        default=None,
        description="A file on the platform's machine with nothing else in it. It is read again when it changes.",
    )
    secret: ObjectName | None = Field(
        default=None, description="Instead of a file: a Secret in credentialsNamespace, with the key given here."
    )
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")] = Field(
        default="token", description="Of the Secret."
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.file is None) == (self.secret is None):
            raise ValueError("must have either file or secret")
        return self


class VaultAppRole(SettingsModel):
    """A login for programs: Vault knows the role, and whoever shows one of its secret ids is let in."""

    role_id: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\s]+$")] = Field(
        description="Which role. It is no secret."
    )
    secret_id: VaultSecret = Field(description="Where the role's secret id is.")
    mount: VaultPath = Field(default="approle", description="The engine by which the platform logs in.")


class VaultKubernetes(SettingsModel):
    """A login with a service account of the platform's API, which Vault asks whether it is genuine."""

    role: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")] = Field(
        default="steelyard", description="Of the engine."
    )
    mount: VaultPath | None = Field(
        default=None, description="The engine by which the platform logs in. Unset: at authMount."
    )
    service_account: ObjectName = Field(
        default="external-secrets-sa", description="In credentialsNamespace; the role must be bound to it."
    )


class VaultAuth(SettingsModel):
    """How the platform logs in to Vault: one of the three."""

    token: VaultSecret | None = Field(default=None, description="With a token, which is renewed while it can be.")
    app_role: VaultAppRole | None = Field(default=None, description="With a role id and a secret id.")
    kubernetes: VaultKubernetes | None = Field(default=None, description="With a service account.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(each is not None for each in (self.token, self.app_role, self.kubernetes)) > 1:
            raise ValueError("must have one of token, appRole and kubernetes, not several")
        return self


class VaultPki(SettingsModel):
    """Certificates from Vault: a role for each environment, which gives them for names in its domain."""

    enabled: bool = Field(default=False, description="Whether the engine, its authority and its roles are made.")
    mount: VaultPath = Field(default="pki", description="The engine.")
    common_name: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        default="Steelyard", description="Of the authority that the engine makes, where it has none yet."
    )
    max_ttl: VaultTtl = Field(default="720h", description="How long a certificate lives at most.")


class VaultDatabase(SettingsModel):
    """Logins of databases that Vault makes on demand and takes back: for each database a role."""

    enabled: bool = Field(
        default=True, description="Whether Vault is told of databases. It must reach the server at its address."
    )
    mount: VaultPath = Field(default="database", description="The engine.")
    default_ttl: VaultTtl = Field(default="1h", description="How long such a login lives.")
    max_ttl: VaultTtl = Field(default="24h", description="How long it lives at most, however often it is renewed.")


class Vault(Integration):
    """Where kubeconfigs of clusters and logins of databases are put, and secrets come from. HashiCorp's Vault or
    OpenBao, whichever answers at the address."""

    address: Address = Field(
        default="https://vault.vault.svc:8200", description="Where Vault is reached from the management cluster."
    )
    cluster_address: Address | None = Field(
        default=None,
        description="Where Vault is reached from workload clusters, whose DNS does not know the management cluster's "
        "names. Unset: at address.",
    )
    ca_certificates: Certificates | None = Field(
        default=None,
        description="Who signed Vault's certificate, in PEM, for the platform and for workload clusters. Unset: "
        "somebody they trust anyway.",
    )
    namespace: VaultPath | None = Field(
        default=None, description="Vault's namespace, where it has several. Unset: the one at the root."
    )
    auth: VaultAuth = Field(
        default=VaultAuth.known(),
        description="How the platform logs in: token, appRole or kubernetes. None of them: with its service account, "
        "by kubernetes.",
    )
    mount: VaultMount = Field(
        default="secret", description="The key-value engine, version 2, for credentials: what each path begins with."
    )
    auth_mount: VaultPath = Field(
        default="kubernetes",
        description="The engine by which the platform logs in with a service account. Each workload cluster has one of "
        "its own, <authMount>-<cluster>, which the platform sets up.",
    )
    configure: bool = Field(
        default=True,
        description="Whether the platform sets Vault up: engines that are missing, policies, roles. Without, somebody "
        "else must; what is put into the key-value engine stays the platform's.",
    )
    secret_store: ObjectName = Field(
        default="vault-backend",
        description="The ClusterSecretStore of the management cluster by which kubeconfigs reach Vault. The store "
        "inside workload clusters is called the same.",
    )
    credentials_namespace: NamespaceName = Field(
        default="crossplane-system",
        description="Where copies of kubeconfigs are, to be put into Vault from there. Nobody but the platform may "
        "write there. It should be that of postgresql and redis: names in it keep two claims from writing to one path.",
    )
    timeout_seconds: Annotated[float, Field(gt=0, le=300)] = Field(
        default=10.0, description="How long the platform waits for an answer of Vault's."
    )
    ci_cd: tuple[NamespaceName, ...] = Field(
        default=(),
        strict=False,
        description="Programs of the delivery pipeline, such as harbor or github, whose credentials are kept at "
        "<mount>/ci-cd/<name>: everything in the Secret ci-cd-<name> of credentialsNamespace.",
    )
    database: VaultDatabase = Field(default=VaultDatabase.known(), description="Logins of databases, made on demand.")
    pki: VaultPki = Field(default=VaultPki.known(), description="Certificates for names of each environment.")


EXTERNAL_SECRETS: Final = Chart.known(repository="https://charts.external-secrets.io", version="0.20.4")


class ExternalSecrets(Integration):
    """The store inside each cluster by which secrets come from Vault; together with vault only."""

    namespace: NamespaceName = Field(
        default="external-secrets", description="Where it runs inside workload clusters, with its service account."
    )
    chart: Chart | None = Field(
        default=EXTERNAL_SECRETS,
        description="What Argo CD, where it is enabled, installs in workload clusters. Empty (~): it comes there by "
        "other means.",
    )


class Backstage(Integration):
    """Each cluster as a Resource of the catalogue."""

    namespace: NamespaceName = Field(
        default="backstage",
        description="Where each cluster has a ConfigMap with its catalog-info.yaml, for Backstage to read.",
    )
    owner: EntityReference = Field(default="platform-team", description="Who owns clusters, as the catalogue calls it.")
    lifecycle: EntityName = Field(default="production", description="The lifecycle that the catalogue shows.")
    system: EntityReference | None = Field(
        default="platform", description="The system that clusters are part of. Empty (~): none."
    )


class SharedService(SettingsModel):
    """One service of the management cluster that workload clusters use."""

    name: NamespaceName = Field(description="Of its Service.")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(description="At which it listens.")
    protocol: Literal["TCP", "UDP"] = Field(default="TCP", description="TCP or UDP.")
    address: IPAddress | None = Field(
        default=None, description="The ClusterIP of its Service, for Istio's ServiceEntry. Unset: found by DNS."
    )


_SHARED: Final = (
    SharedService.known(name="postgres", port=5432),
    SharedService.known(name="kafka", port=9092),
    SharedService.known(name="redis", port=6379),
    SharedService.known(name="vault", port=8200),
    SharedService.known(name="temporal", port=7233),
)


class SharedServices(Integration):
    """Services of the management cluster that all workload clusters may use."""

    namespace: NamespaceName = Field(default="shared-services", description="Where they are.")
    services: tuple[SharedService, ...] = Field(
        default=_SHARED,
        strict=False,
        description="Which there are, each with name, port, protocol (TCP, or UDP) and address, the ClusterIP of its "
        "Service, without which Istio finds it by DNS. Machines of clusters reach these ports in that namespace, and "
        "53 for DNS, and no others; pods that are in no cluster's namespace reach it as before.",
    )
    open_to: tuple[Network, ...] = Field(
        default=(),
        strict=False,
        description="Networks that reach them at every port besides, such as those of hosts and of whoever comes "
        "through a load balancer: with a NetworkPolicy in the namespace, what is no pod is let in only by its address.",
    )
    domain: Annotated[str, Field(max_length=200, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")] = Field(
        default="cluster.local", description="The management cluster's domain, in which its Services have names."
    )
    dns: IPAddress | None = Field(
        default=None,
        description="Address of the management cluster's DNS as machines reach it, such as 10.96.0.10. The DNS of each "
        "workload cluster asks it for names in that namespace. Unset: clusters must find the services by themselves.",
    )

    @field_validator("services", mode="after")
    @classmethod
    def _apart(cls, value: tuple[SharedService, ...]) -> tuple[SharedService, ...]:
        seen: set[tuple[str, int, str]] = set()
        for each in value:
            if (each.name, each.port, each.protocol) in seen:
                raise ValueError(f"{each.name} is there twice with {each.protocol} port {each.port}")
            seen.add((each.name, each.port, each.protocol))
        return value


def _integration(description: str) -> Any:
    return Field(default=Integration.known(), description=description)


class Integrations(SettingsModel):
    """Programs that Steelyard works together with where they are installed."""

    argocd: ArgoCD = Field(
        default=ArgoCD.known(), description="Argo CD: new clusters are registered, applications and add-ons deployed."
    )
    kargo: Integration = _integration("Kargo: promotion of applications from stage to stage.")
    vault: Vault = Field(default=Vault.known(), description="Vault: credentials are kept there.")
    external_secrets: ExternalSecrets = Field(
        default=ExternalSecrets.known(),
        description="External Secrets: clusters have a store by which secrets come from Vault.",
    )
    shared_services: SharedServices = Field(
        default=SharedServices.known(), description="Services of the management cluster that workload clusters use."
    )
    istio: Integration = _integration("Istio: shared services have entries in the mesh of the management cluster.")
    backstage: Backstage = Field(default=Backstage.known(), description="Backstage: clusters appear in its catalogue.")
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
