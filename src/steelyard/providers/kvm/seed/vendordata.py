"""The script that a machine runs as root at its first start, before what its bootstrap data has it run.

It brings about what the provider has promised and what nobody but the machine can do: file systems on its disks,
directories of the host, servers to ask, the address of the cluster's API. It can be run again at any point.
"""

from __future__ import annotations

import shlex
from typing import Final

from steelyard.frozen import frozen
from steelyard.providers.kvm.seed import watching

_MOUNTS: Final = {
    "containers": "/var/lib/containerd",
    "kubelet": "/var/lib/kubelet",
    "etcd": "/var/lib/etcd",
}


@frozen
class Mounted:
    """A directory of the host."""

    tag: str
    path: str
    is_read_only: bool = False


@frozen
class Router:
    """What the control-plane machines of a cluster share: the address of its API."""

    address: str
    port: int
    router_id: int
    priority: int
    """At most 149: as many as that are left for one whose API server is well."""


@frozen
class Told:
    host_name: str
    mac: str
    uuid: str
    disks: tuple[str, ...] = ()
    """Serials of those that are to be mounted."""
    shares: tuple[Mounted, ...] = ()
    dns_servers: tuple[str, ...] = ()
    ntp_servers: tuple[str, ...] = ()
    initiator: str = ""
    router: Router | None = None
    is_emulated: bool = False


def script(told: Told) -> str:
    # First, as it is to tell of the others, too.
    parts = [_HEAD, watching.script(told.uuid)]
    if told.disks:
        parts.append(_DISKS)
        parts += [f"disk {serial} {_MOUNTS[serial]}" for serial in told.disks]
        parts.append("systemctl start containerd.service || true\n")
    if told.shares:
        parts.append(_SHARES)
        parts += [_share(each) for each in told.shares]
    if told.dns_servers:
        parts.append(_dns(told.dns_servers))
    if told.ntp_servers:
        parts.append(_ntp(told.ntp_servers))
    if told.initiator:
        parts.append(_file("/etc/iscsi/initiatorname.iscsi", f"InitiatorName={told.initiator}\n", mode="0600"))
        parts.append("systemctl try-restart iscsid.service || true\n")
    if told.router is not None:
        parts.append(_keepalived(told, told.router))
    return "\n".join(parts)


_HEAD: Final = """#!/bin/sh
# What this machine's KVMMachine says. Run once, by cloud-init, before what its bootstrap data has it run.
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""
_DISKS: Final = """# Each keeps what the image has in its place. Without its disk the machine must not start: etcd would
# begin anew.
disk() {
    mountpoint -q "$2" && return 0
    device=/dev/disk/by-id/virtio-$1
    udevadm settle || true
    blkid "$device" >/dev/null 2>&1 || mkfs.ext4 -q -L "sy-$1" "$device"
    systemctl stop kubelet.service containerd.service 2>/dev/null || true
    mkdir -p "$2"
    mkdir -p "/run/steelyard/$1"
    mount "$device" "/run/steelyard/$1"
    cp -a "$2/." "/run/steelyard/$1/"
    umount "/run/steelyard/$1"
    grep -q "^LABEL=sy-$1 " /etc/fstab || echo "LABEL=sy-$1 $2 ext4 defaults 0 2" >>/etc/fstab
    mount "$2"
}"""
_SHARES: Final = """share() {
    mountpoint -q "$2" && return 0
    mkdir -p "$2"
    options=trans=virtio,version=9p2000.L,msize=262144,cache=mmap,$3
    grep -q "^$1 " /etc/fstab || echo "$1 $2 9p $options 0 0" >>/etc/fstab
    mount "$2"
}
mkdir -p /etc/modules-load.d
printf '9p\\n9pnet_virtio\\n' >/etc/modules-load.d/steelyard-9p.conf
modprobe -a 9p 9pnet_virtio || true"""


def _share(share: Mounted) -> str:
    return f"share {shlex.quote(share.tag)} {shlex.quote(share.path)} {'ro' if share.is_read_only else 'rw'}"


def _file(path: str, content: str, *, mode: str = "0644") -> str:
    """Content must not hold the word that ends it, which no value of a KVMMachine can."""
    return (
        f"mkdir -p {shlex.quote(path.rpartition('/')[0])}\n"
        f"cat >{shlex.quote(path)} <<'END_OF_STEELYARD'\n{content}END_OF_STEELYARD\n"
        f"chmod {mode} {shlex.quote(path)}\n"
    )


def _dns(servers: tuple[str, ...]) -> str:
    resolved = _file("/etc/systemd/resolved.conf.d/steelyard.conf", f"[Resolve]\nDNS={' '.join(servers)}\nDomains=~.\n")
    plain = "".join(f"nameserver {each}\n" for each in servers)
    return (
        "if systemctl is-enabled -q systemd-resolved.service 2>/dev/null; then\n"
        f"{resolved}systemctl restart systemd-resolved.service\n"
        "else\n"
        "rm -f /etc/resolv.conf\n"
        f"{_file('/etc/resolv.conf', plain)}"
        "file=/etc/dhcp/dhclient.conf\n"
        "if [ -e $file ] && ! grep -q '^supersede domain-name-servers' $file; then\n"
        f"echo 'supersede domain-name-servers {', '.join(servers)};' >>$file\n"
        "fi\nfi\n"
    )


def _ntp(servers: tuple[str, ...]) -> str:
    chrony = _file("/etc/chrony/sources.d/steelyard.sources", "".join(f"server {each} iburst\n" for each in servers))
    timesyncd = _file("/etc/systemd/timesyncd.conf.d/steelyard.conf", f"[Time]\nNTP={' '.join(servers)}\n")
    return (
        f"if [ -d /etc/chrony ]; then\n{chrony}systemctl try-restart chrony.service || true\n"
        f"else\n{timesyncd}systemctl try-restart systemd-timesyncd.service || true\nfi\n"
    )


_HEALTH: Final = """#!/bin/sh
# Whether the API server of this machine can be used.
if command -v curl >/dev/null 2>&1; then
    exec curl --silent --fail --insecure --max-time 8 --output /dev/null https://127.0.0.1:{port}/readyz
fi
exec timeout 8 bash -c '</dev/tcp/127.0.0.1/{port}'
"""
_INTERVAL: Final = 3
_EMULATED_INTERVAL: Final = 12
"""To ask takes an emulated processor a whole second; a lost machine is noticed half a minute later."""
_CONFIGURATION: Final = """global_defs {{
    router_id {name}
    enable_script_security
    script_user root
}}
vrrp_script apiserver {{
    script "/etc/keepalived/apiserver"
    interval {interval}
    timeout 10
    fall 3
    rise 2
    # Added while it is well. Taking the address away from one that is not would leave the first machine without it
    # while its API server is being made.
    weight 100
}}
vrrp_instance api {{
    state BACKUP
    interface INTERFACE
    virtual_router_id {router_id}
    priority {priority}
    advert_int 2
    virtual_ipaddress {{
        {address}/32
    }}
    track_script {{
        apiserver
    }}
}}
"""


def _keepalived(told: Told, router: Router) -> str:
    configuration = _CONFIGURATION.format(
        name=told.host_name,
        router_id=router.router_id,
        priority=router.priority,
        address=router.address,
        interval=_EMULATED_INTERVAL if told.is_emulated else _INTERVAL,
    )
    return (
        _file("/etc/keepalived/apiserver", _HEALTH.format(port=router.port), mode="0755")
        + _file("/etc/keepalived/keepalived.conf", configuration)
        + "for each in /sys/class/net/*; do\n"
        f'    if [ "$(cat "$each/address" 2>/dev/null)" = {told.mac} ]; then\n'
        '        sed -i "s/INTERFACE/${each##*/}/" /etc/keepalived/keepalived.conf\n'
        "    fi\n"
        "done\n"
        "systemctl enable keepalived.service\n"
        "systemctl restart keepalived.service\n"
    )
