"""Keys and certificates of one simulated cluster: authority, server, administrator, token signing.

They are valid on 127.0.0.1 only and are deleted with the cluster's directory. None of them is printed or logged.
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
_CLOCK_SKEW = datetime.timedelta(days=1)
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
_SERVER_ADDRESSES = ("127.0.0.1", "10.0.0.1")
_CERTIFICATES = (("ca", "inferplan"), ("server", "inferplan"), ("admin", "system:masters"))
_KEY_USAGES = [
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "encipher_only",
    "decipher_only",
]


def write_pki(directory: Path) -> None:
    """Write `ca`, `server`, `admin` (certificate and key each) and the key `tokens.key` to `directory`, mode 0600."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    directory.mkdir(mode=0o700, exist_ok=True)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("ca", "server", "admin", "tokens")}
    for name, organization in _CERTIFICATES:
        certificate = _certificate(name, organization, keys[name], keys["ca"])
        write_atomically(directory / f"{name}.crt", certificate.public_bytes(pem))
    for name, key in keys.items():
        write_atomically(directory / f"{name}.key", key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, plain))


def _certificate(name: str, organization: str, key: EllipticCurvePrivateKey, authority: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def subject(organization: str, common_name: str) -> x509.Name:
        parts = ((NameOID.ORGANIZATION_NAME, organization), (NameOID.COMMON_NAME, common_name))
        return x509.Name([x509.NameAttribute(*part) for part in parts])

    issuer = subject("inferplan", "inferplan-rehearsal")
    is_authority = name == "ca"
    now = datetime.datetime.now(datetime.UTC)
    usages = {usage: usage == "digital_signature" for usage in _KEY_USAGES}
    builder = (
        x509.CertificateBuilder()
        .subject_name(issuer if is_authority else subject(organization, name))
        .issuer_name(issuer)
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
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if name == "server" else ExtendedKeyUsageOID.CLIENT_AUTH
        names = [x509.DNSName(each) for each in _SERVER_NAMES]
        addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in _SERVER_ADDRESSES]
        builder = (
            builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        )
    return builder.sign(authority, hashes.SHA256())


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
