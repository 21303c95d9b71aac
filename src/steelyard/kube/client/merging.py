"""Adding a kubeconfig to a file that somebody else keeps, as `~/.kube/config`.

What is not ours stays as it is, also what Steelyard does not understand; an entry of ours is replaced only if it leads
to the same cluster. The file is locked as kubectl locks it, and replaced in one step, readable by its owner only.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final, cast

import yaml

from steelyard import durable
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.client import kubeconfig
from steelyard.kube.client.kubeconfig import Cluster, Context, InvalidKubeconfig, Kubeconfig
from steelyard.kube.objects import Object

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_PATIENCE: Final = 2.0
_SECTIONS: Final = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))


@frozen
class Merged:
    context: str
    added: bool
    """Whether the context is new in the file."""
    changed: bool
    is_current: bool


def renamed(config: Kubeconfig, name: str) -> Kubeconfig:
    """A kubeconfig of one context, in which everything has this name."""
    context = config.contexts[config.current_context]
    return Kubeconfig(
        clusters={name: config.clusters[context.cluster]},
        users={name: config.users[context.user]},
        contexts={name: Context(name, name, context.namespace)},
        current_context=name,
    )


def into(path: Path, config: Kubeconfig, *, make_current: bool = False) -> Merged:
    """Adds the current context of a kubeconfig, with its cluster and user. Raises InvalidKubeconfig.

    A link stays one: what it points to is replaced. The first context of a file becomes its current one.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(path):
        before = _read(path)
        after = _joined(before, config, path)
        name = config.current_context
        if make_current or not after.get("current-context"):
            after["current-context"] = name
        if after != before:
            durable.write(path, yaml.dump(after, Dumper=_DUMPER, sort_keys=False, width=1_000_000).encode())
        elif path.stat().st_mode & 0o077:
            path.chmod(0o600)
        is_new = all(objects.mapping(each).get("name") != name for each in objects.sequence(before.get("contexts")))
        return Merged(name, is_new, after != before, after["current-context"] == name)


def _joined(before: Object, config: Kubeconfig, path: Path) -> Object:
    name = config.current_context
    context = config.contexts[name]
    ours = config.to_object()
    names = {"clusters": context.cluster, "users": context.user, "contexts": name}
    old = {section: _entry(before, section, names[section]) for section, _ in _SECTIONS}
    new = {section: _entry(ours, section, names[section]) for section, _ in _SECTIONS}
    if not _is_ours(old, config.clusters[context.cluster]):
        for section, singular in _SECTIONS:
            if old[section] is not None and old[section] != new[section]:
                raise InvalidKubeconfig(
                    f'{path} has another {singular} named "{names[section]}" already, which was left as it is; '
                    "choose another name with --name"
                )
    after: Object = {"apiVersion": "v1", "kind": "Config", **before}
    for section, _ in _SECTIONS:
        kept = cast("list[Object]", objects.sequence(before.get(section)))
        place = next((index for index, each in enumerate(kept) if each.get("name") == names[section]), len(kept))
        after[section] = [*kept[:place], cast(Object, new[section]), *kept[place + 1 :]]
    return after


def _is_ours(old: dict[str, Object | None], cluster: Cluster) -> bool:
    """Whether the entries are of an earlier merge: its context joins them, and they lead to the same cluster."""
    context = objects.mapping(objects.at(old["contexts"] or {}, "context"))
    theirs = objects.mapping(objects.at(old["clusters"] or {}, "cluster"))
    is_joined = all(
        entry is not None and context.get(key) == entry.get("name")
        for key, entry in (("cluster", old["clusters"]), ("user", old["users"]))
    )
    shown = objects.mapping(kubeconfig.cluster_entry(cluster))
    keys = ("server", "certificate-authority-data")
    return is_joined and any(theirs.get(key) and theirs.get(key) == shown.get(key) for key in keys)


def _entry(document: Object, section: str, name: str) -> Object | None:
    entries = map(objects.mapping, objects.sequence(document.get(section)))
    return next((each for each in entries if each.get("name") == name), None)


def _read(path: Path) -> Object:
    try:
        found: Any = yaml.load(path.read_bytes(), Loader=_LOADER)  # noqa: S506 (the safe loader, in C)
    except FileNotFoundError:
        return {}
    except yaml.YAMLError as error:
        raise InvalidKubeconfig(f"{path} is not valid YAML, and was left as it is: {error}") from error
    document = objects.mapping(found)
    sections = [document.get(section) for section, _ in _SECTIONS]
    if (found != document and found is not None) or any(not isinstance(each, list | None) for each in sections):
        raise InvalidKubeconfig(f"{path} is no kubeconfig, and was left as it is")
    kubeconfig.load(path)
    return document


@contextlib.contextmanager
def _locked(path: Path) -> Generator[None]:
    lock = path.with_name(f"{path.name}.lock")
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            break
        except FileExistsError:
            if time.monotonic() > deadline:
                raise InvalidKubeconfig(
                    f"another program is changing {path}: there is {lock}. If none is, remove that file"
                ) from None
            time.sleep(0.05)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
