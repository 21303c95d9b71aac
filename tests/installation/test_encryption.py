"""Secrets at rest as an operator meets them: what is on disk, rotation, lost keys, backups with and without keys."""

from __future__ import annotations

import asyncio
import base64
import stat
import subprocess
from pathlib import Path

import pytest

from steelyard.installation import encryption
from steelyard.installation.backup import archive
from steelyard.installation.encryption import BadKeys
from steelyard.kube.client.http import HttpClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from tests import forked
from tests.harness import PlatformProcess

NEEDLE = base64.b64encode(b"correct-horse-battery").decode()


def steelyard(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.run(arguments)


def secret(name: str) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": NEEDLE}}


async def create(client: HttpClient, name: str) -> None:
    try:
        await client.create(SECRETS, secret(name))
    finally:
        await client.close()


async def password(client: HttpClient, name: str) -> str:
    try:
        return str((await client.get(SECRETS, name, "default"))["data"]["password"])
    finally:
        await client.close()


def test_secrets_survive_rotation_backup_and_restore_and_are_nowhere_in_clear(tmp_path: Path) -> None:
    with PlatformProcess(tmp_path) as platform:
        data = platform.data_dir
        where = ["--data-dir", str(data.root)]
        platform.start()
        assert stat.S_IMODE(data.encryption_keys.stat().st_mode) == 0o600
        asyncio.run(create(platform.client(), "before"))
        assert not found_in(data.root)
        first = encryption.load(data.encryption_keys)
        assert steelyard("backup", str(tmp_path / "bare.tar"), "--without-keys", *where).returncode == 0
        rotated = steelyard("rotate-keys", *where)
        assert rotated.returncode == 0, rotated.stderr
        keys = encryption.load(data.encryption_keys)
        assert keys[1:] == first
        assert asyncio.run(password(platform.client(), "before")) == NEEDLE
        assert steelyard("backup", str(tmp_path / "whole.tar"), *where).returncode == 0
        for name in ("bare.tar", "whole.tar"):
            assert NEEDLE.encode() not in (tmp_path / name).read_bytes()
        assert "pki/encryption.json" not in archive.verify(tmp_path / "bare.tar").files
        assert platform.terminate() == 0
        assert not found_in(data.root)

        saved = data.encryption_keys.rename(tmp_path / "saved.json")
        refused = steelyard("up", "--port", "0", *where)
        assert refused.returncode == 1
        assert "encryption.json" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert not data.encryption_keys.exists()

        elsewhere = ["--data-dir", str(tmp_path / "elsewhere")]
        no_keys = steelyard("restore", str(tmp_path / "bare.tar"), *elsewhere)
        assert no_keys.returncode == 1
        assert "--keys" in no_keys.stderr
        assert steelyard("restore", str(tmp_path / "bare.tar"), "--keys", str(saved), *elsewhere).returncode == 0
        assert not found_in(tmp_path / "elsewhere")
        done = steelyard("restore", str(tmp_path / "whole.tar"), "--force", *where)
        assert done.returncode == 0, done.stderr
        platform.start()
        assert asyncio.run(password(platform.client(), "before")) == NEEDLE
        assert not found_in(data.root)


def found_in(directory: Path) -> list[Path]:
    """The files that hold the secret in clear."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if NEEDLE.encode() in path.read_bytes()]


def test_keys_come_back_as_they_were_saved(tmp_path: Path) -> None:
    keys = [encryption.new_key(), encryption.new_key()]
    encryption.save(tmp_path / "keys.json", keys)
    assert encryption.load(tmp_path / "keys.json") == keys
    assert encryption.load(tmp_path / "none.json") == []


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"format": 1, "keys": []}', '{"format": 1, "keys": [{"id": "00", "secret": "AAAA"}]}', '{"keys": 3}'],
)
def test_a_damaged_file_of_keys_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(BadKeys):
        encryption.load(tmp_path / "keys.json")


def test_a_changed_key_is_noticed(tmp_path: Path) -> None:
    encryption.save(tmp_path / "keys.json", [b"a" * 32])
    text = (tmp_path / "keys.json").read_text()
    changed = text.replace(base64.b64encode(b"a" * 32).decode(), base64.b64encode(b"b" * 32).decode())
    (tmp_path / "keys.json").write_text(changed)
    with pytest.raises(BadKeys, match="damaged"):
        encryption.load(tmp_path / "keys.json")
