"""Takes out of a text what could be a secret, before it is shown to more people than may read the secret itself.

Two ways, as neither is enough: what looks like one (kubeadm's tokens, keys of certificates, digests, logins in URLs),
and what stands in the machine's bootstrap data and is no ordinary word there. Rather too much is hidden than too
little: the machine's console has all of it, for those who may read that. Pure.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator
from typing import Final

HIDDEN: Final = "******"
_MOST: Final = 4 << 20
"""Characters of bootstrap data, unpacked: many times what an API takes."""
_LOOKS_SECRET: Final = re.compile(
    # Tokens of kubeadm's; keys of certificates, and digests; JSON Web Tokens; logins in URLs; what is long and no word.
    r"(?<![a-z0-9])[a-z0-9]{6}\.[a-z0-9]{16}(?![a-z0-9])|[0-9a-f]{32,}|eyJ[\w-]{8,}(?:\.[\w-]+)*"
    r"|(?<=://)[^/@\s]{1,200}(?=@)|[\w+/=]{60,}",
    re.IGNORECASE | re.ASCII,
)
_WORD: Final = re.compile(r"[^\s\"'`,;:=<>(){}\[\]|&@]{8,}")
_ORDINARY: Final = re.compile(
    # Paths, names of hosts and of Kubernetes' groups, addresses and versions, and what is made of letters alone.
    r"/(?:bin|dev|etc|home|lib|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)/.*"
    r"|/{0,3}[a-z0-9-]+(?:\.[a-z0-9-]+){2,}(?:/.*)?|v?[0-9./-]+|[A-Za-z]+"
)
_NAMED: Final = re.compile(
    r"(?:passw(?:or)?d|passphrase|token|secret|credentials?|(?:private|certificate|api|access)[-_]?key)"
    r"[\"']?\s*[:=]\s*[\"']?([^\s\"'/][^\s\"']{5,})",
    re.IGNORECASE,
)
_PACKED: Final = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")
_GZIP: Final = b"\x1f\x8b"


def hide(text: str, bootstrap_data: bytes = b"") -> str:
    """
    >>> hide("token abcdef.0123456789abcdef is invalid")
    'token ****** is invalid'
    >>> hide("login root/hunter2hunter failed", b"#cloud-config\\npassword: hunter2hunter\\n")
    'login root/****** failed'
    """
    found = {word for each in _unpacked(bootstrap_data) for word in _telling(each) if word in text}
    # The longest first: a shorter one may be a part of it.
    for word in sorted(found, key=lambda each: (-len(each), each)):
        text = text.replace(word, HIDDEN)
    return _LOOKS_SECRET.sub(HIDDEN, text)


def _telling(data: str) -> Iterator[str]:
    for named in _NAMED.finditer(data):
        yield named[1]
        yield named[1].rstrip(",;)]}")
    for word in _WORD.findall(data):
        has_both = any(map(str.isdigit, word)) and any(map(str.isalpha, word))
        if (has_both or len(word) >= 20) and not _ORDINARY.fullmatch(word):
            yield word


def _unpacked(data: bytes) -> Iterator[str]:
    """The text, and those that are files in it, as cloud-init unpacks them."""
    whole = _plain(data)
    yield whole
    left = _MOST
    for packed in _PACKED.finditer(whole):
        try:
            inner = _plain(base64.b64decode(packed[0], validate=True), at_most=left)
        except binascii.Error:
            continue
        left -= len(inner)
        yield inner
        if left <= 0:
            return


def _plain(data: bytes, *, at_most: int = _MOST) -> str:
    if data.startswith(_GZIP):
        try:
            data = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, at_most)
        except zlib.error:
            return ""
    return data[:at_most].decode(errors="replace")
