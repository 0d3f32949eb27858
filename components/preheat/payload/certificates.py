"""Whom the tools believe: the public CAs of this machine, and beside them those that a store names.

Certificates are always verified; nothing here turns that off. rclone, huggingface_hub and Python each read a variable of their
own, and take what it names in place of the public CAs. So all of them get one file that holds both.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import Exit, PreheatError

VARIABLE = "PREHEAT_CA_BUNDLE"
# rclone's --ca-cert (rclone.org/docs); requests, which huggingface_hub 0 asks with; Go, OpenSSL, and httpx, which later ones ask with
# (huggingface_hub 0.32.0 and 2.4.0; read 2026-11).
_READ_BY_TOOLS = ("RCLONE_CA_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
# Where distributions keep the public CAs, as Go's crypto/x509 looks for them: Debian and Alpine, Fedora, SUSE, macOS.
_PUBLIC = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")

_REFUSALS = re.compile(r"x509: |CERTIFICATE_VERIFY_FAILED")
_REASON = re.compile(r"(?:x509: |certificate verify failed: )([^\n]*?)\s*(?:\(_ssl\.c:[0-9]+\).*)?$", re.DOTALL)
_HOST = re.compile(r"https://[^/\s\"'?]+")
# Words of Go's and OpenSSL's reasons that name another fault than a CA that nobody knows, each with what to do. Python is strict
# about a certificate's form from 3.13 on.
_OTHER_FAULTS = {
    ("is valid for", "is not valid for", "not valid for any names", "mismatch", "cannot validate certificate for"): (
        "write the store's address with a name that the certificate holds, or renew the certificate with this name"
    ),
    ("expired", "not yet valid"): "renew the server's certificate, or set the clock of this machine",
    ("Key Identifier", "not marked critical", "key usage"): (
        "sign it by a CA whose certificates hold key identifiers and key usage, or name an image with Python 3.12 under preheat.image"
    ),
}
_LOOK_SECONDS = 15.0


@dataclass(eq=False)
class UntrustedError(PreheatError):
    """A server's certificate does not prove who it is."""

    unknown: bool = False
    """Whether it is the CA that signed it which nobody knows here."""


def untrusted(message: str, server: str) -> UntrustedError | None:
    """The refusal that a tool's `message` is about, None where it is about something else. `server` is whom it asked, if it does not say."""
    if not _REFUSALS.search(message):
        return None
    hosts, found = _HOST.findall(message), _REASON.search(message)
    reason = found[1][:200] if found else "it cannot be verified"
    remedy = next((remedy for words, remedy in _OTHER_FAULTS.items() if any(word in reason for word in words)), None)
    file, problem = hosts[-1] if hosts else server, "the certificate that this server shows proves nothing here"
    return UntrustedError(Exit.REFUSED, problem, remedy or _known(), file=file, found=reason, unknown=remedy is None)


def _known() -> str:
    """How the CA of a server becomes known."""
    if os.environ.get(VARIABLE):
        return "neither a public CA nor one of the store's caBundle signed it; put the certificate of the CA that did there"
    return "put the certificate of the CA that signed it into a Secret or ConfigMap, and name that under the store's caBundle"


@contextlib.contextmanager
def believing(bundle: str | None) -> Iterator[None]:
    """Has all tools that start meanwhile believe the CAs of the file `bundle` beside the public ones; None changes nothing.

    Raises PreheatError(REFUSED) where the file holds no certificate.
    """
    if bundle is None:
        yield
        return
    named = _certificates(Path(bundle))
    before = {name: os.environ.get(name) for name in (VARIABLE, *_READ_BY_TOOLS)}
    with tempfile.TemporaryDirectory(prefix="ca-") as folder:
        both = Path(folder) / "ca-bundle.pem"
        both.write_bytes(_public() + b"\n" + named)
        os.environ.update({VARIABLE: bundle, **dict.fromkeys(_READ_BY_TOOLS, str(both))})
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def prove(address: str) -> None:
    """Look at the certificate of the server at `address` once. Raises UntrustedError; a server that is down is for others to tell."""
    if not address.startswith("https://"):
        return
    # Nothing here follows a redirection or minds a status: only this server is asked, and only who it is.
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler(), urllib.request.HTTPSHandler()):
        opener.add_handler(handler)
    with contextlib.suppress(OSError, http.client.HTTPException):
        try:
            opener.open(urllib.request.Request(address, method="HEAD"), timeout=_LOOK_SECONDS).close()  # noqa: S310 - https, as seen above
        except urllib.error.URLError as error:
            if refusal := untrusted(str(error.reason), address):
                raise refusal from None


def context() -> ssl.SSLContext:
    """How this program itself verifies certificates: as rclone does, by chain, name and time.

    Python 3.13 would besides refuse CAs without key identifiers, which private ones often are.
    """
    made = ssl.create_default_context()
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return made


def _certificates(path: Path) -> bytes:
    """The certificates in a PEM file, and nothing else of it."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise PreheatError(Exit.REFUSED, "it cannot be read", "name a file that can", file=str(path), found=error.strerror) from None
    found = b"\n".join(_CERTIFICATE.findall(text))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=found.decode() or "none")
    except (ssl.SSLError, ValueError):
        remedy = "put the CA's certificate there as text (-----BEGIN CERTIFICATE-----), which openssl x509 -inform der -in ca.der makes of a binary one"
        raise PreheatError(Exit.REFUSED, "it holds no certificate of a CA", remedy, file=str(path)) from None
    return found + b"\n"


def _public() -> bytes:
    for path in (ssl.get_default_verify_paths().cafile, *_PUBLIC):
        if path and Path(path).is_file():
            return Path(path).read_bytes()
    try:
        import certifi
    except ImportError:
        return b""
    return Path(certifi.where()).read_bytes()
