"""ProviderConfigs: those of the servers in the platform file are kept up, with the Secret that each refers to.

    postgresql: {}   ->   Secret crossplane-system/postgres-admin-creds, ProviderConfig postgres-provider

So whoever reconciles the objects of a server, this provider or Crossplane's provider-sql, finds it by the same name.
One that is in use is not deleted before its last object.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from steelyard import standing
from steelyard.api.crossplane import PROVIDER_CONFIGS
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS
from steelyard.kube.runtime import finalizers, patching
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.providers.postgres import indexes
from steelyard.providers.postgres.embedded.server import EmbeddedServer
from steelyard.providers.postgres.problems import Missing, Problem
from steelyard.providers.postgres.servers import LOOPBACK, decoded
from steelyard.settings.data import PostgreSQL
from steelyard.settings.postgresservers import Password

FIELD_MANAGER: Final = "steelyard-postgres"
IN_USE: Final = "in-use.crossplane.io"
SERVER_VERSION: Final = "data.steelyard.dev/server-version"
"""Annotation of the ProviderConfig: which version the server has, so that claims can ask for one."""
ADMIN_SECRET: Final = "postgres-admin-creds"  # noqa: S105 (the name of a Secret)
_RETRY: Final = 30.0


class Configs:
    def __init__(
        self, client: Client, settings: PostgreSQL, instances: dict[str, EmbeddedServer], versions: Mapping[str, str]
    ) -> None:
        self._client = client
        self._versions = versions
        self._settings = settings
        self._instances = instances

    @property
    def names(self) -> list[str]:
        return list(self._settings.all_servers())

    async def ensure(self, name: str) -> None:
        """The ProviderConfig, and its Secret as far as that is known: a server that was never started has no port."""
        server = self._settings.all_servers()[name]
        address = server.address
        namespace, secret = self._settings.credentials_namespace, self._secret_name(name)
        await self._ensure_namespace(namespace)
        spec: Object = {
            "credentials": {
                "source": "PostgreSQLConnectionSecret",
                "connectionSecretRef": {"namespace": namespace, "name": secret},
            },
            "defaultDatabase": address.database if address is not None else "postgres",
            "sslMode": address.ssl_mode if address is not None else "disable",
        }
        await standing.ensure(
            self._client,
            PROVIDER_CONFIGS,
            {
                "apiVersion": PROVIDER_CONFIGS.api_version,
                "kind": PROVIDER_CONFIGS.kind,
                "metadata": {"name": name},
                "spec": spec,
            },
            field_manager=FIELD_MANAGER,
        )
        values = await self._values(name)
        if values:
            await self._ensure_secret(namespace, secret, values)

    async def version(self, name: str) -> str:
        """Which the server has, or will have once it is started; empty where nobody knows."""
        known = self._versions.get(name, "").partition(" ")[0]
        instance = self._instances.get(name)
        return known or (await instance.version() if instance is not None else "")

    async def _values(self, name: str) -> dict[str, str]:
        server = self._settings.all_servers()[name]
        address = server.address
        if address is not None:
            password = await self._password(server.password)
            return {
                "username": address.username,
                "password": password,
                "endpoint": address.host,
                "port": str(address.port),
            }
        instance = self._instances[name]
        if not instance.is_known:
            return {}
        found = {
            "username": instance.username,
            "password": instance.password(),
            "endpoint": LOOPBACK,
            "port": str(instance.port),
        }
        return {**found, "ca.crt": instance.authority.decode()} if instance.has_tls else found

    async def _password(self, source: Password | None) -> str:
        if source is None:
            return ""
        if source.file is not None:
            try:
                return (await asyncio.to_thread(Path(source.file).read_text)).rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                raise Missing(f"postgresql.password: {source.file} cannot be read: {error}") from error
        assert source.secret is not None
        where = source.secret
        try:
            found = decoded(await self._client.get(SECRETS, where.name, where.namespace))
        except errors.NotFound:
            found = {}
        if where.key not in found:
            raise Missing(f"postgresql.password: there is no Secret {where.namespace}/{where.name} with {where.key}")
        return found[where.key]

    async def _ensure_namespace(self, name: str) -> None:
        try:
            await self._client.get(NAMESPACES, name)
        except errors.NotFound:
            namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            try:
                await self._client.create(NAMESPACES, namespace)
            except errors.AlreadyExists:
                return

    async def _ensure_secret(self, namespace: str, name: str, values: dict[str, str]) -> None:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        wanted: Object = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "type": "Opaque",
            "data": data,
        }
        await standing.ensure(self._client, SECRETS, wanted, field_manager=FIELD_MANAGER)

    def _secret_name(self, config: str) -> str:
        return ADMIN_SECRET if config == self._settings.provider_config else f"{config}-admin-creds"

    def config_of_secret(self, secret: Object) -> list[Key]:
        if objects.namespace(secret) != self._settings.credentials_namespace:
            return []
        return [Key("", name) for name in self.names if self._secret_name(name) == objects.name(secret)]


class ConfigReconciler:
    def __init__(self, client: CachedClient, configs: Configs) -> None:
        self._client = client
        self._configs = configs

    async def reconcile(self, key: Key) -> Result:
        result = Result()
        if key.name in self._configs.names:
            try:
                await self._configs.ensure(key.name)
            except Problem:
                # Told where the server is needed; here nobody looks.
                result = Result(requeue_after=_RETRY)
        try:
            config = await self._client.get(PROVIDER_CONFIGS, key.name)
        except errors.NotFound:
            return result
        config = await self._annotate(config, await self._configs.version(key.name))
        users = self._users(key.name)
        if objects.is_being_deleted(config):
            if not users:
                await finalizers.remove(self._client, PROVIDER_CONFIGS, config, IN_USE)
            return result
        if users:
            config = await finalizers.ensure(self._client, PROVIDER_CONFIGS, config, IN_USE)
        status = {**objects.mapping(config.get("status")), "users": users}
        await patching.patch_status(self._client, PROVIDER_CONFIGS, config, status)
        return result

    async def _annotate(self, config: Object, version: str) -> Object:
        if not version or objects.annotations(config).get(SERVER_VERSION) == version:
            return config
        wanted = objects.copy(config)
        wanted["metadata"]["annotations"] = {**objects.annotations(config), SERVER_VERSION: version}
        return await patching.patch(self._client, PROVIDER_CONFIGS, config, wanted)

    def _users(self, name: str) -> int:
        found = (self._client.informers.find(resource) for resource in indexes.MANAGED)
        return sum(len(informer.by_index(indexes.CONFIGS, name)) for informer in found if informer is not None)
