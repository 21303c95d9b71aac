"""Encryption at rest: values of chosen keys are on disk only as AES-256-GCM, sealed to their key and revision.

    0x01 | id of the encryption key, 8 bytes | nonce, 12 bytes | ciphertext and tag

JSON never begins with 0x01, so clear values from before are told apart and stay readable. The nonce is random: one key
is good for 2^32 writes, which is what rotation is for. Memory holds clear values; the checksum of a row covers what is
on disk.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from steelyard.kube.store.errors import CannotDecrypt

KEY_BYTES: Final = 32
_MARK: Final = b"\x01"
_ID_BYTES: Final = 8
_NONCE_BYTES: Final = 12
_HEAD: Final = len(_MARK) + _ID_BYTES
_BODY: Final = _HEAD + _NONCE_BYTES


class Sealer:
    """Seals with the first of its keys, opens with any. Used by several threads."""

    def __init__(self, keys: Sequence[bytes], collections: Sequence[str] = ("core/secrets",)) -> None:
        """`collections` are what is encrypted, as `<group>/<plural>`: `core/secrets` is every space's Secrets."""
        self._marks = tuple(f"/{each}/" for each in collections)
        self._ciphers = {identity(key): AESGCM(key) for key in keys}
        self._first = identity(keys[0])

    @property
    def marks(self) -> Sequence[str]:
        """A key that contains one of these has its value encrypted."""
        return self._marks

    def use(self, key: bytes) -> None:
        """From now on, seals with this key; the others still open."""
        self._ciphers = {**self._ciphers, identity(key): AESGCM(key)}
        self._first = identity(key)

    def seal(self, revision: int, key: str, value: bytes) -> bytes:
        for mark in self._marks:
            if mark in key:
                break
        else:
            return value
        first = self._first
        nonce = os.urandom(_NONCE_BYTES)
        return b"".join((_MARK, first, nonce, self._ciphers[first].encrypt(nonce, value, _context(revision, key))))

    def open(self, revision: int, key: str, value: bytes) -> bytes:
        """Raises CannotDecrypt."""
        if value[:1] != _MARK:
            return value
        identifier = value[1:_HEAD]
        cipher = self._ciphers.get(identifier)
        if cipher is None:
            raise CannotDecrypt(key, revision, identifier.hex(), "is not among the keys given")
        try:
            return cipher.decrypt(value[_HEAD:_BODY], value[_BODY:], _context(revision, key))
        except InvalidTag:
            raise CannotDecrypt(key, revision, identifier.hex(), "does not open it") from None

    def is_current(self, value: bytes) -> bool:
        return value[:1] == _MARK and value[1:_HEAD] == self._first


def identity(key: bytes) -> bytes:
    """Names a key without telling it."""
    return hashlib.sha256(b"steelyard encryption key\0" + key).digest()[:_ID_BYTES]


def open_without_keys(revision: int, key: str, value: bytes) -> bytes:
    """For a store without encryption: what is sealed cannot be read. Raises CannotDecrypt."""
    if value[:1] == _MARK:
        raise CannotDecrypt(key, revision, value[1:_HEAD].hex(), "is needed, and no keys were given")
    return value


def _context(revision: int, key: str) -> bytes:
    return f"{revision}\0{key}".encode()
