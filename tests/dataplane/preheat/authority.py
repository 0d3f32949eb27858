"""CAs that nobody knows, and servers' certificates that they sign."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HERE = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
_DAY = datetime.timedelta(days=1)


# All that a strict verifier asks of a CA, as Python is from 3.13 on.
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """A CA that no machine knows."""

    def __init__(self, name: str = "Acme internal CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        unsigned = _unsigned(self._name, self._name, self._key, days=30)
        unsigned = unsigned.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        unsigned = unsigned.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
        )
        self._certificate = unsigned.add_extension(_SIGNS, critical=True).sign(
            self._key, hashes.SHA256()
        )

    @property
    def pem(self) -> bytes:
        """Its own certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def der(self) -> bytes:
        """Its own certificate, binary."""
        return self._certificate.public_bytes(serialization.Encoding.DER)

    @property
    def key_pem(self) -> bytes:
        """Its private key."""
        return self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def server(
        self, folder: Path, names: tuple[x509.GeneralName, ...] = HERE, days: int = 10
    ) -> ssl.SSLContext:
        """What a server called `names` shows, for `days` from yesterday on; its files lie in
        `folder` meanwhile.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "store")])
        made = _unsigned(subject, self._name, key, days=days).add_extension(
            x509.SubjectAlternativeName(names), critical=False
        )
        made = made.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
            critical=False,
        )
        chain, secret = folder / "server.crt", folder / "server.key"
        chain.write_bytes(
            made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, secret)
        return context


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    named = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
    )
    return (
        named.serial_number(x509.random_serial_number())
        .not_valid_before(now - 30 * _DAY)
        .not_valid_after(now + days * _DAY)
    )
