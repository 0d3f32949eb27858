"""What the tools of a preheat are told of a private CA, and what is made of their words about
certificates.
"""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path

import pytest

from inferplan.components.preheat.payload.certificates import extra_cas, untrusted
from inferplan.components.preheat.payload.errors import Exit, PreheatError
from tests.dataplane.preheat.authority import Authority

TOOLS = ("RCLONE_CA_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")


@pytest.fixture
def public(tmp_path, monkeypatch):
    """The public CAs of this machine, for the time of a test."""
    known = Authority("Public CA")
    (tmp_path / "public.pem").write_bytes(known.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "public.pem"))
    monkeypatch.delenv("RCLONE_CA_CERT", raising=False)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/somebody/else.pem")
    return known


@pytest.fixture
def bundle(tmp_path):
    def write(content):
        path = tmp_path / "ca.crt"
        path.write_bytes(content)
        return str(path)

    return write


def test_every_tool_reads_one_file_with_the_public_cas_and_those_that_were_named(public, bundle):
    first, second = Authority("One"), Authority("Two")
    before = dict(os.environ)
    with extra_cas(bundle(b"# ours\r\n" + first.pem.replace(b"\n", b"\r\n") + second.pem)):
        [path] = {os.environ[name] for name in TOOLS}
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(path)
        assert set(context.get_ca_certs(binary_form=True)) == {public.der, first.der, second.der}
    assert dict(os.environ) == before
    assert not Path(path).exists()


def test_a_private_key_beside_the_certificate_is_not_copied(public, bundle):
    ours = Authority()
    with extra_cas(bundle(ours.key_pem + ours.pem)):
        text = Path(os.environ["SSL_CERT_FILE"]).read_text()
    assert text.count("BEGIN CERTIFICATE") == len((public, ours))
    assert "PRIVATE KEY" not in text


def test_without_a_bundle_nothing_changes():
    before = dict(os.environ)
    with extra_cas(None):
        assert dict(os.environ) == before


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"acme",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        Authority().key_pem,
        Authority().der,
        b"\xff\xfe",
    ],
    ids=["nothing", "words", "no certificate", "a key", "binary", "no text"],
)
def test_what_holds_no_certificate_is_refused_with_its_place(bundle, content):
    path = bundle(content)
    before = dict(os.environ)
    with (
        pytest.raises(
            PreheatError, match=re.escape(f"{path}: it holds no certificate of a CA")
        ) as caught,
        extra_cas(path),
    ):
        raise AssertionError("nobody may be asked")
    assert caught.value.code is Exit.REFUSED
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("message", "server", "found", "remedy"),
    [
        (
            (
                "Failed to lsjson: error in ListJSON: RequestError: send request failed caused by:"
                ' Get "https://minio:9000/b": x509: certificate signed by unknown authority'
            ),
            "https://minio:9000",
            "certificate signed by unknown authority",
            "name that under the store's caBundle",
        ),
        (
            (
                "operation error S3: HeadObject, https response error StatusCode: 0, Head"
                ' "https://minio:9000/b/k": tls: failed to verify certificate: x509: certificate is'
                " valid for minio.example, not minio"
            ),
            "https://minio:9000",
            "certificate is valid for minio.example, not minio",
            "with a name that the certificate holds",
        ),
        (
            (
                'Get "https://hub/resolve": Get "https://cdn.example:8443/blob": tls: failed to'
                " verify certificate: x509: certificate has expired or is not yet valid: current"
                " time 2026-11-21"
            ),
            "https://cdn.example:8443",
            "certificate has expired",
            "renew the server's certificate",
        ),
        (
            (
                "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local"
                " issuer certificate (_ssl.c:1006)"
            ),
            "https://asked",
            "unable to get local issuer certificate",
            "name that under the store's caBundle",
        ),
        (
            (
                "HTTPSConnectionPool(host='hub', port=443): Max retries exceeded (Caused by"
                " SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]"
                " certificate verify failed: Hostname mismatch, certificate is not valid for 'hub'."
                " (_ssl.c:1000)')))"
            ),
            "https://asked",
            "Hostname mismatch",
            "with a name that the certificate holds",
        ),
        (
            (
                "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Missing Authority Key"
                " Identifier (_ssl.c:1029)"
            ),
            "https://asked",
            "Missing Authority Key Identifier",
            "Python 3.12",
        ),
    ],
    ids=[
        "rclone 1.60, unknown",
        "rclone 1.71, name",
        "behind a redirect, expired",
        "httpx",
        "requests, name",
        "a strict Python",
    ],
)
def test_words_about_certificates_become_a_refusal_with_the_server_and_what_to_do(
    message, server, found, remedy
):
    refusal = untrusted(message, "https://asked")
    assert refusal is not None
    assert (refusal.code, refusal.file, refusal.transient) == (Exit.REFUSED, server, False)
    assert (refusal.found or "").startswith(found)
    assert remedy in str(refusal)
    assert refusal.unknown == ("caBundle" in remedy)
    assert "_ssl.c" not in str(refusal)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "503 Service Unavailable",
        "connection refused",
        "http: server gave HTTP response to HTTPS client",
    ],
)
def test_other_words_are_about_something_else(message):
    assert untrusted(message, "https://asked") is None
