"""What a server does when it first starts, as cloud-init reads it. Nothing in it is secret.

The keys of the cluster and the address of its API are on a disk of their own, which the platform fills in. They are
looked at before every start of k3s: keys are taken over once, so that a server never changes its authority; the address
is taken over each time, so that the certificate of the API follows it.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator
from typing import Final

import orjson

from steelyard.api.k3s import API_PORT
from steelyard.compose.shape import Shape
from steelyard.kube.objects import Object
from steelyard.settings.k3s import K3s

KEYS_DISK: Final = "k3s-keys"
"""Its serial number, by which udev names it."""
FIRST: Final = "-0"
"""What the name of the server ends in that starts the cluster."""

_MANIFESTS: Final = "/var/lib/rancher/k3s/server/manifests"
_KEYS_SCRIPT: Final = "/usr/local/sbin/steelyard-k3s-keys"
_INSTALL_SCRIPT: Final = "/usr/local/sbin/steelyard-k3s-install"

_KEYS: Final = f"""\
#!/bin/sh
# Before every start of k3s: the keys of the cluster, once, and where its API is reached, each time.
set -eu
umask 077
keys=/run/{KEYS_DISK}
etc=/etc/rancher/k3s
tls=/var/lib/rancher/k3s/server/tls
mkdir -p "$keys" "$etc/config.yaml.d"
mountpoint -q "$keys" || mount -o ro /dev/disk/by-id/virtio-{KEYS_DISK} "$keys"

place() {{
  [ -e "$2" ] || {{ install -D -m 0600 "$keys/$1" "$2.new" && mv "$2.new" "$2"; }}
}}
place token "$etc/token"
for kind in crt key; do
  place ca.$kind "$tls/server-ca.$kind"
  place ca.$kind "$tls/client-ca.$kind"
  place proxy.$kind "$tls/request-header-ca.$kind"
  place etcd.$kind "$tls/etcd/server-ca.$kind"
  place etcd.$kind "$tls/etcd/peer-ca.$kind"
done
place sa.key "$tls/service.key"

printf 'tls-san:\\n- "%s"\\n- "%s"\\n' "$(cat "$keys/address")" "$(cat "$keys/service")" \\
  >"$etc/config.yaml.d/address.yaml"

# Who starts the cluster and who joins is decided once. Where a server answers, nobody starts another cluster.
role="$etc/config.yaml.d/role.yaml"
[ ! -e "$role" ] || exit 0
service="$(cat "$keys/service")"
case "$service" in
  *:*) server="https://[$service]:{API_PORT}" ;;
  *) server="https://$service:{API_PORT}" ;;
esac
if curl -sf --max-time 10 --cacert "$keys/ca.crt" -o /dev/null "$server/ping"; then
  printf 'server: "%s"\\n' "$server" >"$role"
elif [ "$(hostname | sed 's/.*\\(-[0-9]*\\)$/\\1/')" = "{FIRST}" ]; then
  echo 'cluster-init: true' >"$role"
else
  echo "waiting for the first server" >&2
  exit 1
fi
"""
_UNIT: Final = f"""\
[Service]
ExecStartPre={_KEYS_SCRIPT}
"""


def user_data(shape: Shape, settings: K3s, ingress_class: str, dns: Object | None) -> str:
    """`dns` is what the cluster's DNS is told besides what it knows."""
    files = _files(shape, settings, ingress_class, dns)
    return "".join(("#cloud-config\n", *_users(settings), *files, f"runcmd:\n- [{_INSTALL_SCRIPT}]\n"))


def _users(settings: K3s) -> Iterator[str]:
    if not settings.ssh_authorized_keys:
        return
    yield f"users:\n- name: {_text(settings.user)}\n  groups: sudo\n  shell: /bin/bash\n  lock_passwd: true\n"
    yield '  sudo: "ALL=(ALL) NOPASSWD:ALL"\n  ssh_authorized_keys:\n'
    yield from (f"  - {_text(key)}\n" for key in settings.ssh_authorized_keys)


def _files(shape: Shape, settings: K3s, ingress_class: str, dns: Object | None) -> Iterator[str]:
    yield "write_files:\n"
    yield _file("/etc/rancher/k3s/config.yaml", _config(shape, ingress_class))
    yield _file(_KEYS_SCRIPT, _KEYS, mode="0755")
    yield _file(_INSTALL_SCRIPT, _install(shape, settings), mode="0755")
    yield _file("/etc/systemd/system/k3s.service.d/keys.conf", _UNIT, mode="0644")
    if ingress_class == "nginx":
        yield _file(f"{_MANIFESTS}/ingress-nginx.yaml", _nginx(settings))
    if dns is not None:
        yield _file(f"{_MANIFESTS}/coredns-custom.json", f"{orjson.dumps(dns).decode()}\n")


def _config(shape: Shape, ingress_class: str) -> str:
    disabled = "" if ingress_class == "traefik" else "disable:\n- traefik\n"
    return (
        f"token-file: /etc/rancher/k3s/token\n"
        f'write-kubeconfig-mode: "0600"\n'
        f"cluster-cidr: {_text(shape.network.pods)}\n"
        f"service-cidr: {_text(shape.network.services)}\n"
        f"{disabled}"
    )


def _install(shape: Shape, settings: K3s) -> str:
    return f"""\
#!/bin/sh
# Until it has worked: the network may come later than this does.
export INSTALL_K3S_VERSION={shlex.quote(settings.release(shape.version))} INSTALL_K3S_SKIP_START=true
until curl -sfL -o /run/k3s-install.sh {shlex.quote(settings.installer)} && sh /run/k3s-install.sh server; do
  sleep 10
done
systemctl start --no-block k3s
"""


def _nginx(settings: K3s) -> str:
    """k3s installs what it finds as a HelmChart among its manifests."""
    return f"""\
apiVersion: helm.cattle.io/v1
kind: HelmChart
metadata:
  name: ingress-nginx
  namespace: kube-system
spec:
  chart: ingress-nginx
  repo: {_text(settings.nginx.repository)}
  version: {_text(settings.nginx.version)}
  targetNamespace: ingress-nginx
  createNamespace: true
  valuesContent: |-
    controller:
      ingressClassResource:
        name: nginx
        default: true
      watchIngressWithoutClass: true
"""


def _file(path: str, content: str, *, mode: str = "0600") -> str:
    return f'- path: {path}\n  permissions: "{mode}"\n  content: |\n{textwrap.indent(content, "    ")}'


def _text(value: str) -> str:
    """In quotes, which YAML reads as JSON does."""
    return orjson.dumps(value).decode()
