"""Stores behind a CA that no machine knows: read with its certificate, refused without it, and
never asked in another way.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from cryptography.x509 import DNSName

from inferplan.components.handles import CaBundle
from inferplan.components.sources import HubStore, ObjectStore, WebStore

from .authority import Authority
from .conftest import running
from .proxy import Proxy
from .rig import refused, verified
from .web import COMMIT, REPOSITORY

BUNDLE = CaBundle(kind="ConfigMap", name="acme-ca")
PINNED = {"path": REPOSITORY, "revision": COMMIT}
# With the CA known to all tools alike, each kind of source proves its files as it does without TLS.
EVIDENCE = {
    ObjectStore: {"md5", "etag"},
    WebStore: {"second reading"},
    HubStore: {"sha256", "git-sha1"},
}
UNKNOWN = "this server's certificate cannot be verified"


@pytest.fixture(scope="session")
def authority():
    return Authority()


@pytest.fixture
def certificate(authority, tmp_path):
    """What a server of the CA shows."""
    return lambda **how: authority.server(tmp_path, **how)


@pytest.fixture
def proxy(moto):
    """An S3 server of this test alone, since it may come to speak TLS."""
    yield from running(Proxy(moto))


@pytest.fixture
def lent(tmp_path, authority):
    """The mount of the ConfigMap, with the CA's certificate or this in it."""

    def mount(pem=authority.pem):
        folder = tmp_path / "ca"
        folder.mkdir(exist_ok=True)
        (folder / "ca.crt").write_bytes(pem)
        return {"mounts": {"/ca": folder}}

    return mount


@pytest.fixture
def servers(proxy, web, hub, store, repository, put):
    """A server of each kind that holds the model and speaks no TLS yet, with the source at an
    address and the weights that name it.
    """
    put(repository)
    web.put(repository, "tiny-llm")
    return {
        "bucket": (proxy, lambda address: replace(store, endpoint=address), {}),
        "web": (web, lambda address: WebStore(address=address), {}),
        "hub": (hub, lambda address: HubStore(endpoint=address), PINNED),
    }


@pytest.fixture
def behind(request, servers, certificate):
    """A source behind the CA, with the weights that name it and the server."""
    server, source, weights = servers[request.param]
    server.secure(certificate())
    if request.param == "hub":
        server.blobs.secure(certificate())
    return source(server.url), weights, server


def sources(*sampled):
    """Every kind of source; `sampled` ones by default, the others in the full lane."""
    kinds = [
        kind if kind in sampled else pytest.param(kind, marks=pytest.mark.full)
        for kind in ("bucket", "web", "hub")
    ]
    return pytest.mark.parametrize("behind", kinds, indirect=True)


def untouched(preheat, server):
    """Assert that no byte of a file was asked for and none is on the share, staging included."""
    mine = [
        path
        for path in preheat.target.rglob("*")
        if path.is_file() and path.parent.name not in ("locks", "status", "metrics")
    ]
    assert mine == []
    assert server.faults.gets == {}


@sources("bucket")
def test_files_arrive_from_a_server_whose_ca_the_store_names(job, behind, lent, repository):
    source, weights, _server = behind
    preheat = job(source=replace(source, ca=BUNDLE), weights=weights, **lent())
    verified(preheat.run(), preheat, repository)
    assert {
        each["evidence"] for each in json.loads((preheat.directory / "READY").read_text())["files"]
    } == EVIDENCE[type(source)]


@sources("web")
def test_a_ca_that_nobody_named_is_refused_with_the_server_and_the_field(job, behind):
    source, weights, server = behind
    preheat = job(source=source, weights=weights)
    refused(preheat.run(), preheat, 3, UNKNOWN, server.url, "name that under the store's caBundle")
    untouched(preheat, server)


@sources("web")
def test_another_ca_than_the_one_named_is_refused(job, behind, lent):
    source, weights, server = behind
    preheat = job(
        source=replace(source, ca=BUNDLE), weights=weights, **lent(Authority("Acme former CA").pem)
    )
    refused(
        preheat.run(),
        preheat,
        3,
        UNKNOWN,
        server.url,
        "no public CA and no CA of the store's caBundle signed it",
    )
    untouched(preheat, server)


@pytest.fixture
def public(tmp_path):
    """A CA that the image of the Job knows, as it knows the public ones."""
    known = Authority("Public CA")
    (tmp_path / "public.pem").write_bytes(known.pem)
    return known


def in_image(preheat, tmp_path):
    """`preheat` in an image that keeps its public CAs where SSL_CERT_FILE says."""
    preheat.env["SSL_CERT_FILE"] = str(tmp_path / "public.pem")
    return preheat


def test_a_private_hub_may_hand_large_files_over_to_a_server_of_a_public_ca(
    job, hub, repository, public, certificate, lent, tmp_path
):
    hub.secure(certificate())
    hub.blobs.secure(public.server(tmp_path))
    preheat = in_image(
        job(source=HubStore(endpoint=hub.url, ca=BUNDLE), weights=PINNED, **lent()), tmp_path
    )
    verified(preheat.run(), preheat, repository)
    assert hub.blobs.faults.gets


@pytest.mark.full
@pytest.mark.usefixtures("repository")
def test_a_server_behind_the_hub_that_nobody_knows_is_told_by_its_own_name(
    job, hub, certificate, lent, tmp_path
):
    hub.secure(certificate())
    hub.blobs.secure(Authority("Another CA").server(tmp_path))
    preheat = job(source=HubStore(endpoint=hub.url, ca=BUNDLE), weights=PINNED, **lent())
    outcome = preheat.run()
    refused(
        outcome,
        preheat,
        3,
        UNKNOWN,
        hub.blobs.url,
        "no public CA and no CA of the store's caBundle signed it",
    )
    assert "Signature=once" not in outcome.output
    assert not hub.blobs.faults.gets


@pytest.mark.full
@pytest.mark.parametrize("kind", ["bucket", "web", "hub"])
def test_a_server_that_speaks_no_tls_is_never_asked_in_clear(job, servers, kind, lent, certificate):
    server, source, weights = servers[kind]
    address = server.url.replace("http://", "https://")

    settings = {"source": replace(source(address), ca=BUNDLE), "weights": weights, **lent()}

    def speak_tls(_job):
        for each in (server, server.blobs) if kind == "hub" else (server,):
            each.secure(certificate())
        return job(**settings)

    preheat = job(**settings, tuning={"retries": 1, "stall_seconds": 0.5}, repair=speak_tls)
    refused(preheat.run(), preheat, 5, "check that it is up")
    untouched(preheat, server)


@pytest.mark.full
@pytest.mark.parametrize(
    ("shown_for", "words"),
    [
        (
            {"names": (DNSName("minio.example"),)},
            ["write the store's address with a name that the certificate holds"],
        ),
        ({"days": -1}, ["renew the server's certificate"]),
    ],
    ids=["another name", "expired"],
)
@pytest.mark.parametrize("kind", ["bucket", "web", "hub"])
def test_a_certificate_of_the_right_ca_still_has_to_fit(
    job, servers, kind, lent, certificate, shown_for, words
):
    server, source, weights = servers[kind]
    server.secure(certificate(**shown_for))
    preheat = job(source=replace(source(server.url), ca=BUNDLE), weights=weights, **lent())
    refused(preheat.run(), preheat, 3, UNKNOWN, server.url, *words)
    untouched(preheat, server)


@pytest.mark.full
@pytest.mark.parametrize("behind", ["web"], indirect=True)
def test_a_bundle_without_a_certificate_is_refused_before_anybody_is_asked(
    job, behind, authority, lent
):
    source, weights, server = behind
    for content in (b"", b"acme", authority.der, authority.key_pem):
        preheat = job(source=replace(source, ca=BUNDLE), weights=weights, **lent(content))
        refused(
            preheat.run(),
            preheat,
            3,
            "ca.crt: it holds no certificate of a CA",
            "-----BEGIN CERTIFICATE-----",
        )
        untouched(preheat, server)
