"""What the platform runs or reaches besides clusters: the servers of databases, caches and secrets.

Only an administrator of the platform is told; to anybody else there is nothing to tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.cli.findings import Finding
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client

_PATH: Final = "/steelyard.dev/v1/services"
_DOWN: Final = "down"


@frozen
class Service:
    name: str
    how: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.how}" + (f", {self.text}" if self.text else "")


async def gather(client: Client) -> Sequence[Service]:
    """None where the platform is an older one or elsewhere, or where the caller may not ask."""
    try:
        answer = objects.mapping(await client.request("GET", _PATH))
    except (errors.NotFound, errors.Forbidden):
        return ()
    found = map(objects.mapping, objects.sequence(answer.get("services")))
    return [Service(str(each["name"]), str(each["how"]), str(each["text"])) for each in found]


def findings(services: Sequence[Service]) -> Iterator[Finding]:
    for each in services:
        text = f"{each.how}" + (f", {each.text}" if each.text else "")
        yield Finding("FAIL" if each.how == _DOWN else "ok", each.name, text)
