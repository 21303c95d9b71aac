"""Kinds of Crossplane's provider-sql for PostgreSQL as CustomResourceDefinitions, reduced to facts."""

from __future__ import annotations

from typing import Final

import definitions
import modules
import yaml
from definitions import Json

VERSION: Final = "v1alpha1"
GROUP: Final = "postgresql.sql.crossplane.io"
PLURALS: Final = ("databases", "roles", "grants", "extensions", "schemas", "providerconfigs", "providerconfigusages")


def tables() -> dict[str, Json]:
    """File name to definition."""
    root = modules.folder("github.com/crossplane-contrib/provider-sql") / "package" / "crds"
    return {
        f"{plural}.json": definitions.definition(yaml.safe_load((root / f"{GROUP}_{plural}.yaml").read_text()), VERSION)
        for plural in PLURALS
    }
