"""scale, and the questions about access."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, Resource
from steelyard.kube.server.call import AUTHENTICATED, User
from tests.kube.server.bench import ADMIN, PARTS, WIDGETS, Bench, decoded, make, widget

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
ACCESS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False)
OTHERS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
RULES = Resource("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False)
WHO = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)


async def test_scale_of_a_custom_resource(bench: Bench) -> None:
    created = await bench.create(WIDGETS, widget("a", {"replicas": 2}))
    status = {"status": {"replicas": 1, "selector": "app=a"}}
    await bench.patch(WIDGETS, "a", status, subresource="status")
    scale = await bench.get(WIDGETS, "a", subresource="scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 1, "selector": "app=a"}
    assert scale["metadata"]["uid"] == created["metadata"]["uid"]
    updated = decoded(
        await bench.call("update", WIDGETS, "a", subresource="scale", body={**scale, "spec": {"replicas": 5}})
    )
    assert updated["spec"] == {"replicas": 5}
    widget_now = await bench.get(WIDGETS, "a")
    assert (widget_now["spec"]["replicas"], widget_now["metadata"]["generation"]) == (5, 2)
    assert widget_now["status"]["replicas"] == 1
    with pytest.raises(errors.Conflict):
        await bench.call("update", WIDGETS, "a", subresource="scale", body=scale)
    patched = await bench.patch(WIDGETS, "a", {"spec": {"replicas": 7}}, subresource="scale")
    assert patched["spec"] == {"replicas": 7}


async def test_scale_of_a_deployment(bench: Bench) -> None:
    pod: Object = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "one"}]}}
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}
    await bench.create(DEPLOYMENTS, make(DEPLOYMENTS, "d", {"selector": selector, "template": pod}))
    scale = await bench.get(DEPLOYMENTS, "d", subresource="scale")
    assert scale["spec"] == {"replicas": 1}
    assert scale["status"] == {"replicas": 0, "selector": "a=b,a in (b,c)"}
    await bench.patch(DEPLOYMENTS, "d", {"spec": {"replicas": 3}}, "strategic", subresource="scale")
    assert (await bench.get(DEPLOYMENTS, "d"))["spec"]["replicas"] == 3


@pytest.mark.parametrize(
    "body, error",
    [
        ([], errors.BadRequest),
        ({"kind": "Widget"}, errors.BadRequest),
        ({"metadata": {"name": "b"}}, errors.BadRequest),
        ({"spec": {"replicas": "x"}}, errors.BadRequest),
        ({"spec": {"replicas": 1}}, errors.BadRequest),
        ({"metadata": {"name": "a"}, "spec": {"replicas": -1}}, errors.Invalid),
        ({"metadata": {"name": "a", "uid": "other"}, "spec": {"replicas": 1}}, errors.Conflict),
    ],
)
async def test_bad_scales(bench: Bench, body: Any, error: type[Exception]) -> None:
    await bench.create(WIDGETS, widget("a", {"replicas": 2}))
    with pytest.raises(error):
        await bench.call("update", WIDGETS, "a", subresource="scale", body=body)


async def test_subresources_that_a_kind_has_not(bench: Bench) -> None:
    await bench.create(PARTS, make(PARTS, "p"))
    for resource, subresource in ((PARTS, "status"), (PARTS, "scale"), (CONFIG_MAPS, "status"), (WIDGETS, "exec")):
        with pytest.raises(errors.NotFound):
            await bench.get(resource, "p", subresource=subresource)
    with pytest.raises(errors.MethodNotAllowed):
        await bench.call("delete", WIDGETS, "p", subresource="status")


async def test_who_am_i(bench: Bench) -> None:
    body: Object = {"kind": WHO.kind, "apiVersion": WHO.api_version}
    groups = ("readers", AUTHENTICATED)
    answer = await bench.create(WHO, body, user=User("eve", groups, "17"))
    assert answer["status"]["userInfo"] == {"username": "eve", "groups": [*groups], "uid": "17"}


async def test_may_i(bench: Bench) -> None:
    body: Object = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"}}}
    assert (await bench.create(ACCESS, body))["status"] == {"allowed": True}
    assert (await bench.create(ACCESS, body, user=User("eve", (AUTHENTICATED,))))["status"]["allowed"] is False
    asked: Object = {"spec": {**body["spec"], "user": "eve", "groups": list(ADMIN.groups)}}
    assert (await bench.create(OTHERS, asked))["status"]["allowed"] is True
    assert (await bench.create(RULES, {"spec": {"namespace": "default"}}))["status"]["incomplete"] is False
    with pytest.raises(errors.BadRequest, match="no namespace on request"):
        await bench.create(RULES, {})
    with pytest.raises(errors.Invalid, match="exactly one of nonResourceAttributes or resourceAttributes"):
        await bench.create(ACCESS, {})
    odd: list[Any] = [[], {"kind": "Pod"}, {"spec": {"resourceAttributes": [], "nonResourceAttributes": 5}}]
    for wrong in odd:
        with pytest.raises(errors.BadRequest):
            await bench.create(ACCESS, wrong)


async def test_questions_are_not_stored(bench: Bench) -> None:
    for verb in ("get", "list", "delete"):
        with pytest.raises(errors.ApiError):
            await bench.call(verb, ACCESS, "x")
