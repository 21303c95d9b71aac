"""An operator written with kopf, run by `kopf run`: what it needs of an API server is what operators in Python need.

A Bakery gets a ConfigMap of its own, by owner reference; a change is followed; a timer counts in the status; deletion
waits for the handler, since kopf puts its finalizer on; each step leaves an event.
"""

from __future__ import annotations

import base64
import os
from typing import Any

import aiohttp
import kopf

KIND = ("bakeries.example.org",)


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.networking.request_timeout = 10
    # A timer that runs in the moment of a deletion is looked at again after a minute otherwise.
    settings.background.cancellation_polling = 0.5


@kopf.on.create(*KIND)
async def bake(body: kopf.Body, spec: kopf.Spec, name: str, namespace: str | None, **_: Any) -> dict[str, Any]:
    oven: dict[str, Any] = {"metadata": {"name": f"{name}-oven"}, "data": {"loaves": str(spec["loaves"])}}
    # kopf types it with libraries that need not be installed.
    kopf.adopt(oven)  # pyright: ignore[reportUnknownMemberType]
    await _send("POST", f"/api/v1/namespaces/{namespace}/configmaps", oven)
    kopf.info(body, reason="Baking", message="the oven is hot")
    return {"loaves": spec["loaves"]}


@kopf.on.update(*KIND, field="spec.loaves")
async def bake_again(old: Any, new: Any, name: str, namespace: str | None, **_: Any) -> dict[str, int]:
    await _send("PATCH", f"/api/v1/namespaces/{namespace}/configmaps/{name}-oven", {"data": {"loaves": str(new)}})
    return {"from": old, "to": new}


@kopf.timer(*KIND, interval=0.5)
def tick(patch: kopf.Patch, status: kopf.Status, **_: Any) -> None:
    patch.status["ticks"] = min(int(status.get("ticks", 0)) + 1, 3)


@kopf.on.delete(*KIND)
async def close(name: str, namespace: str | None, **_: Any) -> None:
    await _send("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": f"{name}-was-closed"}})


async def _send(method: str, path: str, body: dict[str, Any]) -> None:
    """kopf leaves writing other objects to a client of one's choice; this is the smallest there is."""
    headers = {"Authorization": f"Bearer {base64.b64decode(os.environ['BAKERY_TOKEN']).decode()}"}
    if method == "PATCH":
        headers["Content-Type"] = "application/merge-patch+json"
    async with (
        aiohttp.ClientSession(os.environ["BAKERY_SERVER"], headers=headers) as http,
        http.request(method, path, json=body, ssl=False) as answer,
    ):
        if answer.status >= 400:
            raise kopf.TemporaryError(await answer.text(), delay=0.2)
