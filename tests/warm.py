"""What a platform loads and works out, loaded and worked out before processes are forked for platforms: commands and
reconcilers, which come when they are asked for; definitions, schemas and rules, which are the same for each. Importing
this does it."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import typer.main

from steelyard import app, controllers
from steelyard.api.clusterapi import definitions
from steelyard.cli import main
from steelyard.compose import offering, shipped
from steelyard.kube.schema import parse
from steelyard.kube.server.expressions import compiling
from steelyard.providers import kvm, redis
from steelyard.settings import Platform


def _load(package: ModuleType) -> None:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


def _warm(platform: Platform) -> None:
    crds = [*shipped.definitions(platform, offering.STANDARD), *definitions.crds()]
    crds += [each for provider in app.PROVIDERS for each in provider.definitions()]
    for definition in crds:
        for version in definition["spec"]["versions"]:
            parse.from_openapi(version["schema"]["openAPIV3Schema"])
    for policy, _ in shipped.guards(platform, offering.STANDARD):
        compiling.compile_(policy["spec"])


dict(typer.main.get_group(main.app).commands)
for package in (controllers, kvm, redis):
    _load(package)
_warm(Platform())
