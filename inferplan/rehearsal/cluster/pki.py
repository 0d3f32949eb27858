"""Keys and certificates of one simulated cluster, valid on 127.0.0.1: authority, server, administrator, tokens, aggregation."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from pathlib import Path
from typing import TYPE_CHECKING

from inferplan.rehearsal.files import write_atomically

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

PROXY_NAME = "proxy"
"""The common name of the API server's certificate towards API servers that it aggregates."""

_VALID = datetime.timedelta(days=3650)
_CLOCK_SKEW = datetime.timedelta(days=1)
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
_SERVER_ADDRESSES = ("127.0.0.1", "10.0.0.1")
# The API server proves who a forwarded request is from by `proxy`; its authority signs nothing else.
_CERTIFICATES = (
    ("ca", "inferplan", "ca", ()),
    ("server", "inferplan", "ca", ("SERVER_AUTH",)),
    ("admin", "system:masters", "ca", ("CLIENT_AUTH",)),
    ("proxy-ca", "inferplan", "proxy-ca", ()),
    (PROXY_NAME, "inferplan", "proxy-ca", ("CLIENT_AUTH",)),
)
"""Name, organization, issuer and purposes of each certificate."""
_AUTHORITY_NAMES = {"ca": "inferplan-rehearsal", "proxy-ca": "inferplan-rehearsal-proxy"}
_NO_KEY_USAGES = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only")


def write_pki(directory: Path) -> None:
    """Write certificate and key of each row of `_CERTIFICATES` and the key `tokens.key` to `directory`, mode 0600."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    directory.mkdir(mode=0o700, exist_ok=True)
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in (*(row[0] for row in _CERTIFICATES), "tokens")}
    for name, organization, issuer, purposes in _CERTIFICATES:
        signed = certificate(name, organization, keys[name], (issuer, keys[issuer]), purposes)
        write_atomically(directory / f"{name}.crt", signed.public_bytes(serialization.Encoding.PEM))
    for name, key in keys.items():
        write_atomically(directory / f"{name}.key", private_bytes(key))


def private_bytes(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization

    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)


def certificate(
    name: str,
    organization: str,
    key: EllipticCurvePrivateKey,
    issuer: tuple[str, EllipticCurvePrivateKey],
    purposes: tuple[str, ...],
    names: tuple[str, ...] = _SERVER_NAMES,
) -> x509.Certificate:
    """A certificate with the DNS `names` that `issuer` signs for `purposes`; without purposes, an authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def subject(organization: str, common_name: str) -> x509.Name:
        parts = ((NameOID.ORGANIZATION_NAME, organization), (NameOID.COMMON_NAME, common_name))
        return x509.Name([x509.NameAttribute(*part) for part in parts])

    issuer_name = subject("inferplan", _AUTHORITY_NAMES[issuer[0]])
    is_authority = not purposes
    now = datetime.datetime.now(datetime.UTC)
    usages = {"digital_signature": True, **dict.fromkeys(_NO_KEY_USAGES, False)}
    builder = (
        x509.CertificateBuilder()
        .subject_name(issuer_name if is_authority else subject(organization, name))
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(x509.KeyUsage(key_cert_sign=is_authority, crl_sign=is_authority, **usages), critical=True)
    )
    if is_authority:
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    else:
        addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in _SERVER_ADDRESSES]
        builder = (
            builder.add_extension(x509.ExtendedKeyUsage([getattr(ExtendedKeyUsageOID, each) for each in purposes]), critical=False)
            .add_extension(x509.SubjectAlternativeName([*map(x509.DNSName, names), *addresses]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer[1].public_key()), critical=False)
        )
    return builder.sign(issuer[1], hashes.SHA256())


def kubeconfig_text(pki: Path, server: str, context: str) -> bytes:
    """A kubeconfig with one context and the administrator's certificates, as JSON, which is YAML too."""

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
