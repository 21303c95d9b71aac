"""A running platform as a client sees it that looks at every code and body: HTTPS with the administrator's token."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final

import aiohttp
import orjson
import yaml

from tests.harness import PlatformProcess

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
_TIMEOUT: Final = aiohttp.ClientTimeout(total=30, sock_connect=5)


class Site:
    """Follows the platform from one start to the next: each has another port, none another token."""

    def __init__(self, platform: PlatformProcess) -> None:
        self._platform = platform
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False, limit=0), timeout=_TIMEOUT)
        self.url = ""

    def look(self) -> None:
        """Reads where the platform is now."""
        config = yaml.safe_load(self._platform.data_dir.kubeconfig.read_text())
        self.url = config["clusters"][0]["cluster"]["server"]
        self.session.headers["Authorization"] = f"Bearer {config['users'][0]['user']['token']}"

    async def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """The code, and the body: parsed where it is JSON, else as text."""
        data = orjson.dumps(body) if body is not None else None
        headers = {"Content-Type": content_type} if data is not None else {}
        async with self.session.request(method, self.url + path, data=data, headers=headers) as response:
            content = await response.read()
            is_json = response.content_type == "application/json"
            return response.status, orjson.loads(content) if is_json else content.decode()

    async def __aenter__(self) -> Site:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.close()


def config_map(name: str, text: str = "") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}}
