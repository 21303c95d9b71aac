"""A machine's cloud-config: files to write, commands to run, and the kubeadm call in their middle.

It names the same files and runs the same commands as upstream's, which machine images and providers rely on, up to the
sentinel file that says the bootstrap has succeeded. The jinja header lets cloud-init fill in `{{ ds.meta_data... }}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from steelyard.controllers.lifecycle.certificates import File
from steelyard.kube import objects
from steelyard.kube.objects import Object

INIT_CONFIGURATION = "/run/kubeadm/kubeadm.yaml"
JOIN_CONFIGURATION = "/run/kubeadm/kubeadm-join-config.yaml"
_HEADER = "## template: jinja\n#cloud-config\n\n"
_SENTINEL = "echo success > /run/cluster-api/bootstrap-success.complete"
_PLACEHOLDER = File("/run/cluster-api/placeholder", "Makes the directory that the sentinel file goes into.")
_USER_FIELDS = {
    "name": "name",
    "gecos": "gecos",
    "groups": "groups",
    "homeDir": "homedir",
    "shell": "shell",
    "passwd": "passwd",
    "primaryGroup": "primary_group",
    "lockPassword": "lock_passwd",
    "sudo": "sudo",
    "sshAuthorizedKeys": "ssh_authorized_keys",
}
_FILESYSTEM_FIELDS = {
    "device": "device",
    "filesystem": "filesystem",
    "label": "label",
    "partition": "partition",
    "overwrite": "overwrite",
    "replaceFS": "replace_fs",
    "extraOpts": "extra_opts",
}


def init(spec: Object, files: Sequence[File], configuration: str) -> str:
    """For the machine that starts the cluster."""
    return _render(
        spec, [*files, File(INIT_CONFIGURATION, configuration)], f"kubeadm init --config {INIT_CONFIGURATION}"
    )


def join(spec: Object, files: Sequence[File], configuration: str) -> str:
    return _render(
        spec, [*files, File(JOIN_CONFIGURATION, configuration)], f"kubeadm join --config {JOIN_CONFIGURATION}"
    )


def _render(spec: Object, files: Sequence[File], command: str) -> str:
    if spec.get("verbosity") is not None:
        command += f" --v {spec['verbosity']}"
    document: Object = {"write_files": [_file(file) for file in [*files, _PLACEHOLDER]]}
    if spec.get("bootCommands"):
        document["bootcmd"] = spec["bootCommands"]
    document["runcmd"] = [
        *objects.sequence(spec.get("preKubeadmCommands")),
        f"{command} && {_SENTINEL}",
        *objects.sequence(spec.get("postKubeadmCommands")),
    ]
    _add_ntp(document, objects.mapping(spec.get("ntp")))
    users = [_user(objects.mapping(user)) for user in objects.sequence(spec.get("users"))]
    if users:
        document["users"] = users
    _add_disks(document, objects.mapping(spec.get("diskSetup")))
    if spec.get("mounts"):
        document["mounts"] = spec["mounts"]
    return _HEADER + yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096)


def _file(file: File) -> Object:
    entry: Object = {"path": file.path}
    if file.encoding:
        entry["encoding"] = file.encoding
    if file.owner:
        entry["owner"] = file.owner
    if file.permissions:
        entry["permissions"] = file.permissions
    if file.append:
        entry["append"] = True
    if file.defer:
        entry["defer"] = True
    entry["content"] = file.content
    return entry


def _user(user: Object) -> Object:
    made = _renamed(user, _USER_FIELDS)
    if user.get("inactive"):
        # In days after the password has expired, which is how useradd counts.
        made["inactive"] = "0"
    return made


def _add_ntp(document: Object, ntp: Object) -> None:
    if ntp:
        document["ntp"] = {name: ntp[name] for name in ("enabled", "servers") if ntp.get(name) not in (None, [])}


def _add_disks(document: Object, setup: Object) -> None:
    partitions = [objects.mapping(partition) for partition in objects.sequence(setup.get("partitions"))]
    if partitions:
        document["disk_setup"] = {
            str(partition.get("device")): _renamed(
                partition, {"tableType": "table_type", "layout": "layout", "overwrite": "overwrite"}
            )
            for partition in partitions
        }
    filesystems = [objects.mapping(filesystem) for filesystem in objects.sequence(setup.get("filesystems"))]
    if filesystems:
        document["fs_setup"] = [_renamed(filesystem, _FILESYSTEM_FIELDS) for filesystem in filesystems]


def _renamed(source: Object, fields: dict[str, str]) -> Object:
    return {theirs: source[ours] for ours, theirs in fields.items() if source.get(ours) not in (None, "", [])}


class _Dumper(yaml.CSafeDumper):
    """Files as literal blocks, so that a person can read the bootstrap data."""


def _represent_text(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
