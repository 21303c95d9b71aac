"""The roles that ship in examples/rbac: a tenant has the whole life of a claim, and nobody else's kubeconfig."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from steelyard.cli.exits import Exit
from steelyard.kube import pki
from steelyard.kube.client import kubeconfig
from tests.cli.terminal import Terminal
from tests.harness import ROOT, PlatformProcess

CLAIM = """\
apiVersion: compute.steelyard.dev/v1alpha1
kind: WorkloadCluster
metadata: {name: shop}
spec:
  parameters: {environment: dev, workerReplicas: 1}
  writeConnectionSecretToRef: {name: shop-connection}
"""


@pytest.fixture
def tenant(platform: PlatformProcess, tmp_path: Path) -> Terminal:
    """The terminal of a member of the group team-a, who has nothing but a kubeconfig."""
    admin = kubeconfig.load(platform.data_dir.kubeconfig).resolve()
    certificate, key = member_of("team-a", platform.data_dir.pki)
    config = kubeconfig.build(
        "platform",
        admin.server,
        certificate_authority=admin.certificate_authority,
        client_certificate=certificate,
        client_key=key,
        namespace="team-a",
    )
    kubeconfig.write(tmp_path / "tenant.yaml", config)
    home = tmp_path / "home"
    return Terminal(home, tmp_path).elsewhere(home, KUBECONFIG=str(tmp_path / "tenant.yaml"))


def member_of(group: str, authority: Path) -> tuple[bytes, bytes]:
    """A client certificate as the platform's own authority signs them: the organisation is the group."""
    signer = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate((authority / "ca.crt").read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
            x509.NameAttribute(NameOID.COMMON_NAME, "jane"),
        ]
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(issuer.not_valid_before_utc)
        .not_valid_after(issuer.not_valid_after_utc)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    pki.check_key(private)
    return made.public_bytes(serialization.Encoding.PEM), private


def test_a_tenant_has_the_whole_life_of_a_claim_and_nobody_elses_kubeconfig(
    platform: PlatformProcess, tenant: Terminal, tmp_path: Path
) -> None:
    admin = Terminal(platform.data_dir.root, tmp_path)
    refused = tenant.quick("get")
    assert refused.code == Exit.FAILED
    assert 'User "jane" cannot list resource' in refused.err

    assert admin.quick("apply", "-f", str(ROOT / "examples" / "rbac")).code == Exit.OK
    flags = ("--environment", "dev", "--worker-replicas", "0", "--wait")
    assert admin.quick("create", "cluster", "other", "-n", "team-b", *flags).code == Exit.OK
    assert admin.quick("create", "cluster", "theirs", "-n", "team-a", *flags).code == Exit.OK

    made = tenant.quick("apply", "-f", "-", given=CLAIM)
    assert (made.code, made.out) == (Exit.OK, "workloadcluster.compute.steelyard.dev/shop created\n")
    assert "+   MachineDeployment shop-md-0" in made.err
    assert "you may not read" not in made.err
    assert "is Ready after" in tenant.quick("wait", "shop", "--for=condition=Ready").err
    assert tenant.quick("get", "-o", "name").out.count("\n") == 2
    told = tenant.quick("describe", "shop").out
    assert told.startswith("WorkloadCluster team-a/shop: Ready")
    assert "shop-control-plane-" in told
    assert tenant.quick("scale", "shop", "--workers", "2", "--wait").code == Exit.OK
    assert "claims:  2, of which 2 ready" in tenant.quick("status").out

    config = tenant.quick("kubeconfig", "shop")
    assert config.code == Exit.OK, config.err
    endpoint = yaml.safe_load(tenant.quick("get", "shop", "-o", "yaml").out)["status"]["endpoint"]
    assert yaml.safe_load(config.out)["clusters"][0]["cluster"]["server"] == endpoint

    for words in (
        ("kubeconfig", "theirs"),
        ("kubeconfig", "other", "-n", "team-b"),
        ("get", "secret", "theirs-kubeconfig"),
        ("get", "secret", "shop-kubeconfig"),
        ("get", "secrets"),
        ("get", "secret", "other-kubeconfig", "-n", "team-b"),
        ("get", "-n", "team-b"),
        ("get", "-A"),
        ("create", "cluster", "x", "-n", "team-b", "--environment", "dev"),
        ("delete", "other", "-n", "team-b", "--yes"),
    ):
        refused = tenant.quick(*words)
        assert (refused.code, refused.out) == (Exit.FAILED, ""), words
        assert "forbidden" in refused.err, words
    assert "name yours with -n" in tenant.quick("get", "-A").err

    elsewhere = CLAIM.replace("{name: shop-connection}", "{name: stolen, namespace: team-b}").replace("shop", "sly")
    assert tenant.quick("apply", "-f", "-", given=elsewhere).code == Exit.FAILED

    assert "deleted after" in tenant.quick("delete", "shop", "--yes").err
    assert "shop-connection" not in admin.quick("get", "secrets", "-n", "team-a", "-o", "name").out
