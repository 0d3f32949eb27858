"""Keys and certificates of one simulated cluster: its own authority, the server, the administrator, token signing.

They are worth nothing outside 127.0.0.1 and die with the cluster's directory. Nothing here is printed or logged.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from pathlib import Path
from typing import TYPE_CHECKING

from rehearsal.files import write_atomically

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_VALID = datetime.timedelta(days=3650)
_CLOCK_SLACK = datetime.timedelta(days=1)
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
_SERVER_ADDRESSES = ("127.0.0.1", "10.0.0.1")


def write_pki(directory: Path) -> None:
    """Make `ca`, `server`, `admin` (certificate and key each) and the key `tokens.key` in `directory`, mode 0600."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    directory.mkdir(mode=0o700, exist_ok=True)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key)
    _write(directory, "ca", authority, authority_key)
    for name, usage, organization in (
        ("server", ExtendedKeyUsageOID.SERVER_AUTH, "inferplan"),
        ("admin", ExtendedKeyUsageOID.CLIENT_AUTH, "system:masters"),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _leaf(name, organization, usage, key, authority, authority_key)
        _write(directory, name, certificate, key)
    tokens = ec.generate_private_key(ec.SECP256R1())
    write_atomically(directory / "tokens.key", _key_pem(tokens))


def _builder(common_name: str, organization: str, key: EllipticCurvePrivateKey, issuer: x509.Name | None) -> x509.CertificateBuilder:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization), x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SLACK)
        .not_valid_after(now + _VALID)
    )


def _authority(key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        _builder("inferplan-rehearsal", "inferplan", key, None)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )


def _leaf(
    name: str,
    organization: str,
    usage: x509.ObjectIdentifier,
    key: EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: EllipticCurvePrivateKey,
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    names = [x509.DNSName(each) for each in _SERVER_NAMES]
    addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in _SERVER_ADDRESSES]
    return (
        _builder(name, organization, key, authority.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())


def _write(directory: Path, name: str, certificate: x509.Certificate, key: EllipticCurvePrivateKey) -> None:
    from cryptography.hazmat.primitives import serialization

    write_atomically(directory / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))
    write_atomically(directory / f"{name}.key", _key_pem(key))


def kubeconfig_text(pki: Path, server: str, context: str) -> bytes:
    """A kubeconfig of one context with the administrator's certificates inside; JSON, which is YAML too."""

    def inline(name: str) -> str:
        return base64.b64encode((pki / name).read_bytes()).decode()

    admin = {"client-certificate-data": inline("admin.crt"), "client-key-data": inline("admin.key")}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": context, "cluster": {"server": server, "certificate-authority-data": inline("ca.crt")}}],
        "users": [{"name": context, "user": admin}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
    }
    return json.dumps(document, indent=2).encode() + b"\n"
