"""The forms in which a value goes out: JSON, YAML, protobuf. The modules of the latter two are imported when needed."""

from __future__ import annotations

from typing import Any

import orjson

from steelyard.kube import errors
from steelyard.kube.server.bodies.negotiation import Format


def encode(value: Any, format_: Format, *, pretty: bool = False) -> bytes:
    """Raises NotAcceptable for what has no such form."""
    if format_ == "yaml":
        # Few ask for it.
        from steelyard.kube.server.bodies import yamlform

        return yamlform.dump(value)
    if format_ == "protobuf":
        from steelyard.kube.builtin import messages

        encoded = messages.encode(value)
        if encoded is None:
            raise errors.NotAcceptable(
                "only the following media types are accepted: application/json, application/yaml"
            )
        return encoded
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE if pretty else 0)
