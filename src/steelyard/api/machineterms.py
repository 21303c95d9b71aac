"""What claims, machines and the platform file say of machines in the same words. No models: the platform file is read
at every start, and those of claims and machines are large."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

MACHINE_NAME: Final = "{machine}"
"""In a template: the name of the machine that is made from it."""
MemorySize = Annotated[
    str,
    Field(max_length=16, pattern=r"^([1-9][0-9]?T|[1-9][0-9]{0,4}G|[1-9][0-9]{2,7}M)(i|B)?$"),
]
"""`8Gi`, or as the documents write it, `8GB`: at least 100 MB, and less than 100 TiB."""
CpuTime = Annotated[str, Field(max_length=8, pattern=r"^([1-9][0-9]{0,2}(\.[0-9])?|0\.[1-9]|[1-9][0-9]{2,5}m)$")]
"""`2`, `1.5` or `1500m`: cores' worth of time."""
Server = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9:])?$")]
VolumeName = Annotated[str, Field(max_length=36, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
INITIATOR_PATTERN: Final = r"^iqn\.[0-9]{4}-(0[1-9]|1[0-2])\.[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[a-z0-9.:{}-]+)?$"
IMAGE_PATTERN: Final = r"^((/[A-Za-z0-9_][A-Za-z0-9._-]*)+|[A-Za-z0-9_][A-Za-z0-9._-]*)(@sha256:[0-9a-f]{64})?$"
URI_PATTERN: Final = (
    r"^qemu(:///|\+(ssh|tls)://([a-z_][a-z0-9_-]*@)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?/)"
    r"(system|session)$"
)
HostPath = Annotated[str, Field(max_length=256, pattern=r"^(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$")]
"""Absolute, and without a step upwards. The whole disk is no place to allow."""
InterfaceName = Annotated[str, Field(max_length=15, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
"""As Linux limits them."""
HostName = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
NamespaceName = Annotated[str, Field(max_length=63, pattern=r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$")]
_HOST: Final = r"([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?"
_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
ProxyUrl = Annotated[str, Field(max_length=300, pattern=rf"^https?://{_HOST}/?$")]
MirrorUrl = Annotated[str, Field(max_length=300, pattern=rf"^https?://{_HOST}(/[A-Za-z0-9._-]+)*/?$")]
Registry = Annotated[str, Field(max_length=300, pattern=rf"^(\*|{_HOST})$")]
Unproxied = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.*:/_-]+$")]
Domain = Annotated[str, Field(max_length=200, pattern=rf"^{_LABEL}(\.{_LABEL})*$")]
Duration = Annotated[str, Field(max_length=7, pattern=r"^[1-9][0-9]{0,5}(s|m|h)$")]
MaxPerCore = Annotated[int, Field(ge=0, le=10_000_000)]
LeastConnections = Annotated[int, Field(ge=0, le=100_000_000)]
