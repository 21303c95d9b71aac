"""Attacks that ask: long heads and names, selectors, lists in every form, by strangers and by a user."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from tests.soak.hostile.attack import Assault, Attack, Knob, Who, numbers
from tests.soak.hostile.field import JSON, THEIRS, Identity, config_maps

_LIST: Final = config_maps(THEIRS)
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_PARTIAL: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
_SIZE: Final = Knob(1_000_000, 100, 1_040_000)
"""Just below what a request's head may have."""
_PAIRS: Final = Knob("a=b&", words=("a=b&", "&", "limit=1&", "%41"))
_ENCODED: Final = Knob("W1sb", words=("W1sb", "A", "W1td"))


def asking(name: str, who: Who, make: Callable[[Assault, int], bytes], at_once: int = 2, **knobs: Knob) -> Attack:
    async def work(assault: Assault) -> None:
        await assault.keep_sending(lambda number: make(assault, number))

    return Attack(name, who, work, {**knobs, **numbers(at_once)})


def _get(assault: Assault, path: str, *headers: str) -> bytes:
    return assault.identity.request("GET", path, b"", JSON, *headers)


def _long_name(assault: Assault, number: int) -> bytes:
    filling = assault.word("filling")
    name = f"{assault.tag}{number}" + filling * (assault.number("size") // len(filling))
    return _get(assault, f"{_LIST}/{name}")


def _header_lines(assault: Assault, _: int) -> bytes:
    line = assault.word("line").encode() + b"\r\n"
    lines = line * (assault.number("size") // len(line))
    return _get(assault, assault.word("path"))[:-2] + lines + b"\r\n"


def _long_header(assault: Assault, _: int) -> bytes:
    name, filling = assault.word("header"), assault.word("filling")
    who = Identity(assault.identity.host, assault.identity.port)
    return who.request("GET", "/version", b"", JSON, f"{name}: {filling * (assault.number('size') // len(filling))}")


def _query(assault: Assault, _: int) -> bytes:
    filling = assault.word("filling")
    return _get(assault, f"{_LIST}?{filling * (assault.number('size') // len(filling))}")


def _selector(assault: Assault, _: int) -> bytes:
    which, term = assault.word("selector"), assault.word("term")
    terms = ",".join(term.replace("N", str(number)) for number in range(assault.number("terms")))
    return _get(assault, f"{_LIST}?{which}={terms}"[:1_040_000] + f"&limit={assault.number('limit')}")


def _among(assault: Assault, _: int) -> bytes:
    values = ",".join(f"v{number}" for number in range(assault.number("terms")))
    return _get(assault, f"{_LIST}?labelSelector=number+{assault.word('operator')}+({values})")


def _listing(assault: Assault, number: int) -> bytes:
    query = assault.word("query").replace("N", str(number))
    encoding = ("Accept-Encoding: gzip",) if assault.word("encoding") else ()
    return _get(assault, f"{assault.word('path')}{query}", f"Accept: {assault.word('form')}", *encoding)


def _continued(assault: Assault, _: int) -> bytes:
    filling = assault.word("filling")
    return _get(assault, f"{_LIST}?limit=1&continue={filling * (assault.number('size') // len(filling))}")


def _many_paths(assault: Assault, number: int) -> bytes:
    return _get(assault, f"/{assault.tag}/{number}/" + "p/" * assault.number("depth"))


async def _ahead(assault: Assault) -> None:
    """Many requests on a connection before the first is answered; the last says that it is the last."""
    whole = _get(assault, "/version") * assault.number("ahead") + _get(assault, "/version", "Connection: close")

    async def one() -> None:
        while time.monotonic() < assault.deadline and (line := await assault.open()) is not None:
            await assault.ask(line, whole)
            while not line.is_closed and time.monotonic() < assault.deadline:  # noqa: ASYNC110 - any moment will do
                await asyncio.sleep(0.01)
            line.close()

    await asyncio.gather(*(one() for _ in range(assault.number("at_once"))))


def lists(name: str, form: str = JSON, query: str = "", path: str = _LIST, encoding: str = "") -> Attack:
    forms = (JSON, "application/yaml", "application/vnd.kubernetes.protobuf", _TABLE, _PARTIAL)
    return asking(
        name,
        Who.USER,
        _listing,
        path=Knob(path, words=(path,)),
        form=Knob(form, words=forms if path == _LIST else (form, JSON)),
        query=Knob(
            query, words=(query, "", "?pretty=1", "?limit=2500", "?resourceVersion=0", "?watch=1&timeoutSeconds=1")
        ),
        encoding=Knob(encoding, words=("", "gzip")),
    )


ATTACKS: Final = (
    asking("names of 1 MB", Who.STRANGER, _long_name, 8, size=_SIZE, filling=Knob("n", words=("n", "%41", "/", "%2e"))),
    asking(
        "1 MB of header lines",
        Who.STRANGER,
        _header_lines,
        size=_SIZE,
        line=Knob("a:", words=("a:", "a: b", "Accept: a/b", "Cookie: a=b", "Impersonate-Group: g")),
        path=Knob("/version", words=("/version", "/healthz", _LIST)),
    ),
    asking(
        "a header of 1 MB",
        Who.STRANGER,
        _long_header,
        size=_SIZE,
        header=Knob("Accept", words=("Accept", "Authorization", "User-Agent", "Accept-Encoding", "Content-Type")),
        filling=Knob("a/b,", words=("a/b,", "a/b;q=0.1,", "Bearer a.", ".", "eyJ", "x")),
    ),
    asking("a query of 1 MB", Who.STRANGER, _query, size=_SIZE, filling=_PAIRS),
    asking(
        "250,000 field selectors",
        Who.STRANGER,
        _selector,
        selector=Knob("fieldSelector", words=("fieldSelector", "labelSelector")),
        term=Knob("a=b", words=("a=b", "a!=N", "metadata.name!=N", "a")),
        terms=Knob(250_000, 1, 250_000),
        limit=Knob(0, 0, 5000),
    ),
    asking("many paths", Who.STRANGER, _many_paths, 8, depth=Knob(100, 0, 100_000)),
    Attack(
        "10,000 requests ahead", Who.STRANGER, _ahead, {"ahead": Knob(10_000, 1, 20_000), "at_once": Knob(2, 1, 32)}
    ),
    asking(
        "label selector of 8,000 over 5,000",
        Who.USER,
        _selector,
        selector=Knob("labelSelector", words=("labelSelector", "fieldSelector")),
        term=Knob("number!=xN", words=("number!=xN", "!absent-N", "metadata.name!=xN", "number")),
        terms=Knob(8000, 1, 60_000),
        limit=Knob(0, 0, 5000),
    ),
    asking(
        "label selector of one set over 5,000",
        Who.USER,
        _among,
        operator=Knob("notin", words=("notin", "in")),
        terms=Knob(60_000, 1, 120_000),
    ),
    asking("a continue token of 1 MB", Who.USER, _continued, size=_SIZE, filling=_ENCODED),
    lists("5,000 as YAML", "application/yaml"),
    lists("5,000 as a table", _TABLE),
    lists("5,000, pretty", query="?pretty=1"),
    lists("5,000 with gzip", encoding="gzip"),
    lists("5,000 as protobuf", "application/vnd.kubernetes.protobuf"),
    lists("openapi v2", path="/openapi/v2"),
    lists("openapi v3", path="/openapi/v3/api/v1"),
    lists("discovery", _AGGREGATED, path="/apis"),
)  # fmt: skip
