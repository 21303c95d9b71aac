"""Where packages are, and in which versions."""

from __future__ import annotations

from typing import Final

import steelyard
from steelyard.frozen import frozen

FUNCTION: Final = "function-steelyard"
"""What the function is called in the cluster; Compositions refer to it by this name."""
CROSSPLANE: Final = ">=v2.0.0"
PROVIDERS: Final = {"provider-kubernetes": "v1.2.1", "provider-sql": "v0.16.0", "provider-helm": "v1.3.0"}
"""Those that were tried, or newer."""
_PUBLISHED: Final = "xpkg.crossplane.io/crossplane-contrib"


@frozen
class References:
    function: str = f"registry.example.org/steelyard/{FUNCTION}:v{steelyard.__version__}"
    """The function's package, with its version."""
    providers: str = _PUBLISHED
    """The folder of a registry that has the providers."""
    namespace: str = "crossplane-system"
    """Where Crossplane runs."""

    @property
    def function_source(self) -> str:
        """Without the version."""
        return self.function.rpartition(":")[0]

    @property
    def function_version(self) -> str:
        return self.function.rpartition(":")[2]
