"""How containerd of a machine is told where images come from: files of a KubeadmConfig, written before kubeadm runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.compose.shape import Network
from steelyard.kube.objects import Object
from steelyard.settings.kvm import ANY_REGISTRY, Proxy

_HOSTS: Final = "/etc/containerd/certs.d/{registry}/hosts.toml"
_ALL_OTHERS: Final = "_default"
_SERVERS: Final = {"docker.io": "registry-1.docker.io"}
"""Registries that are not served under their own name."""
_DROP_IN: Final = "/etc/systemd/system/containerd.service.d/http-proxy.conf"
_ITSELF: Final = ("localhost", "127.0.0.0/8", "::1")


def bootstrap(mirrors: Mapping[str, Sequence[str]], proxy: Proxy, network: Network) -> Object:
    """Nothing where there is nothing to tell."""
    files = [_mirrored(registry, urls) for registry, urls in sorted(mirrors.items())]
    if not (proxy.http or proxy.https):
        return {"files": files} if files else {}
    # The mirrors are read at each pull; the environment is that of the process, which runs already.
    commands = ["systemctl daemon-reload", "systemctl restart containerd"]
    return {"files": [*files, _file(_DROP_IN, _proxied(proxy, network))], "preKubeadmCommands": commands}


def _mirrored(registry: str, urls: Sequence[str]) -> Object:
    lines = [] if registry == ANY_REGISTRY else [f'server = "https://{_SERVERS.get(registry, registry)}"', ""]
    for url in urls:
        address = url.rstrip("/")
        lines += [f'[host."{address}"]', '  capabilities = ["pull", "resolve"]']
        if "/" in address.partition("://")[2]:
            lines.append("  override_path = true")
    name = _ALL_OTHERS if registry == ANY_REGISTRY else registry
    return _file(_HOSTS.format(registry=name), "\n".join([*lines, ""]))


def _proxied(proxy: Proxy, network: Network) -> str:
    values = {
        "HTTP_PROXY": proxy.http,
        "HTTPS_PROXY": proxy.https,
        "NO_PROXY": ",".join((*_ITSELF, network.pods, network.services, *proxy.exceptions)),
    }
    lines = [f'Environment="{name}={value}"' for name, value in values.items() if value]
    return "\n".join(["[Service]", *lines, ""])


def _file(path: str, content: str) -> Object:
    return {"path": path, "owner": "root:root", "permissions": "0644", "content": content}
