"""`steelyard logs machine`: the console of a machine, with the caller's own rights.

What a guest writes there is its own affair: it could tell the terminal of whoever reads it to do things. So nothing but
text is printed.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Sequence
from typing import Final

from steelyard.api import resources
from steelyard.api.clusterapi import resources as clusterapi
from steelyard.cli import output
from steelyard.cli.exits import CommandError
from steelyard.cli.session import Session
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

_PATH: Final = "/steelyard.dev/v1/machinelogs"
_ESCAPES: Final = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_]|[()*+][0-9A-Za-z])")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WITH_CONSOLES: Final = {each.kind: each for each in (resources.KVM_MACHINES,)}


async def show(here: Session, name: str, namespace: str, tail: int) -> None:
    """The last `tail` lines; a negative number for all that is kept."""
    kind, home, called = await _find(here, name, here.namespace(namespace))
    query = urllib.parse.urlencode({"kind": kind.kind, "namespace": home, "name": called})
    try:
        answer = objects.mapping(await here.client.request("GET", f"{_PATH}?{query}"))
    except errors.NotFound as error:
        if called in error.message:
            raise
        raise CommandError(
            "the platform there keeps no consoles: it is an older one, or Cluster API alone; look at its host, in "
            "console.log of the machine's directory",
            is_of_server=True,
        ) from error
    lines = readable(str(answer.get("text") or "")).splitlines()
    if not answer.get("isWhole", True) and (tail < 0 or tail >= len(lines)):
        output.note("the console has more than is kept here; this is its end")
    if not lines:
        output.note(f"machine {name} has written nothing to its console yet")
    for line in lines[-tail:] if tail > 0 else lines if tail < 0 else []:
        output.result(line)


def readable(text: str) -> str:
    """
    >>> readable("\\x1b[0;32m  OK  \\x1b[0m started\\r\\n")
    '  OK   started\\n'
    """
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))


async def _find(here: Session, name: str, namespace: str) -> tuple[Resource, str, str]:
    """Kind, namespace and name of the machine behind a Machine of Cluster API; or of one by its own name."""
    machines = await _named(here, clusterapi.MACHINES, name, namespace)
    if machines:
        machine = _only(machines, name)
        reference = objects.mapping(objects.at(machine, "spec", "infrastructureRef"))
        kind = _WITH_CONSOLES.get(str(reference.get("kind")))
        if kind is None:
            raise CommandError(
                f"machine {name} is a {reference.get('kind')}, whose console nobody keeps; those of kvm have one"
            )
        return kind, objects.namespace(machine), str(reference.get("name") or name)
    for kind in _WITH_CONSOLES.values():
        if found := await _named(here, kind, name, namespace):
            return kind, objects.namespace(_only(found, name)), name
    where = f" in namespace {namespace}" if namespace else ""
    raise CommandError(f"there is no machine {name}{where}; see: {here.hints.kubectl('get machines -A')}")


async def _named(here: Session, kind: Resource, name: str, namespace: str) -> Sequence[Object]:
    try:
        found = await here.client.list(kind, namespace, field_selector=f"metadata.name={name}")
    except errors.NotFound:
        return ()
    return found.items


def _only(found: Sequence[Object], name: str) -> Object:
    if len(found) > 1:
        places = ", ".join(sorted(map(objects.namespace, found)))
        raise CommandError(f"there is a machine {name} in each of {places}; say which one with -n")
    return found[0]
