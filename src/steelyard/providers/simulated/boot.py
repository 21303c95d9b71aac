"""What a simulated machine finds in its bootstrap data: the cloud-config of a kubeadm machine, read for meaning.

The simulator runs no shell. It reads the same files a real machine would write to disk, takes from them what decides
how the node comes up (authority, kubeadm's configuration, join token), and acts on that. So a mistake in the bootstrap
data shows here too, with the file's name.

    #cloud-config
    write_files:
      - path: /run/kubeadm/kubeadm.yaml        ->  Init(authority=..., node_name=...)
      - path: /run/kubeadm/kubeadm-join-config.yaml  ->  Join(token=..., authority_hashes=(...), control_plane=...)
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from steelyard.frozen import frozen
from steelyard.kube import objects, pki, plainyaml
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair

_INIT_CONFIGURATION = "/run/kubeadm/kubeadm.yaml"
_JOIN_CONFIGURATION = "/run/kubeadm/kubeadm-join-config.yaml"
_AUTHORITY_CERTIFICATE = "/etc/kubernetes/pki/ca.crt"
_AUTHORITY_KEY = "/etc/kubernetes/pki/ca.key"
_ETCD_CERTIFICATE = "/etc/kubernetes/pki/etcd/ca.crt"
_ETCD_KEY = "/etc/kubernetes/pki/etcd/ca.key"
_SERVICE_ACCOUNT_KEY = "/etc/kubernetes/pki/sa.key"
_UNINITIALIZED = "node.cluster.x-k8s.io/uninitialized"


class BadBootstrapData(Exception):
    """The bootstrap data cannot bring up a node; the message says which part of it and why."""


@frozen
class Init:
    """The first control-plane machine: it brings the authority and starts the cluster's API."""

    node_name: str
    authority: KeyPair
    version: str
    service_cidr: str
    service_account_key: bytes = b""
    etcd_authority: KeyPair | None = None
    """None where etcd is elsewhere. Not looked at yet: most clusters have one member, which nobody asks."""
    configuration: Object = field(default_factory=Object)
    """kubeadm's ClusterConfiguration."""


@frozen
class Join:
    """Any further machine. A control-plane one also carries the authority, as it starts an API server too."""

    node_name: str
    token: str
    authority_hashes: tuple[str, ...]
    endpoint: str
    authority: KeyPair | None
    service_account_key: bytes = b""
    etcd_authority: KeyPair | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """That the kubelet is told to give its Node."""
    taints: Sequence[Object] = ()

    @property
    def joins_control_plane(self) -> bool:
        return self.authority is not None


def read(bootstrap_data: bytes, *, default_node_name: str) -> Init | Join:
    """The node that this bootstrap data asks for; a node name left to cloud-init becomes the machine's own."""
    files = _files(bootstrap_data)
    if _INIT_CONFIGURATION in files:
        documents = {document.get("kind"): document for document in _documents(files, _INIT_CONFIGURATION)}
        cluster = objects.mapping(documents.get("ClusterConfiguration"))
        return Init(
            node_name=_node_name(objects.mapping(documents.get("InitConfiguration")), default_node_name),
            authority=_authority(files),
            version=str(cluster.get("kubernetesVersion") or ""),
            service_cidr=_networks(str(objects.at(cluster, "networking", "serviceSubnet") or "")),
            service_account_key=files.get(_SERVICE_ACCOUNT_KEY, "").encode(),
            etcd_authority=_etcd_authority(files),
            configuration=cluster,
        )
    if _JOIN_CONFIGURATION in files:
        document = next(_documents(files, _JOIN_CONFIGURATION), Object())
        discovery = objects.mapping(objects.at(document, "discovery", "bootstrapToken"))
        token = str(discovery.get("token") or "")
        if not token:
            raise BadBootstrapData(f"{_JOIN_CONFIGURATION} has no discovery.bootstrapToken.token")
        return Join(
            node_name=_node_name(document, default_node_name),
            token=token,
            authority_hashes=tuple(str(value) for value in objects.sequence(discovery.get("caCertHashes"))),
            endpoint=str(discovery.get("apiServerEndpoint") or ""),
            authority=_authority(files) if "controlPlane" in document else None,
            service_account_key=files.get(_SERVICE_ACCOUNT_KEY, "").encode(),
            etcd_authority=_etcd_authority(files),
            labels=_labels(document),
            taints=_taints(document),
        )
    raise BadBootstrapData(f"the cloud-config writes neither {_INIT_CONFIGURATION} nor {_JOIN_CONFIGURATION}")


def _files(bootstrap_data: bytes) -> dict[str, str]:
    try:
        config = objects.mapping(plainyaml.load(bootstrap_data))
    except plainyaml.Unreadable as error:
        raise BadBootstrapData(f"the cloud-config is not valid YAML: {error}") from error
    return {
        str(entry.get("path") or ""): _content(entry)
        for entry in map(objects.mapping, objects.sequence(config.get("write_files")))
    }


def _content(entry: Object) -> str:
    content = str(entry.get("content") or "")
    encoding = str(entry.get("encoding") or "")
    if encoding in ("base64", "b64"):
        try:
            return base64.b64decode(content).decode()
        except (binascii.Error, ValueError) as error:
            raise BadBootstrapData(f"the content of {entry.get('path')} is not base64 of text: {error}") from error
    return content


def _documents(files: dict[str, str], path: str) -> Iterator[Object]:
    try:
        return map(objects.mapping, plainyaml.load_all(files[path]))
    except plainyaml.Unreadable as error:
        raise BadBootstrapData(f"{path} is not valid YAML: {error}") from error


def _authority(files: dict[str, str]) -> KeyPair:
    certificate, key = files.get(_AUTHORITY_CERTIFICATE), files.get(_AUTHORITY_KEY)
    if not certificate or not key:
        raise BadBootstrapData(f"a control-plane machine needs {_AUTHORITY_CERTIFICATE} and {_AUTHORITY_KEY}")
    return _checked(KeyPair(certificate.encode(), key.encode()), _AUTHORITY_CERTIFICATE, _AUTHORITY_KEY)


def _etcd_authority(files: dict[str, str]) -> KeyPair | None:
    certificate, key = files.get(_ETCD_CERTIFICATE), files.get(_ETCD_KEY)
    return KeyPair(certificate.encode(), key.encode()) if certificate and key else None


def etcd_authority(node: Init | Join) -> KeyPair | None:
    """Good for signing."""
    found = node.etcd_authority
    return _checked(found, _ETCD_CERTIFICATE, _ETCD_KEY) if found is not None else None


def _checked(pair: KeyPair, certificate: str, key: str) -> KeyPair:
    """`certificate` and `key` are the files that it is from."""
    try:
        pki.check(pair)
    except pki.Unusable as error:
        raise BadBootstrapData(f"{certificate if error.part == 'certificate' else key} {error}") from error
    return pair


def _networks(cidrs: str) -> str:
    """One, or two separated by a comma, one for each family of addresses: `10.96.0.0/12,fd00::/108`."""
    try:
        networks = [ipaddress.ip_network(cidr.strip(), strict=False) for cidr in cidrs.split(",") if cidr.strip()]
        return ",".join(map(str, networks))
    except ValueError as error:
        raise BadBootstrapData(f"the serviceSubnet in {_INIT_CONFIGURATION} is no network: {error}") from error


def _labels(document: Object) -> dict[str, str]:
    """kubeadm's configuration has the kubelet's arguments as a list or, in older versions, as a map."""
    arguments: Any = objects.at(document, "nodeRegistration", "kubeletExtraArgs")
    listed = [objects.mapping(each) for each in objects.sequence(arguments)]
    named = {str(each.get("name")): each.get("value") for each in listed} or objects.mapping(arguments)
    pairs = str(named.get("node-labels") or "").split(",")
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs) if key}


def _taints(document: Object) -> tuple[Object, ...]:
    """Without the one that goes again as soon as the Node is known to its Machine: here nothing comes in between."""
    listed = map(objects.mapping, objects.sequence(objects.at(document, "nodeRegistration", "taints")))
    return tuple(each for each in listed if each.get("key") != _UNINITIALIZED)


def _node_name(document: Object, default: str) -> str:
    name = str(objects.at(document, "nodeRegistration", "name") or "")
    is_left_to_cloud_init = not name or "{{" in name
    return default if is_left_to_cloud_init else name
