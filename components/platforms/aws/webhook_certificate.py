"""The certificate of an admission webhook inside the cluster, derived from the stack's seed so that every update makes the same one."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from typing import NamedTuple

# As long as those of the controller's chart; a new apiKeySeed makes a new certificate.
_FROM, _UNTIL = datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)


class Certificate(NamedTuple):
    """A self-signed certificate and its private key, in PEM."""

    certificate: str
    key: str


def webhook_certificate(seed: str, host: str) -> Certificate:
    """Return the certificate of `host`. Ed25519 signatures have no random part, so the same seed gives the same bytes."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    digest = hmac.new(seed.encode(), f"webhook certificate {host}".encode(), hashlib.sha256).digest()
    key = Ed25519PrivateKey.from_private_bytes(digest)
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "inferplan")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(hashlib.sha256(digest).digest()[:16], "big"))
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    made = builder.sign(key, algorithm=None)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Certificate(made.public_bytes(serialization.Encoding.PEM).decode(), private.decode())
