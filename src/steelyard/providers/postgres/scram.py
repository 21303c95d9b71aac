"""Whether a password is the one that PostgreSQL has stored, told from its verifier without asking the server.

Noticing a changed password by logging in would need a login's limits, and would be seen; the verifier says the same.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import stringprep
import unicodedata
from typing import Final

_VERIFIER: Final = re.compile(r"SCRAM-SHA-256\$([0-9]{1,7}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")
_MD5: Final = "md5"


def matches(verifier: str, password: str, role: str) -> bool:
    """False also for a verifier that is none: then the password has to be set anew."""
    if verifier.startswith(_MD5):
        digest = hashlib.md5(f"{password}{role}".encode(), usedforsecurity=False).hexdigest()
        return hmac.compare_digest(verifier.encode(), f"{_MD5}{digest}".encode())
    found = _VERIFIER.fullmatch(verifier)
    if found is None:
        return False
    try:
        salt, stored = base64.b64decode(found[2], validate=True), base64.b64decode(found[3], validate=True)
    except binascii.Error:
        return False
    salted = hashlib.pbkdf2_hmac("sha256", _prepared(password).encode(), salt, int(found[1]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return hmac.compare_digest(hashlib.sha256(client_key).digest(), stored)


def _prepared(password: str) -> str:
    """As SASLprep (RFC 4013) has it. What it forbids is taken as it is, as PostgreSQL does."""
    if password.isascii():
        return password
    mapped = "".join(
        " " if stringprep.in_table_c12(each) else each for each in password if not stringprep.in_table_b1(each)
    )
    normalised = unicodedata.normalize("NFKC", mapped)
    return password if not normalised or any(map(_is_forbidden, normalised)) else normalised


def _is_forbidden(character: str) -> bool:
    tables = (
        *(stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4),
        *(stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8),
        *(stringprep.in_table_c9, stringprep.in_table_a1),
    )
    return any(table(character) for table in tables)
