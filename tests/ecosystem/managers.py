"""Cluster API's programs beside an API server: their own definitions and webhook configurations, read from their
modules, with the address of the program on loopback where upstream has a Service."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import functools
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar, cast

import yaml

from steelyard.kube import objects, pki
from steelyard.kube.client.http import HttpClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from steelyard.kube.runtime import conditions
from tests.conformance import upstream
from tests.harness import ROOT, built

T = TypeVar("T")

CLUSTER_API: Final = "sigs.k8s.io/cluster-api"
CORE: Final = ("cluster-api", "kubeadm-bootstrap", "kubeadm-control-plane")
CONTRACT: Final[Mapping[str, str]] = {
    "cluster.x-k8s.io/v1beta1": "v1beta1",
    "cluster.x-k8s.io/v1beta2": "v1beta2",
}
"""The labels by which Cluster API finds the version of a kind that speaks to it; upstream's kustomizations set them."""
READY_SECONDS: Final = 60.0
_WEBHOOKS: Final = {
    kind: Resource("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False)
    for kind, plural in (
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    )
}
_INSTALLER: Final = "clusterctl"
_UPSTREAM: Final = ROOT / "tools" / "upstream"


@dataclass(frozen=True, slots=True)
class Hooks:
    """Where a program's webhooks are."""

    port: int
    authority: bytes

    def client(self, path: str) -> Object:
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": base64.b64encode(self.authority).decode()}


@dataclass(frozen=True, slots=True)
class Managing:
    """One of the programs: `folder` has its definitions and webhooks."""

    name: str
    program: str
    folder: Path
    labels: Mapping[str, str]
    silent: str = "--diagnostics-address=0"
    converts: bool = True
    """Whether it converts between the versions of its kinds."""


@functools.cache
def folder_of(module: str, pinned_in: str) -> Path:
    """Where Go keeps the module, in the version that the folder `pinned_in` of tools/upstream says."""
    listing = [*built("go"), "list", "-m", "-f", "{{.Dir}}", module]
    done = subprocess.run(listing, cwd=_UPSTREAM / pinned_in, stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip())


def definitions(folder: Path, labels: Mapping[str, str], hooks: Hooks | None = None) -> list[Object]:
    """What `config/crd` has; with `hooks`, versions are converted there."""
    found = [
        cast("Object", yaml.load(path.read_text(), yaml.CSafeLoader))
        for path in sorted(folder.glob("config/crd/bases/*"))
    ]
    assert found, folder
    for definition in found:
        definition["metadata"]["labels"] = dict(labels)
        if hooks is not None:
            hook = {"conversionReviewVersions": ["v1"], "clientConfig": hooks.client("/convert")}
            definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": hook}
    return found


def webhooks(folder: Path, name: str, hooks: Hooks) -> list[Object]:
    """What `config/webhook` has, each under a name of its own as upstream's kustomizations have it."""
    text = (folder / "config" / "webhook" / "manifests.yaml").read_text()
    found = [cast("Object", each) for each in yaml.load_all(text, yaml.CSafeLoader) if each]
    for configuration in found:
        configuration["metadata"]["name"] = f"{name}-{configuration['metadata']['name']}"
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"] = hooks.client(webhook["clientConfig"]["service"]["path"])
    return found


def write_keys(folder: Path) -> bytes:
    """What webhooks serve with; the authority that whoever calls them is to trust."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC)
    authority = pki.new_authority("webhooks", now=now)
    serving = pki.issue_serving(authority, "cluster-api", ["127.0.0.1"], now=now)
    (folder / "tls.crt").write_bytes(serving.certificate)
    (folder / "tls.key").write_bytes(serving.key)
    return authority.certificate


@contextlib.contextmanager
def running(
    program: str, kubeconfig: Path, folder: Path, keys: Path, hooks: Hooks, health: int, flags: Sequence[str]
) -> Generator[Path]:
    """Gives its log. `keys` is where `write_keys` has written."""
    common = [
        f"--kubeconfig={kubeconfig}",
        f"--webhook-cert-dir={keys}",
        f"--webhook-port={hooks.port}",
        f"--health-addr=127.0.0.1:{health}",
    ]
    with upstream.started(folder, program, [*common, *flags]):
        yield folder / f"{Path(program).name}.log"


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


async def ready(port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not await asyncio.to_thread(is_ready, port):
        assert time.monotonic() < deadline, f"not ready within {READY_SECONDS:.0f} s"
        await asyncio.sleep(0.2)


def until(get: Callable[[], T], holds: Callable[[T], bool], seconds: float) -> T:
    deadline = time.monotonic() + seconds
    while not holds(found := get()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s; last seen: {found}"
        time.sleep(0.2)
    return found


def core(programs: Sequence[str]) -> list[Managing]:
    """Cluster API's own three: core, kubeadm bootstrap, kubeadm control plane."""
    module = folder_of(CLUSTER_API, "cluster-api")
    folders = (module, module / "bootstrap" / "kubeadm", module / "controlplane" / "kubeadm")
    named = zip(CORE, programs, folders, strict=True)
    return [Managing(name, program, folder, CONTRACT) for name, program, folder in named]


async def manage(
    stack: contextlib.AsyncExitStack,
    client: HttpClient,
    managing: Sequence[Managing],
    kubeconfig: Path,
    folder: Path,
    more: Iterable[Object] = (),
) -> None:
    """Defines the kinds, starts the managers, and has the API call their webhooks. `more` are further definitions."""
    ports = upstream.free_ports(2 * len(managing))
    authority = await asyncio.to_thread(write_keys, folder / "webhooks")
    hooks = {each.name: Hooks(ports.pop(), authority) for each in managing}
    found = [
        definition
        for each in managing
        for definition in definitions(each.folder, each.labels, hooks[each.name] if each.converts else None)
    ]
    await define(client, [*found, *more])
    for each in managing:
        health = ports.pop()
        running_ = running(
            each.program, kubeconfig, folder, folder / "webhooks", hooks[each.name], health, [each.silent]
        )
        stack.enter_context(running_)
        await ready(health)
    for each in managing:
        for configuration in webhooks(each.folder, each.name, hooks[each.name]):
            await client.apply(_WEBHOOKS[configuration["kind"]], configuration, field_manager=_INSTALLER)


async def define(client: HttpClient, wanted: Sequence[Object]) -> None:
    for definition in wanted:
        await client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition, field_manager=_INSTALLER)
    deadline = time.monotonic() + READY_SECONDS
    for definition in wanted:
        name = objects.name(definition)
        while not conditions.is_true(await client.get(CUSTOM_RESOURCE_DEFINITIONS, name), "Established"):
            assert time.monotonic() < deadline, f"{name} was not established"
            await asyncio.sleep(0.1)
