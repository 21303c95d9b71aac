"""What nobody is shown: values of Secrets, what machines are told at their start, and whatever is called like a secret.

Rather too much than too little: a plan goes into logs and comments of pull requests. That something changes is always
told, the value never is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast

from steelyard.kube.objects import Object

_BOOTSTRAP: Final = ("content", "passwd", "preKubeadmCommands", "postKubeadmCommands", "bootCommands")
_HELD: Final = {
    ("", "Secret"): ("data", "stringData"),
    ("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate"): _BOOTSTRAP,
    ("bootstrap.cluster.x-k8s.io", "KubeadmConfig"): _BOOTSTRAP,
    ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"): _BOOTSTRAP,
}
"""By group and kind: fields that hold secrets whatever they are called."""
_SOUNDS_SECRET: Final = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|private_?-?key|api_?-?key|access_?-?key|kubeconfig|userdata|"
    r"cloudinit|networkdata|(^|[._-])auth$|connectionstring|database_?-?url",
    re.IGNORECASE,
)
_ONLY_NAMES_ONE: Final = re.compile(
    r"(ref|refs|reference|name|namespace|store|storerefs|class|toref|policy|engineversion|selector|enabled|ttl)$",
    re.IGNORECASE,
)
"""`writeConnectionSecretToRef`, `dataSecretName`: where a secret is, and not what it is."""
_LOOKS_SECRET: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|://[^/@\s:]*:[^/@\s{]+@|(^|\s)eyJ[\w-]+\.eyJ[\w-]+\.|"
    r"(password|passwd|token|secret)[=:]\s*\S",
    re.IGNORECASE,
)


def is_secret(obj: Object, path: Sequence[str], *values: Any) -> bool:
    """`path` has the keys on the way to the value; those of list items, in brackets, count as well: an environment
    variable is called so there."""
    group = str(obj.get("apiVersion") or "").rpartition("/")[0]
    held = _HELD.get((group, str(obj.get("kind"))), ())
    return any(step in held or _sounds_secret(step) for step in path) or any(map(_looks_secret, values))


def _sounds_secret(step: str) -> bool:
    """Keys of labels and annotations are names with a domain; what counts is the part behind it."""
    word = step.strip("[]").rpartition("/")[2]
    return bool(_SOUNDS_SECRET.search(word)) and not _ONLY_NAMES_ONE.search(word)


def _looks_secret(value: Any) -> bool:
    if isinstance(value, str):
        return bool(_LOOKS_SECRET.search(value))
    if isinstance(value, list):
        return any(map(_looks_secret, cast("list[Any]", value)))
    return False
