"""The settings that a Composition gives the function: its input.

    apiVersion: function.steelyard.dev/v1alpha1
    kind: Input
    platform: {domain: example.org, ...}     the platform file; without it that of the function itself
    extraResources: true                     for Crossplane before v2, which knows requirements by that name only

The package writes the whole platform file into each Composition, with every default. So another platform file, and a
version with other defaults, is another revision of the Composition, and reaches a claim when somebody says so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import yaml

from steelyard import settings
from steelyard.compose.refusing import Refused
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform, SettingsError

API_VERSION: Final = "function.steelyard.dev/v1alpha1"
KIND: Final = "Input"
_KEPT: Final = 32
"""Platform files whose reading is remembered: one for each revision of Compositions that claims are pinned to."""
_SHOWN: Final = 3


@frozen
class Input:
    platform: Platform
    extra_resources: bool = False


def document(platform: Platform) -> Object:
    """The input by which a Composition has these settings."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "platform": platform.model_dump(mode="json", by_alias=True),
    }


class Inputs:
    """Reads inputs; each platform file once."""

    def __init__(self, own: Platform, infrastructures: tuple[str, ...]) -> None:
        self._own = own
        self._infrastructures = infrastructures
        self._known: OrderedDict[bytes, Input] = OrderedDict()

    def read(self, encoded: bytes, decode: Callable[[], Object]) -> Input:
        """The same bytes are the same settings. Raises `Refused` for an input that cannot be used."""
        if encoded not in self._known:
            self._known[encoded] = self._read(decode())
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(encoded)
        return self._known[encoded]

    def _read(self, given: Object) -> Input:
        if not given:
            return Input(self._own)
        if (given.get("apiVersion"), given.get("kind")) != (API_VERSION, KIND):
            raise Refused(
                "InvalidInput",
                f"the Composition's input for this function is {given.get('kind')} of {given.get('apiVersion')}; it "
                f"must be {KIND} of {API_VERSION}. Take the Composition that steelyard crossplane package writes",
            )
        unknown = sorted(given.keys() - {"apiVersion", "kind", "metadata", "platform", "extraResources"})
        if unknown:
            raise Refused(
                "InvalidInput",
                f"the Composition's input for this function says {', '.join(unknown)[:100]}, which this version does "
                "not know; it knows platform and extraResources",
            )
        platform = self._parsed(objects.mapping(given["platform"])) if "platform" in given else self._own
        return Input(platform, extra_resources=given.get("extraResources") is True)

    def _parsed(self, given: Object) -> Platform:
        try:
            return settings.parse(yaml.safe_dump(given), "platform", infrastructures=self._infrastructures)
        except SettingsError as error:
            problems = [each.message for each in error.problems][:_SHOWN]
            raise Refused(
                "InvalidInput",
                f"the platform file in the Composition's input cannot be used: {'; '.join(problems)}. Correct the "
                "file, and write the package anew",
            ) from error
