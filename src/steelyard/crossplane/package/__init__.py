"""What Crossplane is to know before the first claim: two packages to be built and pushed, and what goes beside them.

    function/      the package of the function itself: its description, its input's definition, how its image is built
    legacy/        a Configuration: composites without a namespace and their claims, as the documents have them
    namespaced/    a Configuration: the same kinds as composites in a namespace (Crossplane v2); one of the two
    install/       what no package can hold: rights, ProviderConfigs, policies, definitions of our own kinds

Pure: `files` gives the objects of each file, and the command line writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import steelyard
from steelyard.compose.offering import Offering
from steelyard.crossplane.package import configuration, installation, policies, roles
from steelyard.crossplane.package.references import References
from steelyard.kube.objects import Object
from steelyard.settings import Platform


def files(offering: Offering, platform: Platform, references: References) -> Mapping[str, Sequence[Object]]:
    """By the path of the file."""
    return {
        **configuration.function(references),
        **configuration.of_kinds(offering, platform, references),
        **installation.files(platform, references),
        "install/clusterroles.yaml": roles.of(offering, platform, references),
        "install/definitions.yaml": policies.own_definitions(offering, platform),
        "install/policies.yaml": policies.guards(offering, platform),
    }


def dockerfile() -> str:
    """Of the image that goes into the function's package."""
    return f"""\
FROM python:3.12-slim
RUN pip install --no-cache-dir "steelyard[crossplane]=={steelyard.__version__}"
USER 2000
EXPOSE 9443
ENTRYPOINT ["steelyard", "function"]
"""


def notes(platform: Platform) -> list[str]:
    """What will not come about with these settings."""
    found: list[str] = []
    if platform.redis.mode != "helm":
        found.append(
            "redis.mode is process: only a platform that runs by itself makes caches so, and a RedisInstance would "
            "wait for ever; set it to helm in the platform file"
        )
    return found
