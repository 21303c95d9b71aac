"""What Cluster API's own managers make otherwise than ours, of one claim, and why. Patterns as of file names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_EXPIRY: Final = "KubeadmConfig/control-plane annotation machine.cluster.x-k8s.io/certificates-expiry=*"

OURS: Final[Mapping[str, str]] = {}
THEIRS: Final[Mapping[str, str]] = {
    "* older condition *": "conditions as v1beta1 had them, which upstream still writes for its clients; ours "
    "serves v1beta2 alone",
    _EXPIRY: "upstream asks each API server for it, to replace machines before their certificates run out "
    "(spec.rollout.before), which ours does not do",
}
