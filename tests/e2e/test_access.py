"""Who may do what, with the real kubectl: roles, service accounts, tokens, acting as somebody else."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from steelyard.kube.objects import Object
from tests.harness import PlatformProcess
from tests.kubectl import Kubectl

pytestmark = pytest.mark.kubectl


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    with PlatformProcess(tmp_path_factory.mktemp("platform")) as process:
        process.start()
        yield process


@pytest.fixture
def kube(shared: PlatformProcess, kubectl: str, tmp_path: Path, request: pytest.FixtureRequest) -> Kubectl:
    namespace = f"t-{abs(hash(request.node.name)) % 10**8}"
    made = Kubectl(kubectl, shared.data_dir.kubeconfig, tmp_path / "cache", namespace)
    made("create", "namespace", namespace)
    return made


def test_who_am_i(kube: Kubectl) -> None:
    assert "steelyard-admin" in kube("auth", "whoami")
    acting = kube("auth", "whoami", "--as", "jane", "--as-group", "team")
    assert "jane" in acting
    assert "[team system:authenticated]" in acting


def test_may_i(kube: Kubectl) -> None:
    assert kube("auth", "can-i", "delete", "secrets") == "yes\n"
    assert kube.try_("auth", "can-i", "delete", "secrets", "--as", "jane").out == "no\n"
    kube("create", "role", "cleaner", "--verb=delete", "--resource=secrets")
    kube("create", "rolebinding", "cleaner", "--role=cleaner", "--user=jane")
    assert kube("auth", "can-i", "delete", "secrets", "--as", "jane") == "yes\n"
    assert kube.try_("auth", "can-i", "delete", "secrets", "-A", "--as", "jane").out == "no\n"
    listed = kube("auth", "can-i", "--list", "--as", "jane")
    assert any(line.split() == ["secrets", "[]", "[]", "[delete]"] for line in listed.splitlines())


def test_a_service_account_does_what_it_was_granted_and_nothing_else(kube: Kubectl, tmp_path: Path) -> None:
    kube("create", "serviceaccount", "robot")
    robot = kube.with_token(kube("create", "token", "robot", "--duration=1h").strip(), tmp_path)
    user = f"system:serviceaccount:{kube.namespace}:robot"
    assert user in robot("auth", "whoami")
    assert robot.refused("get", "configmaps") == (
        f'Error from server (Forbidden): configmaps is forbidden: User "{user}" cannot list resource "configmaps" '
        f'in API group "" in the namespace "{kube.namespace}"\n'
    )
    kube("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    kube("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={kube.namespace}:robot")
    kube("create", "configmap", "one")
    assert robot.names("configmaps") == ["one"]
    for refused in (
        ("get", "configmaps", "-A"),
        ("get", "configmaps", "-w"),
        ("get", "secrets"),
        ("delete", "configmap", "one"),
        ("delete", "configmaps", "--all"),
        ("label", "configmap", "one", "a=b"),
        ("create", "configmap", "two"),
        ("create", "token", "robot"),
        ("get", "configmaps", "--as", "jane"),
        ("get", "configmaps", "-n", "default"),
    ):
        assert "is forbidden: User" in robot.refused(*refused), refused
    kube("delete", "rolebinding", "reader")
    assert "forbidden" in robot.refused("get", "configmaps")
    kube("delete", "serviceaccount", "robot")
    assert "Unauthorized" in robot.refused("get", "configmaps") or "logged in" in robot.refused("get", "configmaps")


def test_roles_that_gather_others(kube: Kubectl) -> None:
    name = kube.namespace
    kube("create", "clusterrole", f"{name}-all", f"--aggregation-rule=team={name}")
    kube("create", "clusterrole", f"{name}-part", "--verb=get", "--resource=pods")
    kube("label", "clusterrole", f"{name}-part", f"team={name}")
    kube("wait", f"clusterrole/{name}-all", "--for=jsonpath={.rules[0].resources[0]}=pods", "--timeout=90s")
    kube("delete", "clusterrole", f"{name}-all", f"{name}-part")


def test_reconciling_roles(kube: Kubectl) -> None:
    manifest: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "made", "namespace": kube.namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    assert "reconciled" in kube("auth", "reconcile", "-f", "-", stdin=manifest)
    manifest["rules"].append({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]})
    kube("auth", "reconcile", "-f", "-", stdin=manifest)
    assert len(kube.json("get", "role", "made")["rules"]) == 2


def test_nobody_grants_what_they_do_not_hold(kube: Kubectl) -> None:
    kube("create", "rolebinding", "edit", "--clusterrole=edit", "--user=joe")
    kube("create", "role", "granter", "--verb=create", "--resource=roles,rolebindings")
    kube("create", "rolebinding", "granter", "--role=granter", "--user=joe")
    kube("create", "role", "fine", "--verb=get", "--resource=pods", "--as", "joe")
    refused = kube.refused("create", "role", "more", "--verb=get", "--resource=nodes", "--as", "joe")
    assert "is attempting to grant RBAC permissions not currently held" in refused
    assert '{APIGroups:[""], Resources:["nodes"], Verbs:["get"]}' in refused
    refused = kube.refused("create", "rolebinding", "x", "--clusterrole=cluster-admin", "--user=joe", "--as", "joe")
    assert "is attempting to grant RBAC permissions not currently held" in refused


def test_a_claim_reaches_no_further_than_its_author(kube: Kubectl) -> None:
    kube("create", "role", "claims", "--verb=*", "--resource=workloadclusters.compute.steelyard.dev")
    kube("create", "rolebinding", "claims", "--role=claims", "--user=mallory")
    claim: Object = {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "WorkloadCluster",
        "metadata": {"name": "tiny"},
        "spec": {
            "parameters": {"environment": "dev", "workerReplicas": 0},
            "writeConnectionSecretToRef": {"name": "planted", "namespace": "kube-system"},
        },
    }
    refused = kube.refused("apply", "-f", "-", "--as", "mallory", stdin=claim)
    assert "the connection Secret cannot go to namespace kube-system: mallory may not create Secrets there." in refused
    assert "or leave out writeConnectionSecretToRef.namespace" in refused

    claim["spec"]["writeConnectionSecretToRef"] = {"name": "mine"}
    kube("apply", "-f", "-", "--as", "mallory", stdin=claim)
    kube("wait", "--for=condition=Ready", "workloadcluster/tiny", "--timeout=90s")
    assert kube.names("secret", "mine") == ["mine"]
    assert "planted" not in kube.names("secret", "-n", "kube-system")

    claim["spec"]["writeConnectionSecretToRef"] = {"name": "planted", "namespace": "kube-system"}
    kube("apply", "-f", "-", stdin=claim)
    kube.await_names(["planted"], "secret", "-n", "kube-system", "--field-selector", "metadata.name=planted")
    author = kube.json("get", "workloadcluster", "tiny")["metadata"]["annotations"]["steelyard.dev/author"]
    assert author == "steelyard-admin"
    kube("delete", "workloadcluster", "tiny", "--timeout=90s")
    assert "planted" not in kube.names("secret", "-n", "kube-system")


def test_a_certificate_request_says_who_made_it_and_is_approved_by_who_may(kube: Kubectl) -> None:
    name = f"csr-{kube.namespace}"
    kube("create", "clusterrole", name, "--verb=create,get,update", "--resource=certificatesigningrequests,"
         "certificatesigningrequests/approval")  # fmt: skip
    kube("create", "clusterrolebinding", name, f"--clusterrole={name}", "--user=mallory")
    request: Object = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(_request()).decode(),
            "signerName": "example.com/signer",
            "usages": ["client auth"],
            "username": "steelyard-admin",
            "groups": ["system:masters"],
        },
    }
    kube("create", "-f", "-", "--as", "mallory", stdin=request)
    assert kube.json("get", "csr", name)["spec"]["username"] == "mallory"
    refused = kube.refused("certificate", "approve", name, "--as", "mallory")
    assert 'user not permitted to approve requests with signerName "example.com/signer"' in refused
    kube("certificate", "approve", name)
    assert "Approved" in kube("get", "csr", name)


def _request() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mallory")])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)
