"""A cache as processes of the platform's machine: a RedisServer, which the platform's own provider brings about.

dev/dev-redis   ->   RedisServer dev-redis-dev-redis-48dbd70d, reached at 127.0.0.1 and a port of its own
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from steelyard.api import troubles
from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.api.redis import ROTATE, UsedParameters
from steelyard.api.redisserver import RESOURCE
from steelyard.compose import managed
from steelyard.compose.composed import FIRST_STAGE, Desired
from steelyard.compose.redisinstance import naming
from steelyard.compose.redisinstance.making import Making
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings.data import Redis

SERVER: Final = "server"
_SERVER_STAGE: Final = FIRST_STAGE + 1
_LONGEST_TRIGGER: Final = 253


def making(
    claim: Object, name: str, used: UsedParameters, settings: Redis, observed: Object | None, credentials: str
) -> Making:
    found = objects.mapping(objects.at(observed, "status", "atProvider"))
    place: Object = {"server": naming.of_object(objects.namespace(claim), name), "username": name}
    if found.get("port"):
        place |= {"host": found.get("host"), "port": found["port"]}
    rotated = objects.at(found, "rotation", "at")
    replicated = troubles.condition(observed, "Replicated") if observed is not None else {}
    filling = troubles.condition(observed, "MemoryAvailable") if observed is not None else {}
    told = f" at {found.get('host')}:{found['port']}" if found.get("port") else ""
    told += f"; {filling.get('message')}" if filling.get("status") == "False" else ""
    return Making(
        part=_part(claim, name, used, settings, credentials),
        in_vault={
            "host": "{{ .endpoint }}",
            "port": "{{ .port }}",
            "username": "{{ .username }}",
            "password": "{{ .password }}",
            "url": "redis://{{ .username }}:{{ .password | urlquery }}@{{ .endpoint }}:{{ .port }}",
        },
        status={**place, **({"rotatedAt": rotated} if rotated else {})},
        details=_details,
        told=told,
        behind=f"{replicated.get('message')}" if replicated.get("status") == "False" else "",
    )


def _part(claim: Object, name: str, used: UsedParameters, settings: Redis, credentials: str) -> Desired:
    trigger = objects.annotations(claim).get(ROTATE, "")[:_LONGEST_TRIGGER]
    rotation: Object = {"overlap": settings.rotation_overlap}
    if trigger:
        rotation["trigger"] = trigger
    if used.rotate_every:
        rotation["every"] = used.rotate_every
    spec: Object = {
        "forProvider": {
            "username": name,
            "replicas": used.replicas,
            "memoryBytes": used.memory_gb << 30,
            "memoryPercent": settings.memory_percent,
            "whenFull": settings.when_full,
            "appendOnly": True,
            "rotation": rotation,
        },
        "deletionPolicy": "Delete",
        "writeConnectionSecretToRef": {"namespace": settings.credentials_namespace, "name": credentials},
    }
    annotations = {EXTERNAL_NAME: name}
    called = naming.of_object(objects.namespace(claim), name)
    return managed.part(RESOURCE, called, spec, stage=_SERVER_STAGE, annotations=annotations)


def _details(found: Mapping[str, str]) -> dict[str, str] | None:
    host, port, username, password = (found.get(key, "") for key in ("endpoint", "port", "username", "password"))
    if not (host and port and username and password):
        return None
    url = f"redis://{quote(username, safe='')}:{quote(password, safe='')}@{host}:{port}"
    return {
        "host": host,
        "endpoint": host,
        "port": port,
        "username": username,
        "password": password,
        "url": url,
        "uri": url,
    }
