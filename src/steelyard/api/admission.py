"""What an API server refuses in a claim for a cluster, beyond types and bounds: CEL rules of the CRD.

They are part of the definition, so that kube-apiserver enforces them as the embedded server does, in a dry run too. A
claim that is stored already is not locked out: what an update leaves as it was is not held against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from steelyard.api import versions

_VERSION: Final = ".parameters.kubernetesVersion"
_CONNECTION: Final = "spec.writeConnectionSecretToRef"
_MADE_BY_CLUSTER_API: Final = "^-(ca|etcd|sa|proxy|(control-plane|md-0)-.*)$"
"""What follows the cluster's name in the names of its Secrets: authorities, and the bootstrap data of machines. The one
with the kubeconfig is missing, since documents ask for it by that name: it is the connection Secret then."""

VERSION_STEPS: Final = versions.step_rules(f".spec{_VERSION}", f".status{_VERSION}")

CONNECTION_NAME: Final[dict[str, Any]] = {
    "rule": (
        f"!has(self.{_CONNECTION}) || (oldSelf.hasValue() && has(oldSelf.value().{_CONNECTION}) && "
        f"oldSelf.value().{_CONNECTION} == self.{_CONNECTION}) || "
        f"!self.{_CONNECTION}.name.startsWith(self.metadata.name + '-') || "
        f"!self.{_CONNECTION}.name.substring(size(self.metadata.name)).matches('{_MADE_BY_CLUSTER_API}')"
    ),
    "messageExpression": (
        "'Cluster API makes a Secret of this name for the cluster itself; choose another, such as ' + "
        "self.metadata.name + '-connection'"
    ),
    "fieldPath": f".{_CONNECTION}.name",
    "optionalOldSelf": True,
}


def offered_infrastructure(infrastructures: Sequence[str]) -> dict[str, Any]:
    """For the field that names one."""
    listed = ", ".join(f"'{each}'" for each in infrastructures)
    offers = ", ".join(infrastructures)
    return {
        "rule": f"self in [{listed}]",
        "messageExpression": f"'this platform cannot make machines of ' + self + '; it offers: {offers}'",
    }
