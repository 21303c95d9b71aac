"""A virtual machine that has booted, as far as anybody outside can tell: it has read its cloud-init data, lets in who
has a key that stands there, and shows the files that its first boot left behind."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import asyncssh
import yaml

from steelyard.kube import objects, pki
from steelyard.kube.objects import Object

PORT: Final = 22
"""The provider asks at no other."""
BOOTSTRAPPED: Final = "/run/cluster-api/bootstrap-success.complete"


@dataclass(frozen=True, slots=True)
class CloudInit:
    files: Mapping[str, str]
    commands: Sequence[str]
    keys: Mapping[str, Sequence[str]]
    """By user: what opens the door."""

    @classmethod
    def read(cls, text: str) -> CloudInit:
        assert "#cloud-config" in text.splitlines()[:2], text[:100]
        data = cast("Object", yaml.safe_load(text))
        return cls(
            {str(each["path"]): str(each.get("content", "")) for each in objects.sequence(data.get("write_files"))},
            [str(each) for each in objects.sequence(data.get("runcmd"))],
            {
                str(each["name"]): [str(key) for key in objects.sequence(each.get("ssh_authorized_keys"))]
                for each in objects.sequence(data.get("users"))
            },
        )

    @property
    def begins_a_cluster(self) -> bool:
        return any(command.startswith("kubeadm init") for command in self.commands)

    @property
    def kubeadm(self) -> Mapping[str, Object]:
        """What kubeadm is told, by kind."""
        path = "/run/kubeadm/kubeadm.yaml" if self.begins_a_cluster else "/run/kubeadm/kubeadm-join-config.yaml"
        documents = cast("list[Object]", list(yaml.safe_load_all(self.files[path])))
        return {str(each["kind"]): each for each in documents if each}


class Guest:
    def __init__(self, name: str, address: str, cloud_init: CloudInit) -> None:
        self.name = name
        self.address = address
        self.cloud_init = cloud_init
        self.files: dict[str, str] = dict(cloud_init.files)
        self.asked: list[tuple[str, str]] = []
        """Who came in, and the command."""
        self._server: asyncssh.SSHAcceptor | None = None

    async def start(self) -> None:
        self._server = await asyncssh.listen(
            self.address,
            PORT,
            server_factory=lambda: _Door(self.cloud_init.keys),
            server_host_keys=[asyncssh.import_private_key(pki.new_private_key())],
            process_factory=self._answer,
        )

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def _answer(self, process: asyncssh.SSHServerProcess[str]) -> None:
        command = process.command or ""
        self.asked.append((str(process.get_extra_info("username")), command))
        match shlex.split(command):
            case ["cat", path] if path in self.files:
                process.stdout.write(self.files[path])
                process.exit(0)
            case _:
                process.stderr.write(f"{command}: no such file or program\n")
                process.exit(1)


class _Door(asyncssh.SSHServer):
    def __init__(self, keys: Mapping[str, Sequence[str]]) -> None:
        self._keys = {user: {_fingerprint(key) for key in theirs} for user, theirs in keys.items()}

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return key.get_fingerprint() in self._keys.get(username, ())


def _fingerprint(key: str) -> str:
    return asyncssh.import_public_key(key).get_fingerprint()
