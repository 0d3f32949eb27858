"""The certificate authorities that the tools trust: the public ones of this machine, and those of the store's caBundle.

Certificates are always verified. rclone, huggingface_hub and Python read different variables, and each takes the file in its
variable instead of the public CAs. So all of them get one file with both.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import Exit, PreheatError

VARIABLE = "PREHEAT_CA_BUNDLE"
# rclone's --ca-cert (rclone.org/docs); requests, used by huggingface_hub 0; Go, OpenSSL, and httpx, used by later versions
# (huggingface_hub 0.32.0 and 2.4.0; read 2026-11).
_READ_BY_TOOLS = ("RCLONE_CA_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
# Where distributions keep the public CAs, as Go's crypto/x509 looks for them: Debian and Alpine, Fedora, SUSE, macOS.
_PUBLIC = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")

_REFUSALS = re.compile(r"x509: |CERTIFICATE_VERIFY_FAILED")
_REASON = re.compile(r"(?:x509: |certificate verify failed: )([^\n]*?)\s*(?:\(_ssl\.c:[0-9]+\).*)?$", re.DOTALL)
_HOST = re.compile(r"https://[^/\s\"'?]+")
# Reasons of Go and OpenSSL other than an unknown CA, each with its remedy. Python is strict about a certificate's form from 3.13 on.
_OTHER_REASONS = {
    ("is valid for", "is not valid for", "not valid for any names", "mismatch", "cannot validate certificate for"): (
        "write the store's address with a name that the certificate holds, or renew the certificate with this name"
    ),
    ("expired", "not yet valid"): "renew the server's certificate, or set the clock of this machine",
    ("Key Identifier", "not marked critical", "key usage"): (
        "sign it by a CA whose certificates hold key identifiers and key usage, or name an image with Python 3.12 under preheat.image"
    ),
}


@dataclass(eq=False)
class UntrustedError(PreheatError):
    """A server's certificate cannot be verified."""

    unknown: bool = False
    """True if the reason is an unknown CA."""


def untrusted(message: str, server: str) -> UntrustedError | None:
    """The error for a tool's `message` about a certificate, None for another message. `server` is named if the message names none."""
    if not _REFUSALS.search(message):
        return None
    hosts, match = _HOST.findall(message), _REASON.search(message)
    reason = match[1][:200] if match else "unknown"
    remedy = next((remedy for words, remedy in _OTHER_REASONS.items() if any(word in reason for word in words)), None)
    file, problem = hosts[-1] if hosts else server, "this server's certificate cannot be verified"
    return UntrustedError(Exit.REFUSED, problem, remedy or _trust_remedy(), file=file, found=reason, unknown=remedy is None)


def _trust_remedy() -> str:
    if os.environ.get(VARIABLE):
        return "no public CA and no CA of the store's caBundle signed it; add the certificate of the CA that did to the bundle"
    return "put the certificate of the CA that signed it into a Secret or ConfigMap, and name that under the store's caBundle"


@contextlib.contextmanager
def extra_cas(bundle: str | None) -> Iterator[None]:
    """Make all tools that start meanwhile trust the CAs of the file `bundle` in addition to the public ones; None changes nothing.

    Raises PreheatError(REFUSED) if the file holds no certificate.
    """
    if bundle is None:
        yield
        return
    extra = _certificates(Path(bundle))
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="ca-") as folder:
        both = Path(folder) / "ca-bundle.pem"
        both.write_bytes(_public() + b"\n" + extra)
        os.environ.update({VARIABLE: bundle, **dict.fromkeys(_READ_BY_TOOLS, str(both))})
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def _certificates(path: Path) -> bytes:
    """The certificates in a PEM file, without anything else in it."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise PreheatError(
            Exit.REFUSED, "the CA bundle cannot be read", "name a readable file", file=str(path), found=error.strerror
        ) from None
    certificates = b"\n".join(_CERTIFICATE.findall(text))
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificates.decode() or "none")
    except (ssl.SSLError, ValueError):
        remedy = "put the CA's certificate there as text (-----BEGIN CERTIFICATE-----), which openssl x509 -inform der -in ca.der makes of a binary one"
        raise PreheatError(Exit.REFUSED, "it holds no certificate of a CA", remedy, file=str(path)) from None
    return certificates + b"\n"


def _public() -> bytes:
    import ssl

    for path in (ssl.get_default_verify_paths().cafile, *_PUBLIC):
        if path and Path(path).is_file():
            return Path(path).read_bytes()
    try:
        import certifi
    except ImportError:
        return b""
    return Path(certifi.where()).read_bytes()
