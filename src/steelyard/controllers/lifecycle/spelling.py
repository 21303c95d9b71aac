"""Names that the lifecycle gives to what it makes: by Cluster API's rules, so that upstream would give the same."""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import Final

_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_LONGEST_NAME: Final = 63


def secret_name(cluster: str, purpose: str) -> str:
    return f"{cluster}-{purpose}"


def init_lock_name(cluster: str) -> str:
    return f"{cluster}-lock"


def random_suffix() -> str:
    """Without vowels and look-alikes, as Kubernetes makes generated names, so that none spells a word."""
    return "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(_SUFFIX_LENGTH))


def suffix_of(identity: str) -> str:
    """Like a random one, but always the same for the same identity."""
    number = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "big")
    characters: list[str] = []
    for _ in range(_SUFFIX_LENGTH):
        number, position = divmod(number, len(_SUFFIX_ALPHABET))
        characters.append(_SUFFIX_ALPHABET[position])
    return "".join(characters)


def with_suffix(base: str, suffix: str) -> str:
    """`base-suffix`, the base cut so that the whole is still good for a host name and a label value."""
    return f"{base[: _LONGEST_NAME - len(suffix) - 1]}-{suffix}"


def from_template(template: str, values: dict[str, str], suffix: str) -> str:
    """A name by a `machineNaming.template` such as `{{ .cluster.name }}-{{ .random }}`."""
    text = template
    for variable, value in {**values, ".random": suffix}.items():
        for written in (f"{{{{ {variable} }}}}", f"{{{{{variable}}}}}"):
            text = text.replace(written, value)
    if len(text) <= _LONGEST_NAME:
        return text
    return with_suffix(text[: -len(suffix)].rstrip("-"), suffix) if text.endswith(suffix) else text[:_LONGEST_NAME]


def label_value(name: str) -> str:
    """The name, or where it is too long for a label value a digest of it, in the form upstream uses."""
    if len(name) <= _LONGEST_NAME:
        return name
    digest = base64.urlsafe_b64encode(fnv32a(name.encode()).to_bytes(4, "big")).decode().rstrip("=")
    return f"hash_{digest}_z"


def fnv32a(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
