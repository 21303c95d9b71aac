"""What a KubeadmConfig takes from elsewhere: contents of files and passwords from Secrets of its namespace, and the
kubeconfig that a machine finds its cluster with where it does not discover it by a token.
"""

from __future__ import annotations

import base64

import yaml

from steelyard.controllers.lifecycle import certificates, contract
from steelyard.controllers.lifecycle.certificates import File
from steelyard.kube import errors, objects, resources
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object

_EXEC_VERSION = "client.authentication.k8s.io/v1"
_OF_ITSELF = "default"
_CLUSTER_FIELDS = {
    "server": "server",
    "tlsServerName": "tls-server-name",
    "insecureSkipTLSVerify": "insecure-skip-tls-verify",
    "certificateAuthorityData": "certificate-authority-data",
    "proxyURL": "proxy-url",
}


class NotThere(Exception):
    """Something that the config refers to is missing; the message says what."""


async def files(client: Client, config: Object) -> list[File]:
    found: list[File] = []
    owners = {f"{user.get('name')}" for user in map(objects.mapping, objects.sequence(_spec(config).get("users")))}
    for entry in map(objects.mapping, objects.sequence(_spec(config).get("files"))):
        content, encoding = str(entry.get("content") or ""), str(entry.get("encoding") or "")
        source = objects.mapping(objects.at(entry, "contentFrom", "secret"))
        if source:
            content, encoding = _as_text(await _value(client, config, source), encoding)
        owner = str(entry.get("owner") or "")
        found.append(
            File(
                path=str(entry.get("path") or ""),
                content=content,
                permissions=str(entry.get("permissions") or ""),
                owner=owner,
                encoding=encoding,
                append=bool(entry.get("append")),
                defer=owner.partition(":")[0] in owners,
            )
        )
    return found


async def spec_with_passwords(client: Client, config: Object) -> Object:
    """The spec with passwords of users read from the Secrets they are in."""
    spec = _spec(config)
    users: list[Object] = []
    for user in map(objects.mapping, objects.sequence(spec.get("users"))):
        source = objects.mapping(objects.at(user, "passwdFrom", "secret"))
        if source:
            value = await _value(client, config, source)
            try:
                user = {**user, "passwd": value.decode().rstrip("\r\n")}
            except UnicodeDecodeError as error:
                called = f"Key {source.get('key')} of Secret {source.get('name')}"
                raise NotThere(f"{called} that the config refers to is not text: {error}") from error
        users.append(user)
    return {**spec, "users": users} if users else spec


async def discovery_file(client: Client, config: Object, cluster: Object) -> File | None:
    """The kubeconfig of `joinConfiguration.discovery.file`, where the config says what is in it."""
    wanted = objects.mapping(objects.at(_spec(config), "joinConfiguration", "discovery", "file"))
    written = objects.mapping(wanted.get("kubeConfig"))
    if not written:
        return None
    told = dict(objects.mapping(written.get("cluster")))
    if not told.get("server"):
        endpoint = contract.endpoint_text(cluster)
        if not endpoint:
            raise NotThere("Waiting for Cluster spec.controlPlaneEndpoint to be set")
        told["server"] = f"https://{endpoint}"
    if not told.get("certificateAuthorityData"):
        authority = await certificates.read(client, cluster, certificates.CLUSTER_CA)
        told["certificateAuthorityData"] = base64.b64encode(authority.certificate).decode()
    kubeconfig: Object = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _OF_ITSELF,
        "contexts": [{"name": _OF_ITSELF, "context": {"cluster": _OF_ITSELF, "user": _OF_ITSELF}}],
        "clusters": [
            {
                "name": _OF_ITSELF,
                "cluster": {theirs: told[ours] for ours, theirs in _CLUSTER_FIELDS.items() if told.get(ours)},
            }
        ],
        "users": [{"name": _OF_ITSELF, "user": _user(objects.mapping(written.get("user")))}],
    }
    return File(str(wanted.get("kubeConfigPath") or ""), yaml.dump(kubeconfig, Dumper=yaml.CSafeDumper))


def _user(told: Object) -> Object:
    user: Object = {}
    provider = objects.mapping(told.get("authProvider"))
    if provider:
        user["auth-provider"] = {name: provider[name] for name in ("name", "config") if provider.get(name)}
    program = objects.mapping(told.get("exec"))
    if program:
        user["exec"] = {
            **{name: program[name] for name in ("command", "args", "env") if program.get(name)},
            "apiVersion": program.get("apiVersion") or _EXEC_VERSION,
            "provideClusterInfo": bool(program.get("provideClusterInfo")),
            "interactiveMode": "Never",
        }
    return user


async def _value(client: Client, config: Object, source: Object) -> bytes:
    name, key = str(source.get("name") or ""), str(source.get("key") or "")
    try:
        secret = await client.get(resources.SECRETS, name, objects.namespace(config))
    except errors.NotFound as error:
        raise NotThere(f"Secret {name} that the config refers to does not exist") from error
    value = objects.at(secret, "data", key)
    if value is None:
        raise NotThere(f"Secret {name} that the config refers to has no key {key}")
    try:
        return base64.b64decode(str(value))
    except ValueError as error:
        raise NotThere(f"Key {key} of Secret {name} that the config refers to cannot be read: {error}") from error


def _as_text(value: bytes, encoding: str) -> tuple[str, str]:
    """What is no text, as what is compressed never is, goes through a cloud-config in base64."""
    if encoding != "gzip":
        try:
            return value.decode(), encoding
        except UnicodeDecodeError:
            pass
    return base64.b64encode(value).decode(), "gzip+base64" if encoding.startswith("gzip") else "base64"


def _spec(config: Object) -> Object:
    return objects.mapping(config.get("spec"))
