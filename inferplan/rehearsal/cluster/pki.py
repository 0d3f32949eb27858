"""Keys and certificates of one simulated cluster, valid on 127.0.0.1, and the administrator's
token.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferplan.documents.files import write_atomically
from inferplan.kube.api import admin_token
from inferplan.tables import table

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_TABLE = table("rehearsal/cluster/pki.toml")
_VALID = datetime.timedelta(days=3650)
_CLOCK_SKEW = datetime.timedelta(days=1)


def write_pki(directory: Path) -> None:
    """Write certificate and key of each row of `pki.toml`, `tokens.key` and the token in
    `admin.csv` to `directory`, mode 0600.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    directory.mkdir(mode=0o700, exist_ok=True)
    keys = {
        name: ec.generate_private_key(ec.SECP256R1())
        for name in (*_TABLE["certificates"], "tokens")
    }
    for name, row in _TABLE["certificates"].items():
        signed = certificate(
            name,
            row["organization"],
            keys[name],
            (row["issuer"], keys[row["issuer"]]),
            tuple(row.get("purposes", ())),
        )
        write_atomically(directory / f"{name}.crt", signed.public_bytes(serialization.Encoding.PEM))
    for name, key in keys.items():
        write_atomically(directory / f"{name}.key", private_bytes(key))
    # Not a certificate, whose signature the API server would check at each request.
    write_atomically(
        directory / "admin.csv",
        f"{secrets.token_urlsafe(32)},admin,admin,system:masters\n".encode(),
    )


def private_bytes(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization

    plain = serialization.NoEncryption()
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain
    )


def certificate(
    name: str,
    organization: str,
    key: EllipticCurvePrivateKey,
    issuer: tuple[str, EllipticCurvePrivateKey],
    purposes: tuple[str, ...],
    names: Sequence[str] = _TABLE["names"],
) -> x509.Certificate:
    """A certificate with the DNS `names` that `issuer` signs for `purposes`; without purposes, an
    authority.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def subject(organization: str, common_name: str) -> x509.Name:
        parts = ((NameOID.ORGANIZATION_NAME, organization), (NameOID.COMMON_NAME, common_name))
        return x509.Name([x509.NameAttribute(*part) for part in parts])

    issuer_name = subject("inferplan", _TABLE["authorities"][issuer[0]])
    is_authority = not purposes
    now = datetime.datetime.now(datetime.UTC)
    usages = {"digital_signature": True, **dict.fromkeys(_TABLE["unused"], False)}
    builder = (
        x509.CertificateBuilder()
        .subject_name(issuer_name if is_authority else subject(organization, name))
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(
            x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None),
            critical=True,
        )
        .add_extension(
            x509.KeyUsage(key_cert_sign=is_authority, crl_sign=is_authority, **usages),
            critical=True,
        )
    )
    if is_authority:
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
    else:
        addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in _TABLE["addresses"]]
        builder = (
            builder.add_extension(
                x509.ExtendedKeyUsage([getattr(ExtendedKeyUsageOID, each) for each in purposes]),
                critical=False,
            )
            .add_extension(
                x509.SubjectAlternativeName([*map(x509.DNSName, names), *addresses]), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer[1].public_key()),
                critical=False,
            )
        )
    return builder.sign(issuer[1], hashes.SHA256())


def write_service_certificate(directory: Path, pki: Path, names: tuple[str, ...]) -> None:
    """Write `tls.crt`, `tls.key` and `ca.crt` to `directory`: a server and client with these DNS
    names, signed by the authority in `pki`.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    authority: Any = serialization.load_pem_private_key((pki / "ca.key").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    signed = certificate(
        names[0],
        "inferplan",
        key,
        ("ca", authority),
        ("SERVER_AUTH", "CLIENT_AUTH"),
        (*names, "localhost"),
    )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(directory / "tls.crt", signed.public_bytes(serialization.Encoding.PEM))
    write_atomically(directory / "tls.key", private_bytes(key))
    write_atomically(directory / "ca.crt", (pki / "ca.crt").read_bytes())


def kubeconfig_text(pki: Path, server: str, context: str) -> bytes:
    """A kubeconfig with one context and the administrator's token, as JSON, which is YAML too."""
    authority = base64.b64encode((pki / "ca.crt").read_bytes()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [
            {
                "name": context,
                "cluster": {"server": server, "certificate-authority-data": authority},
            }
        ],
        "users": [{"name": context, "user": {"token": admin_token(pki)}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
    }
    return json.dumps(document, indent=2).encode() + b"\n"
