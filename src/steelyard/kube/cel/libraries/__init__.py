"""The functions expressions may call: CEL's own, and those Kubernetes 1.34 adds for validation rules."""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.kube.cel.functions import Overload


def every() -> Iterator[Overload]:
    from steelyard.kube.cel.libraries import (
        authorization,
        casts,
        lists,
        network,
        operators,
        optionals,
        quantities,
        strings,
        textformats,
        times,
        versions,
    )

    for module in (
        operators, casts, times, strings, lists, optionals, network, quantities, versions, textformats,
        authorization,
    ):  # fmt: skip
        yield from module.OVERLOADS
