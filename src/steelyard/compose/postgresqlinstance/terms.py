"""What a claim for a database may have by the platform file, and what it gets where it does not say: its server,
version, extensions, template, protection and time to live. Asked at every use; admission has said the same."""

from __future__ import annotations

from typing import Final

from steelyard.api import claims, durations
from steelyard.api.postgresql import TTL, PostgreSQLInstanceSpec
from steelyard.compose.refusing import Refused
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from steelyard.settings.model import PREVIEW
from steelyard.settings.postgresservers import Reached, SslMode

SERVER_VERSION: Final = "data.steelyard.dev/server-version"
"""Annotation of a ProviderConfig: which PostgreSQL answers there, as in 16.4."""
_FIRST_REVISION: Final = "v1"


@frozen
class _Elsewhere:
    """A server that the platform file no longer has."""

    provider_config: str
    ssl_mode: SslMode
    host: str | None = None
    port: int | None = None


def server(claim: Object, platform: Platform, environment: str, owner: Object | None) -> Reached:
    """A database stays where it was made, which its owner's Role says, whatever the platform file says of others."""
    settings = platform.postgresql
    made_at = str(objects.at(owner or {}, "spec", "providerConfigRef", "name") or "")
    if not made_at:
        return settings.server_for(objects.namespace(claim), environment)
    known: list[Reached] = [settings, *settings.servers]
    found = next((each for each in known if each.provider_config == made_at), None)
    return found or _Elsewhere(made_at, settings.ssl_mode)


def check(spec: PostgreSQLInstanceSpec, platform: Platform, config: Object | None) -> None:
    """Raises `Refused` for what the claim may not have, or the server has not."""
    settings, asked = platform.postgresql, spec.parameters
    for each in asked.extensions or ():
        if each not in settings.extensions:
            raise Refused(
                "ExtensionForbidden",
                f"spec.parameters.extensions: {each} is none that the platform file allows (postgresql.extensions): "
                f"{', '.join(settings.extensions)}",
            )
    if asked.template is not None and settings.template(asked.template) is None:
        allowed = ", ".join(each.database for each in settings.templates) or "none"
        raise Refused(
            "TemplateForbidden",
            f"spec.parameters.template: {asked.template} is none that the platform file allows "
            f"(postgresql.templates): {allowed}",
        )
    version = server_version(platform, config)
    if asked.version is not None and version is not None and version < asked.version:
        raise Refused(
            "ServerTooOld",
            f"the server has PostgreSQL {version}, and spec.parameters.version asks for {asked.version} or newer; "
            "lower it, or ask for a newer server",
        )


def server_version(platform: Platform, config: Object | None) -> int | None:
    """The major one; None where nobody says."""
    if platform.postgresql.version is not None:
        return platform.postgresql.version
    major = objects.annotations(config or {}).get(SERVER_VERSION, "").partition(".")[0]
    return int(major) if major.isdecimal() else None


def is_protected(spec: PostgreSQLInstanceSpec, platform: Platform, environment: str) -> bool:
    asked = spec.parameters.deletion_protection
    return asked if asked is not None else is_protected_by_default(platform, environment)


def is_protected_by_default(platform: Platform, environment: str) -> bool:
    known = platform.environments.get(environment)
    return known is not None and known.protect_databases


def protected_by(claim: Object, platform: Platform) -> str:
    """What keeps the claim from being deleted; empty where nothing does."""
    if found := claims.protected_by(claim):
        return found
    is_said = objects.at(claim, "spec", "parameters", "deletionProtection") is not None
    environment = platform.environment_name(str(objects.at(claim, "spec", "parameters", "environment") or ""))
    if is_said or not is_protected_by_default(platform, environment):
        return ""
    return f"the environment {environment} (protectDatabases in the platform file)"


def ttl(claim: Object, platform: Platform) -> str:
    """How long the claim lives; empty for ever. Claims of the first revision were promised to stay."""
    said = str(objects.at(claim, "spec", "parameters", "ttl") or "")
    if said:
        return said
    if objects.at(claim, "status", "compositionRevision") == _FIRST_REVISION:
        return ""
    annotated = objects.annotations(claim).get(TTL, "")
    if durations.seconds(annotated):
        return annotated
    environment = str(objects.at(claim, "spec", "parameters", "environment") or "")
    return platform.previews.ttl if PREVIEW.fullmatch(environment) else ""
