"""Objects that are stored as they were made ahead, and known again by that.

Whoever starts a server may have objects that it always begins with. To have them judged, defaulted and merged takes
longer than all the rest of a start, and gives the same bytes each time but for a UID, moments and a revision. So these
bytes can be made ahead, with gaps for what differs:

    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"<uid>","resourceVersion":"<revision>",...

A gap takes the place of a whole JSON string, so no text inside of a string can be taken for one.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from steelyard.frozen import frozen

UID, MOMENT, REVISION, DIGEST = "<uid>", "<moment>", "<revision>", "<digest>"
"""The gaps: what the server gives to an object, when it does that, the number of the write, and a digest of the rest
for whoever made it ahead without knowing all of it."""
DIGITS: Final = 16
"""Of such a digest."""
_FILLED: Final = {
    UID.encode(): rb"[0-9a-f-]{36}",
    MOMENT.encode(): rb"[0-9TZ:-]{20}",
    REVISION.encode(): rb"[1-9][0-9]*",
    DIGEST.encode(): rb"[0-9a-f]{%d}" % DIGITS,
}
_GAPS: Final = re.compile(b'"(%s)"' % b"|".join(_FILLED))


@frozen
class Premade:
    place: str
    """The key without the space: `apiextensions.k8s.io/customresourcedefinitions/clusters.cluster.x-k8s.io`."""
    text: bytes
    """JSON, in the order in which objects are stored."""

    def filled(self, uid: str, moment: str, revision: int) -> bytes:
        values = {
            UID.encode(): uid.encode(),
            MOMENT.encode(): moment.encode(),
            REVISION.encode(): b"%d" % revision,
            DIGEST.encode(): hashlib.sha256(self.text).hexdigest()[:DIGITS].encode(),
        }
        return _GAPS.sub(lambda gap: b'"%s"' % values[gap[1]], self.text)

    def is_what(self, stored: bytes) -> bool:
        """Whether these bytes are the object, whatever fills the gaps: then nobody has changed it."""
        position = 0
        for index, piece in enumerate(_GAPS.split(self.text)):
            if index % 2:
                # A gap: the quotes around it are in neither of the pieces beside it.
                found = _PATTERNS[piece].match(stored, position)
                if found is None:
                    return False
                position = found.end()
            else:
                if not stored.startswith(piece, position):
                    return False
                position += len(piece)
        return position == len(stored)


_PATTERNS: Final = {gap: re.compile(b'"%s"' % values) for gap, values in _FILLED.items()}
