"""The verbs of `steelyard provider`: a provider of ours by itself, beside Cluster API on any management cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

import steelyard
from steelyard.cli import management, output, session
from steelyard.cli.management import ContextOption, ElectsOption, KubeconfigOption

_NAMESPACE: Final = "steelyard-kvm-system"


def commands() -> typer.Typer:
    provider = typer.Typer(no_args_is_help=True, help="Run a provider beside Cluster API on a management cluster.")
    kvm = typer.Typer(invoke_without_command=True)
    kvm.callback()(run)
    kvm.command("manifests")(manifests)
    provider.add_typer(kvm, name="kvm")
    return provider


def run(
    context_: typer.Context,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NS", help="Where the lease is, by which one of several works.")
    ] = os.environ.get("POD_NAMESPACE") or _NAMESPACE,
    elects: ElectsOption = True,
    health: Annotated[
        str,
        typer.Option(
            "--health-address", metavar="HOST:PORT", help="Where /healthz, /readyz, /metrics are. Empty: nowhere."
        ),
    ] = "",
) -> None:
    """Run the provider of KVM hosts alone, for KVMClusters and KVMMachines of a management cluster.

    Cluster API's own programs must run there, and the definitions of the kinds be installed (manifests). It makes no
    hosts: create a KVMHost for each. Ends with Ctrl-C, and with exit code 1 when another has taken over.

    Example: steelyard provider kvm --kubeconfig management.kubeconfig
    """
    if context_.invoked_subcommand is not None:
        return

    def command() -> None:
        from steelyard.management import running  # here: no other command needs providers

        options = running.Options(
            ("kvm",),
            management.connection_of(kubeconfig, context, os.environ),
            namespace,
            elects=elects,
            health=management.address_of(health) if health else None,
            tell=output.note,
        )
        management.run(options)

    session.guarded(command)


def manifests(
    directory: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where to write them; made if it is not there.")
    ],
    image: Annotated[
        str,
        typer.Option(
            "--image",
            help="The container image of the provider: this program with libvirt's library. Default: "
            "registry.steelyard.local/steelyard with the version of this command.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Write what clusterctl installs the provider from, and makes clusters with.

    metadata.yaml, infrastructure-components.yaml and cluster-template.yaml are what clusterctl expects of a release;
    kvmhost-example.yaml is a KVMHost to begin with. No platform needs to run.

    Example: steelyard provider kvm manifests -o release/
    """

    def command() -> None:
        from steelyard.clusterctl import components, template

        version = steelyard.__version__
        made = components.components(image or f"{components.IMAGE}:v{version}")
        files = {
            "metadata.yaml": output.as_yaml(components.metadata(version)),
            "infrastructure-components.yaml": "---\n".join(map(output.as_yaml, made)),
            "cluster-template.yaml": template.text(),
            "kvmhost-example.yaml": output.as_yaml(components.host_example()),
        }
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (directory / name).write_text(content, encoding="utf-8")
        output.note(f"{len(files)} files of version v{version} are in {directory}")

    session.guarded(command)
