from __future__ import annotations

from typing import Any

from aiohttp import web

from steelyard.kube.resources import CONFIG_MAPS, Resource
from tests.kube.client.servers import answering


async def test_aggregated_and_plain_discovery_find_the_same() -> None:
    configmaps = {
        "resource": "configmaps",
        "responseKind": {"kind": "ConfigMap"},
        "scope": "Namespaced",
        "verbs": ["list"],
    }
    aggregated: dict[str, Any] = {
        "/api": [{"metadata": {}, "versions": [{"version": "v1", "resources": [configmaps]}]}],
        "/apis": [
            {
                "metadata": {"name": "g.io"},
                "versions": [
                    {
                        "version": "v1",
                        "resources": [
                            {
                                "resource": "things",
                                "responseKind": {"kind": "Thing"},
                                "scope": "Cluster",
                                "verbs": ["list"],
                            },
                            {
                                "resource": "reviews",
                                "responseKind": {"kind": "R"},
                                "scope": "Cluster",
                                "verbs": ["create"],
                            },
                        ],
                    },
                    {
                        "version": "v1beta1",
                        "resources": [
                            {
                                "resource": "things",
                                "responseKind": {"kind": "Thing"},
                                "scope": "Cluster",
                                "verbs": ["list"],
                            }
                        ],
                    },
                ],
            }
        ],
    }
    thing = {"name": "things", "kind": "Thing", "namespaced": False, "verbs": ["list"]}
    plain: dict[str, Any] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/api/v1": {
            "resources": [
                {"name": "configmaps", "kind": "ConfigMap", "namespaced": True, "verbs": ["list"]},
                {"name": "configmaps/status", "kind": "ConfigMap", "namespaced": True, "verbs": ["list"]},
            ]
        },
        "/apis": {
            "kind": "APIGroupList",
            "groups": [
                {
                    "name": "g.io",
                    "versions": [{"groupVersion": "g.io/v1beta1"}, {"groupVersion": "g.io/v1"}],
                    "preferredVersion": {"groupVersion": "g.io/v1"},
                }
            ],
        },
        "/apis/g.io/v1": {"resources": [thing, {"name": "reviews", "kind": "R", "verbs": ["create"]}]},
        "/apis/g.io/v1beta1": {"resources": [thing]},
    }

    async def answer_aggregated(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": aggregated[request.path]})

    async def answer_plain(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(plain[request.path])

    expected = [CONFIG_MAPS, Resource("g.io", "v1", "things", "Thing", namespaced=False)]
    for handler in (answer_aggregated, answer_plain):
        async with answering(handler) as client:
            assert await client.discover() == expected
