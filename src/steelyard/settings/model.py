"""The fields of the platform file, each with its default, its unit and the reason for it. No I/O.

`docs/reference/platform.md` and `examples/platform.yaml` are made from these models. Values are strict: a quoted number
is not a number, and `kubernetesVersion: 1.32` is a mistake, not a version.
"""

import re
from typing import Annotated, Any, Final, Literal, cast

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from steelyard.api import infrastructures, versions
from steelyard.api.claims import EnvironmentName
from steelyard.api.infrastructures import InfrastructureName
from steelyard.api.sizes import ControlPlaneReplicas, CpuCores, DiskGb, MemoryGi, WorkerReplicas
from steelyard.settings import kvmhosts
from steelyard.settings.base import SettingsModel
from steelyard.settings.catalogue import Versions
from steelyard.settings.connectionsecrets import ConnectionSecrets
from steelyard.settings.data import PostgreSQL, Redis
from steelyard.settings.databases import Lifetime
from steelyard.settings.integrations import Integrations
from steelyard.settings.kubevirt import Kubevirt
from steelyard.settings.kvm import Kvm
from steelyard.settings.kvmhosts import KvmHost
from steelyard.settings.networks import Network, Networks, overlap
from steelyard.settings.problems import nearest

PREVIEW: Final = re.compile(r"pr-[1-9][0-9]{0,9}")
OFFERED_INFRASTRUCTURES: Final = "infrastructures"
"""In the context of a validation: what the platform at hand can make machines of."""

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


def _version(value: str) -> str:
    if problem := versions.problem(value):
        raise ValueError(problem)
    return value


KubernetesVersion = Annotated[str, AfterValidator(_version)]
Domain = Annotated[str, Field(max_length=200, pattern=rf"^{_LABEL}(\.{_LABEL})+$")]


class Environment(SettingsModel):
    """One stage of delivery. A claim that leaves a size out gets its environment's."""

    purpose: Annotated[str, Field(max_length=200)] = Field(default="", description="In a few words: what it is for.")
    enabled: bool = Field(
        default=True, description="Whether new claims may name it. Those that do already are looked after as before."
    )
    like: EnvironmentName | None = Field(
        default=None,
        description="For one of your own: the built-in environment that has what it leaves out.",
    )
    aliases: tuple[EnvironmentName, ...] = Field(
        default=(), strict=False, description="Other names that claims may use for it."
    )
    control_plane_replicas: ControlPlaneReplicas = Field(
        description="Control-plane nodes of a cluster: 1, or 3 where the loss of one must not stop it."
    )
    worker_replicas: WorkerReplicas = Field(description="Worker nodes of a cluster.")
    cpu_cores: CpuCores = Field(description="Cores of each node.")
    memory_gi: MemoryGi = Field(description="Memory of each node, in GiB.")
    disk_gb: DiskGb = Field(description="Root disk of each node, in GiB.")
    kubernetes_version: KubernetesVersion = Field(
        description="Kubernetes version of new clusters, and of every claim that names none."
    )
    auto_deploy: Literal["auto", "manual", "daily"] = Field(
        description="When a new version of an application reaches this environment: at once, when somebody says so, or "
        "once a day."
    )
    approval: bool = Field(description="Whether a promotion into this environment waits for a person's consent.")
    app_replicas: Annotated[int, Field(ge=1, le=100)] = Field(description="Copies of each application that run here.")
    database_prefix: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,30}$")] = Field(
        description="What the names of databases on the shared PostgreSQL begin with, so that environments cannot meet."
    )
    protect_databases: bool = Field(
        default=False,
        description="Whether claims for databases here cannot be deleted, unless they set deletionProtection to false.",
    )
    ingress_domain: Domain | None = Field(
        default=None,
        description="Applications are reached at names under this domain. Unset: <environment>.<domain>, and the "
        "platform's domain itself for production.",
    )
    maturity: Literal["alpha", "beta", "stable", "stable-clone"] = Field(
        description="How far the software that runs here has come; stable-clone is a copy of production to play with."
    )


def _environment(
    purpose: str,
    sizes: tuple[ControlPlaneReplicas, int, int, int, int],
    *,
    auto_deploy: Literal["auto", "manual", "daily"],
    app_replicas: int,
    database_prefix: str,
    maturity: Literal["alpha", "beta", "stable", "stable-clone"],
    aliases: tuple[str, ...] = (),
    protect_databases: bool = False,
) -> Environment:
    control_plane_replicas, worker_replicas, cpu_cores, memory_gi, disk_gb = sizes
    return Environment.known(
        purpose=purpose,
        aliases=aliases,
        control_plane_replicas=control_plane_replicas,
        worker_replicas=worker_replicas,
        cpu_cores=cpu_cores,
        memory_gi=memory_gi,
        disk_gb=disk_gb,
        kubernetes_version="v1.32.1",
        auto_deploy=auto_deploy,
        approval=auto_deploy == "manual",
        app_replicas=app_replicas,
        database_prefix=database_prefix,
        protect_databases=protect_databases,
        ingress_domain=None,
        maturity=maturity,
    )


# Control-plane nodes, workers, cores, GiB of memory and GiB of disk a node.
MATRIX: dict[str, Environment] = {
    "dev": _environment(
        "Where every change lands first.",
        (1, 2, 8, 32, 100),
        auto_deploy="auto",
        app_replicas=2,
        database_prefix="dev_",
        maturity="alpha",
    ),
    "staging": _environment(
        "Where what works in dev is tried together.",
        (1, 3, 12, 48, 200),
        auto_deploy="auto",
        app_replicas=3,
        database_prefix="staging_",
        maturity="alpha",
        aliases=("test",),
    ),
    "uat": _environment(
        "Where those who asked for a change accept it.",
        (1, 3, 12, 48, 200),
        auto_deploy="manual",
        app_replicas=3,
        database_prefix="uat_",
        maturity="beta",
    ),
    "preprod": _environment(
        "Shaped like production, for the last rehearsal.",
        (3, 4, 24, 96, 300),
        auto_deploy="manual",
        app_replicas=4,
        database_prefix="preprod_",
        maturity="beta",
    ),
    "production": _environment(
        "What customers use.",
        (3, 5, 32, 128, 500),
        auto_deploy="manual",
        app_replicas=5,
        database_prefix="prod_",
        maturity="stable",
        aliases=("prod",),
        protect_databases=True,
    ),
    "sandbox": _environment(
        "A copy of production, renewed daily, to break at will.",
        (1, 2, 16, 64, 200),
        auto_deploy="daily",
        app_replicas=2,
        database_prefix="sandbox_",
        maturity="stable-clone",
    ),
}
"""The environments that there are where the platform file says nothing else."""


class Previews(SettingsModel):
    """Environments `pr-<number>`, one for each pull request. They need no entry of their own."""

    like: EnvironmentName | None = Field(
        default="dev",
        description="The environment whose sizes they have. Empty (~): there are none, and claims for them are "
        "refused.",
    )
    ttl: Lifetime = Field(
        default="168h",
        description="How long databases there live where their claim does not say, as in 168h for a week: at the end "
        "the claim is deleted with everything in it.",
    )


def _completed(given: Any) -> Any:
    """The six environments, with what the file says of them and of its own ones."""
    if not isinstance(given, dict):
        return given
    result: dict[str, Any] = dict(MATRIX)
    for name, value in cast("dict[str, Any]", given).items():
        result[name] = _complete(name, cast("dict[str, Any]", value)) if isinstance(value, dict) else value
    return result


def _complete(name: str, given: dict[str, Any]) -> dict[str, Any]:
    if name in MATRIX:
        return {**MATRIX[name].model_dump(), **given}
    like = given.get("like")
    if like is None:
        # A misspelt name must not become an environment.
        meant = nearest(name, MATRIX)
        hint = f"did you mean {meant}? " if meant else ""
        raise ValueError(
            f"{name} is none of the built-in ones: {hint}For one of your own say which it is like, as in "
            f"{name}: {{like: {meant or next(iter(MATRIX))}}}; there are {', '.join(MATRIX)}"
        )
    if like not in MATRIX:
        raise ValueError(f"{name}.like: {like} is none of the built-in environments: {', '.join(MATRIX)}")
    # What must not be the same in two of them is not taken along.
    prefix = f"{name.lower().replace('-', '_')}_"[-31:]
    return {**MATRIX[str(like)].model_dump(), "purpose": "", "aliases": (), "databasePrefix": prefix, **given}


class ClusterNetwork(SettingsModel):
    """Address ranges inside each workload cluster. Clusters are isolated, so all may use the same ones."""

    pods: Network = Field(default="10.243.0.0/16", description="Addresses of pods; 256 nodes at the usual /24 a node.")
    services: Network = Field(default="10.95.0.0/16", description="Addresses of Services; must not overlap with pods.")

    @field_validator("services", mode="after")
    @classmethod
    def _apart(cls, value: str, info: ValidationInfo) -> str:
        pods = info.data.get("pods")
        if pods is None:
            return value
        if overlap(value, str(pods)):
            raise ValueError(f"overlaps with the pods' addresses, {pods}")
        return value


Seconds = Annotated[float, Field(ge=0, le=86400)]


class Simulated(SettingsModel):
    """Simulated machines. The defaults make a cluster Ready in one to two seconds: slow enough to watch."""

    boot_seconds: Seconds = Field(default=0.4, description="Seconds from a machine's bootstrap data to its running.")
    join_seconds: Seconds = Field(default=0.2, description="Seconds from running to its Node being Ready.")
    delete_seconds: Seconds = Field(default=0.1, description="Seconds that switching a machine off takes.")
    cluster_megabytes: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=64,
        description="What the objects inside each simulated cluster may take together, in MB; whoever writes more is "
        "refused, deleting is always possible. All clusters share one file and the memory of the platform: this is ten "
        "times what a busy small cluster holds, and lets no one fill the disk for the others.",
    )
    webhook_networks: tuple[Network, ...] = Field(
        default=(),
        strict=False,
        description="Networks such as 10.20.0.0/16 in which webhooks that are configured inside simulated clusters may "
        "be, besides public addresses. None by default: the platform calls them from where it runs, and would reach "
        "its own loopback and the networks around it for whoever administers such a cluster.",
    )


class Audit(SettingsModel):
    """The audit log, audit.log in the data directory: who did what, one line of JSON per request, never a body. For the
    platform's API; simulated clusters keep none."""

    enabled: bool = Field(default=True, description="Whether requests are logged.")
    max_megabytes: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=100, description="Size in MB at which a new file is begun."
    )
    keep: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=5, description="Older files that are kept, as audit.log.1 and so on, the newest first."
    )


class Limits(SettingsModel):
    """How many requests the APIs of the platform and of its simulated clusters work on at once, together. No user and
    no cluster gets more than half. Who comes when it is full waits for a turn, and is told to try again (429) if too
    many wait already; watches do not count, and administrators of the platform always get through."""

    reading: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=400, description="Requests that read; 0 is no limit."
    )
    writing: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=200, description="Requests that write; 0 is no limit."
    )


class Platform(SettingsModel):
    domain: Domain = Field(
        default="steelyard.dev",
        description="API groups of claims end in it (compute.<domain>), and so do the names of environments. Choose it "
        "once: another domain is another API.",
    )
    infrastructure: InfrastructureName = Field(
        default="simulated",
        description="What machines are made of where a claim does not say: simulated ones exist as state only and need "
        "nothing; kvm are virtual machines of plain KVM hosts; kubevirt are virtual machines of a management cluster "
        "with KubeVirt and its Cluster API provider.",
    )
    environments: dict[EnvironmentName, Environment] = Field(
        default=MATRIX,
        description="The stages of delivery. Six are built in: what the file leaves out of one keeps its default. "
        "Others may be added under any name; each says with `like` which built-in one has what it leaves out.",
    )
    previews: Previews = Field(default=Previews.known(), description="Environments of pull requests.")
    versions: Versions = Field(
        default=Versions.known(), description="Which versions of Kubernetes clusters may have, on which infrastructure."
    )
    cluster_network: ClusterNetwork = Field(
        default=ClusterNetwork.known(), description="Address ranges inside workload clusters."
    )
    networks: Networks = Field(
        default=Networks.known(), description="Address ranges of clusters that are not isolated from each other."
    )
    integrations: Integrations = Field(default=Integrations.known(), description="Programs to work together with.")
    simulated: Simulated = Field(default=Simulated.known(), description="How simulated machines behave.")
    kubevirt: Kubevirt = Field(default=Kubevirt.known(), description="Machines that KubeVirt runs.")
    kvm: Kvm = Field(default=Kvm.known(), validate_default=True, description="Machines of plain KVM hosts.")
    postgresql: PostgreSQL = Field(default=PostgreSQL.known(), description="The server that databases are made on.")
    redis: Redis = Field(default=Redis.known(), description="How caches are made.")
    audit: Audit = Field(default=Audit.known(), description="The log of requests.")
    limits: Limits = Field(default=Limits.known(), description="How much is done at once.")
    connection_secrets: ConnectionSecrets = Field(
        default=ConnectionSecrets.known(),
        description="Where claims may have kubeconfigs written, besides their own namespaces.",
    )

    @field_validator("infrastructure", mode="after")
    @classmethod
    def _offered(cls, value: str, info: ValidationInfo) -> str:
        context = cast("dict[str, Any]", info.context or {})
        offered = cast("tuple[str, ...]", context.get(OFFERED_INFRASTRUCTURES, infrastructures.OFFERED))
        if value not in offered:
            meant = nearest(value, offered)
            hint = f"; did you mean {meant}?" if meant else f"; it offers: {', '.join(offered)}"
            raise ValueError(f"this version of Steelyard cannot make machines of {value}{hint}")
        return value

    @field_validator("environments", mode="before")
    @classmethod
    def _environments(cls, value: Any) -> Any:
        return _completed(value)

    @field_validator("environments", mode="after")
    @classmethod
    def _apart(cls, value: dict[str, Environment]) -> dict[str, Environment]:
        names: dict[str, str] = dict.fromkeys(value, "")
        prefixes: dict[str, str] = {}
        for name, environment in value.items():
            for alias in environment.aliases:
                if alias in names:
                    raise ValueError(f"{name}.aliases: {alias} is the name of another one already")
                names[alias] = name
            other = prefixes.setdefault(environment.database_prefix, name)
            if other != name:
                raise ValueError(
                    f"{name}.databasePrefix: {environment.database_prefix} is that of {other} already; their databases "
                    "would meet"
                )
        return value

    @field_validator("previews", mode="after")
    @classmethod
    def _known(cls, value: Previews, info: ValidationInfo) -> Previews:
        environments = cast("dict[str, Environment]", info.data.get("environments", {}))
        if value.like is not None and environments and value.like not in environments:
            raise ValueError(f"like: there is no environment {value.like}; there are: {', '.join(environments)}")
        return value

    @field_validator("versions", mode="after")
    @classmethod
    def _offers_what_environments_have(cls, value: Versions, info: ValidationInfo) -> Versions:
        environments = cast("dict[str, Environment]", info.data.get("environments", {}))
        infrastructure = str(info.data.get("infrastructure", ""))
        for name, environment in environments.items():
            found = value.find(infrastructure, environment.kubernetes_version)
            if infrastructure and (found is None or found.state == "refused"):
                problem = value.problem(infrastructure, environment.kubernetes_version)
                raise ValueError(f"environment {name} has a version that is not offered: {problem}")
        return value

    @field_validator("networks", mode="after")
    @classmethod
    def _leaves_shared_ranges_alone(cls, value: Networks, info: ValidationInfo) -> Networks:
        shared = cast("ClusterNetwork | None", info.data.get("cluster_network"))
        for what, network in (("pods", shared.pods), ("services", shared.services)) if shared else ():
            pools = value.pods.pools if what == "pods" else value.services.pools
            # With pools nobody gets the shared one.
            if not pools and (other := value.reserved_by(network)):
                raise ValueError(
                    f"reserved: {other} overlaps with clusterNetwork.{what}, {network}, which clusters have where "
                    f"networks.{what} has no pools; change one of them"
                )
        return value

    @field_validator("kvm", mode="after")
    @classmethod
    def _leaves_room_for_machines(cls, value: Kvm, info: ValidationInfo) -> Kvm:
        shared = cast("ClusterNetwork | None", info.data.get("cluster_network"))
        pools = cast("Networks | None", info.data.get("networks"))
        if shared is not None and pools is not None:
            taken = {"clusterNetwork.pods": (shared.pods,), "clusterNetwork.services": (shared.services,)}
            taken |= {"networks.pods.pools": pools.pods.pools, "networks.services.pools": pools.services.pools}
            kvmhosts.keep_apart(value.hosts_for(str(info.data.get("infrastructure", ""))), taken)
        return value

    def kvm_hosts(self) -> dict[str, KvmHost]:
        """Those of the file; this machine, where its machines are of kvm and the file names none."""
        return self.kvm.hosts_for(self.infrastructure)

    def environment(self, name: str) -> Environment | None:
        """By its name, by an alias, or as that of a pull request."""
        canonical = self.environment_name(name)
        is_preview = canonical and canonical not in self.environments
        return self.environments.get(str(self.previews.like) if is_preview else canonical)

    def environment_name(self, name: str) -> str:
        """What it is really called; empty where there is none of that name."""
        if name in self.environments:
            return name
        if self.has_previews and PREVIEW.fullmatch(name):
            return name
        return next((each for each, environment in self.environments.items() if name in environment.aliases), "")

    @property
    def has_previews(self) -> bool:
        return self.previews.like in self.environments

    def environment_names(self) -> tuple[str, ...]:
        """All that a new claim may use, without previews."""
        enabled = {name: each for name, each in self.environments.items() if each.enabled}
        return (*enabled, *(alias for each in enabled.values() for alias in each.aliases))

    def environment_aliases(self) -> dict[str, str]:
        """Other names, and what each stands for."""
        return {alias: name for name, each in self.environments.items() for alias in each.aliases}

    def ingress_domain(self, name: str) -> str:
        """`dev.steelyard.dev`; for production the platform's domain itself, unless the file says otherwise."""
        environment = self.environment(name)
        own = environment.ingress_domain if environment is not None else None
        return own or (self.domain if name == "production" else f"{name}.{self.domain}")
