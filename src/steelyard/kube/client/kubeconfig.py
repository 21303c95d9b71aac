"""Kubeconfigs: read, build, merge, write.

There are two doors. `load` reads a file that its owner wrote, and keeps to what kubectl does: it follows paths,
relative ones from the file; of several files the first that says something wins. `parse` reads a text that came from
elsewhere (a Secret, a request) and takes only what is inside of it: nothing that names a file, a program or a proxy,
and no server that is to be believed unseen.

Writing is atomic and leaves a file that only its owner can read, since it holds a key or a token.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from steelyard import durable
from steelyard.frozen import frozen
from steelyard.kube import foreignconfig
from steelyard.kube.foreignconfig import InvalidKubeconfig
from steelyard.kube.objects import Object

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a kubelet puts a pod's credentials."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@frozen
class Cluster:
    server: str
    certificate_authority: str = ""
    """A path; `certificate_authority_data` (PEM) has precedence."""
    certificate_authority_data: bytes = b""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


@frozen
class User:
    client_certificate: str = ""
    client_certificate_data: bytes = b""
    client_key: str = ""
    client_key_data: bytes = b""
    token: str = ""
    token_file: str = ""
    unsupported: str = ""
    """A way to authenticate that Steelyard does not know, by its key in the file: `exec`, `auth-provider`, …"""


@frozen
class Context:
    cluster: str
    user: str
    namespace: str = ""


@frozen
class Connection:
    """What a client needs of a kubeconfig, with every file read."""

    server: str
    cluster: str = ""
    """What the kubeconfig calls the cluster."""
    certificate_authority: bytes = b""
    client_certificate: bytes = b""
    client_key: bytes = b""
    token: str = ""
    token_file: str = ""
    """Read again from time to time, since such tokens are rotated."""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    namespace: str = "default"


@frozen
class Kubeconfig:
    clusters: Mapping[str, Cluster]
    users: Mapping[str, User]
    contexts: Mapping[str, Context]
    current_context: str = ""

    def resolve(self, context: str = "") -> Connection:
        """The connection of a context, by default of the current one."""
        name = context or self.current_context
        if not name:
            raise InvalidKubeconfig("the kubeconfig has no current-context: name the context to use")
        chosen = self.contexts.get(name)
        if chosen is None:
            raise InvalidKubeconfig(f'the kubeconfig has no context "{name}", only: {_listed(self.contexts)}')
        cluster = self.clusters.get(chosen.cluster)
        if cluster is None:
            raise InvalidKubeconfig(f'context "{name}" names the cluster "{chosen.cluster}", which is missing')
        user = self.users.get(chosen.user) if chosen.user else User()
        if user is None:
            raise InvalidKubeconfig(f'context "{name}" names the user "{chosen.user}", which is missing')
        if user.unsupported:
            raise InvalidKubeconfig(
                f'user "{chosen.user}" authenticates by {user.unsupported}, which is not supported: '
                "use a client certificate or a token"
            )
        if not cluster.server:
            raise InvalidKubeconfig(f'cluster "{chosen.cluster}" has no server address')
        return Connection(
            server=cluster.server.rstrip("/"),
            cluster=chosen.cluster,
            certificate_authority=_content(cluster.certificate_authority_data, cluster.certificate_authority),
            client_certificate=_content(user.client_certificate_data, user.client_certificate),
            client_key=_content(user.client_key_data, user.client_key),
            token=user.token,
            token_file=user.token_file,
            insecure_skip_tls_verify=cluster.insecure_skip_tls_verify,
            tls_server_name=cluster.tls_server_name,
            proxy_url=cluster.proxy_url,
            namespace=chosen.namespace or "default",
        )

    def to_object(self) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster_entry(each)} for name, each in self.clusters.items()],
            "users": [{"name": name, "user": _user_out(each)} for name, each in self.users.items()],
            "contexts": [{"name": name, "context": _context_out(each)} for name, each in self.contexts.items()],
            "current-context": self.current_context,
        }

    def to_yaml(self) -> str:
        return yaml.dump(self.to_object(), Dumper=_DUMPER, sort_keys=False, width=1_000_000)


def of_service_account(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Connection | None:
    """That of the pod that this process runs in; None outside of one."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    token = folder / "token"
    if not (host and port and token.exists()):
        return None
    address = f"[{host}]" if ":" in host else host
    return Connection(
        f"https://{address}:{port}",
        certificate_authority=(folder / "ca.crt").read_bytes(),
        token_file=str(token),
        namespace=(folder / "namespace").read_text(encoding="utf-8").strip() or "default",
    )


def build(
    name: str,
    server: str,
    *,
    certificate_authority: bytes = b"",
    user: str = "",
    client_certificate: bytes = b"",
    client_key: bytes = b"",
    token: str = "",
    context: str = "",
    namespace: str = "",
) -> Kubeconfig:
    """One cluster, one user and the context that joins them, by default all named after the cluster."""
    user = user or f"{name}-admin"
    context = context or f"{user}@{name}"
    return Kubeconfig(
        clusters={name: Cluster(server, certificate_authority_data=certificate_authority)},
        users={user: User(client_certificate_data=client_certificate, client_key_data=client_key, token=token)},
        contexts={context: Context(name, user, namespace)},
        current_context=context,
    )


def parse(source: str | bytes | Object) -> Kubeconfig:
    """A kubeconfig from elsewhere, with everything inside of it (`foreignconfig`). Raises InvalidKubeconfig."""
    if isinstance(source, (str, bytes)):
        return _read(foreignconfig.document(source), None)
    foreignconfig.check(source)
    return _read(source, None)


def load(path: Path) -> Kubeconfig:
    """A file of somebody who may read every file that it names."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidKubeconfig(f"cannot read the kubeconfig {path}: {error.strerror}") from error
    try:
        return _read(_load_own(text), path.resolve().parent)
    except InvalidKubeconfig as error:
        raise InvalidKubeconfig(f"{path}: {error}") from error


def load_default(environment: Mapping[str, str] | None = None) -> Kubeconfig:
    """What kubectl would use: the files of KUBECONFIG merged, else `~/.kube/config`; missing files count as empty."""
    environment = os.environ if environment is None else environment
    return merge([load(path) for path in default_files(environment) if path.exists()])


def default_files(environment: Mapping[str, str]) -> list[Path]:
    """The files that kubectl would read, whether they exist or not: those of KUBECONFIG, else `~/.kube/config`."""
    listed = [Path(part) for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    return listed or [Path(environment.get("HOME") or Path.home()) / ".kube" / "config"]


def merge(configs: Sequence[Kubeconfig]) -> Kubeconfig:
    """Of entries with the same name, and of current contexts, the first counts."""
    clusters: dict[str, Cluster] = {}
    users: dict[str, User] = {}
    contexts: dict[str, Context] = {}
    for config in reversed(configs):
        clusters |= config.clusters
        users |= config.users
        contexts |= config.contexts
    current = next((config.current_context for config in configs if config.current_context), "")
    return Kubeconfig(clusters, users, contexts, current)


def with_current_context(config: Kubeconfig, context: str) -> Kubeconfig:
    return replace(config, current_context=context)


def write(path: Path, config: Kubeconfig) -> None:
    """Replaces the file in one step; nobody else can read it, not even for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    durable.write(path, config.to_yaml().encode())


_Entry = TypeVar("_Entry")


def _read(document: Object, directory: Path | None) -> Kubeconfig:
    """`directory` is what relative paths are relative to."""
    return Kubeconfig(
        clusters={
            name: _cluster_in(each, directory) for name, each in foreignconfig.named(document, "clusters", "cluster")
        },
        users={name: _user_in(each, directory) for name, each in foreignconfig.named(document, "users", "user")},
        contexts={name: _context_in(each) for name, each in foreignconfig.named(document, "contexts", "context")},
        current_context=_text(document, "current-context"),
    )


def _load_own(text: bytes) -> Object:
    try:
        return foreignconfig.mapping(yaml.load(text, Loader=_LOADER))  # noqa: S506 (the safe loader, in C)
    except yaml.YAMLError as error:
        raise InvalidKubeconfig(f"the kubeconfig is not valid YAML: {error}") from error


def _text(entry: Object, key: str) -> str:
    value = entry.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidKubeconfig(f"{key} must be text, not {type(value).__name__}")
    return value


def _data(entry: Object, key: str) -> bytes:
    try:
        return base64.b64decode(_text(entry, key), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidKubeconfig(f"{key} is not base64: {error}") from error


def _path(entry: Object, key: str, directory: Path | None) -> str:
    text = _text(entry, key)
    return str(directory / text) if text and directory else text


def _cluster_in(entry: Object, directory: Path | None) -> Cluster:
    return Cluster(
        server=_text(entry, "server"),
        certificate_authority=_path(entry, "certificate-authority", directory),
        certificate_authority_data=_data(entry, "certificate-authority-data"),
        insecure_skip_tls_verify=bool(entry.get("insecure-skip-tls-verify")),
        tls_server_name=_text(entry, "tls-server-name"),
        proxy_url=_text(entry, "proxy-url"),
    )


def _user_in(entry: Object, directory: Path | None) -> User:
    return User(
        client_certificate=_path(entry, "client-certificate", directory),
        client_certificate_data=_data(entry, "client-certificate-data"),
        client_key=_path(entry, "client-key", directory),
        client_key_data=_data(entry, "client-key-data"),
        token=_text(entry, "token"),
        token_file=_path(entry, "tokenFile", directory),
        unsupported=next((key for key in foreignconfig.UNSUPPORTED if entry.get(key)), ""),
    )


def _context_in(entry: Object) -> Context:
    return Context(_text(entry, "cluster"), _text(entry, "user"), _text(entry, "namespace"))


def cluster_entry(cluster: Cluster) -> Object:
    """As it stands in a file."""
    return _present(
        {
            "certificate-authority": cluster.certificate_authority,
            "certificate-authority-data": _encoded(cluster.certificate_authority_data),
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "proxy-url": cluster.proxy_url,
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
        }
    )


def _user_out(user: User) -> Object:
    return _present(
        {
            "client-certificate": user.client_certificate,
            "client-certificate-data": _encoded(user.client_certificate_data),
            "client-key": user.client_key,
            "client-key-data": _encoded(user.client_key_data),
            "token": user.token,
            "tokenFile": user.token_file,
        }
    )


def _context_out(context: Context) -> Object:
    return _present({"cluster": context.cluster, "namespace": context.namespace, "user": context.user})


def _present(fields: Object) -> Object:
    return {key: value for key, value in fields.items() if value}


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _content(data: bytes, path: str) -> bytes:
    if data or not path:
        return data
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidKubeconfig(f"cannot read {path}: {error.strerror}") from error


def _listed(names: Mapping[str, _Entry]) -> str:
    return ", ".join(names) or "none"
