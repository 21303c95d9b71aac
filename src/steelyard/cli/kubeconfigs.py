"""The verb `kubeconfig`: prints one, or adds it to the file that kubectl reads."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli import completing, output, reach, session, targets
from steelyard.cli.exits import CommandError, Exit
from steelyard.cli.reach import Given
from steelyard.cli.session import NamespaceOption, Session
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors, objects
from steelyard.kube.client import kubeconfig as files
from steelyard.kube.client import merging
from steelyard.kube.client.kubeconfig import InvalidKubeconfig, Kubeconfig
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS


def kubeconfig(
    given: Given,
    cluster: Annotated[
        str | None,
        typer.Argument(
            metavar="[CLUSTER]",
            help="A claim's name; without it, the platform administrator's.",
            autocompletion=completing.claims,
        ),
    ] = None,
    namespace: NamespaceOption = "",
    merge: Annotated[
        bool, typer.Option("--merge", help="Add it to the first file of $KUBECONFIG, else to ~/.kube/config.")
    ] = False,
    name: Annotated[
        str, typer.Option("--name", help="With --merge: what context, cluster and user are called there.")
    ] = "",
    use: Annotated[bool, typer.Option("--use", help="With --merge: make it the current context.")] = False,
) -> None:
    """Print a kubeconfig: the platform administrator's, or a cluster's. Or add it to the one that kubectl reads.

    What others have put into that file stays; doing it again changes nothing.

    Example: steelyard kubeconfig dev-cluster --merge
    """
    if (name or use) and not merge:
        session.guarded(_need_merge)
    if cluster is None:
        text = session.guarded(lambda: _administrators(given))
    else:
        wanted = cluster

        async def command(here: Session) -> str:
            return await _of_cluster(here, wanted, namespace)

        text = session.run(given, command)
    if not merge:
        output.result(text)
        return
    looks = "get nodes" if cluster else "get claim -A"
    session.guarded(lambda: _merge(files.parse(text), looks, name=name, use=use))


def _need_merge() -> None:
    raise CommandError("--name and --use are about the file that --merge changes; add --merge", code=Exit.USAGE)


def _administrators(given: Given) -> str:
    server = reach.choose(given)
    if server.data_dir is None:
        raise CommandError(
            "the administrator's kubeconfig is in the platform's data directory, on its machine; name a cluster to get "
            "that one's",
            is_of_server=True,
        )
    return server.data_dir.kubeconfig.read_text()


async def _of_cluster(here: Session, cluster: str, namespace: str) -> str:
    found = await targets.find(here, targets.Target("", cluster), here.namespace(namespace))
    claim = found.obj
    places = [
        objects.mapping(reference)
        for reference in (
            objects.at(claim, "status", "kubeconfigSecret"),
            objects.at(claim, "spec", "writeConnectionSecretToRef"),
        )
        if reference
    ]
    if not objects.at(claim, "status", "kubeconfigSecret"):
        wait = here.hints.steelyard(f"wait {cluster} -n {objects.namespace(claim)}")
        raise CommandError(f"{objects.qualified_name(claim)} has no kubeconfig yet; wait for it: {wait}")
    secret = await _first_readable(here, places, claim)
    return _trusted(secret, str(objects.at(claim, "status", "endpoint") or ""))


async def _first_readable(here: Session, places: list[Object], claim: Object) -> Object:
    """A tenant often may read only the Secret that the claim names."""
    refused: errors.Forbidden | None = None
    for place in places:
        namespace = str(place.get("namespace") or objects.namespace(claim))
        try:
            return await here.client.get(SECRETS, str(place["name"]), namespace)
        except errors.Forbidden as error:
            refused = refused or error
    assert refused is not None
    hint = "" if len(places) > 1 else " Name a Secret that you may read in the claim's spec.writeConnectionSecretToRef."
    raise CommandError(f"{refused.message}.{hint}", is_of_server=True)


def _trusted(secret: Object, endpoint: str) -> str:
    """The kubeconfig in a Secret, if kubectl can be given it: everybody who may write Secrets there can have put in a
    program to run, a file to send, or another server.
    """
    try:
        data = objects.mapping(secret.get("data"))
        config = files.parse(base64.b64decode(str(data.get("value") or data.get("kubeconfig") or "")))
        server = config.resolve().server
        if endpoint and server != endpoint:
            raise InvalidKubeconfig(f"its server is {server}, but the cluster is at {endpoint}")
    except InvalidKubeconfig as error:
        raise CommandError(
            f"the kubeconfig in Secret {objects.qualified_name(secret)} is not one to use: {error}. "
            "Find out who changed it; delete the Secret, and the cluster's control plane makes a new one"
        ) from error
    return config.to_yaml()


def _merge(config: Kubeconfig, looks: str, *, name: str, use: bool) -> None:
    target = files.default_files(os.environ)[0]
    if _is_platforms_own(target):
        raise CommandError(
            f"KUBECONFIG names {target}, which is the platform's own: it is written anew at each start. To change "
            "~/.kube/config instead: KUBECONFIG= steelyard kubeconfig --merge",
            code=Exit.USAGE,
        )
    if name:
        config = merging.renamed(config, name)
    try:
        done = merging.into(target, config, make_current=use)
    except InvalidKubeconfig as error:
        raise CommandError(str(error)) from None
    word = "added to" if done.added else "updated in" if done.changed else "already in"
    output.note(f'context "{done.context}" {word} {target}')
    if done.is_current:
        output.note(f"  it is the current context: kubectl {looks}")
    else:
        output.note(f"  kubectl --context {done.context} {looks}")


def _is_platforms_own(target: Path) -> bool:
    where = DataDir(target.resolve().parent)
    return where.database.exists() and where.kubeconfig == target.resolve()
