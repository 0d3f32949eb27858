"""`inferplan preheat` on a machine that does not know the CA of the store: what it says, and what
helps.
"""

from __future__ import annotations

import pytest
import yaml

from .authority import Authority
from .conftest import running
from .proxy import Proxy
from .test_preview import preheat, project

__all__ = ["project"]
UNKNOWN = (
    "this server's certificate cannot be verified: found certificate signed by unknown authority"
)
FETCH = (
    'kubectl -n inference get secret acme-ca -o \'go-template={{index .data "ca.crt" |'
    " base64decode}}' > ca.crt"
)


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def proxy(moto, authority, tmp_path):
    """The S3 server, behind the CA."""
    for server in running(Proxy(moto)):
        server.secure(authority.server(tmp_path))
        yield server


@pytest.fixture
def ca_file(authority, tmp_path):
    path = tmp_path / "acme.crt"
    path.write_bytes(authority.pem)
    return str(path)


@pytest.fixture
def named(project, tmp_path):  # noqa: ARG001 - the stack has to be there
    """Has the stack name the CA of its store."""
    path = tmp_path / "project" / "stacks" / "Pulumi.tiny.yaml"
    stack = yaml.safe_load(path.read_text())
    stack["config"]["inferplan:storage"]["weights"]["caBundle"] = {"secretName": "acme-ca"}
    path.write_text(yaml.safe_dump(stack))


@pytest.mark.usefixtures("named", "model")
def test_a_ca_that_only_the_cluster_holds_is_told_with_the_command_that_fetches_it(capsys, proxy):
    code, words = preheat(capsys)
    assert code == 3
    assert f"not listed: {proxy.url}: {UNKNOWN}" in words
    assert (
        f"the Job trusts the CA of Secret acme-ca, key ca.crt: fetch it with {FETCH} and add"
        " --ca-bundle ca.crt" in words
    )
    assert "Traceback" not in words


@pytest.mark.full
@pytest.mark.usefixtures("named", "model")
@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_file_with_the_ca_lists_the_source(capsys, monkeypatch, ca_file, way):
    if way == "variable":
        monkeypatch.setenv("INFERPLAN_CA_BUNDLE", ca_file)
    code, words = preheat(capsys, *(["--ca-bundle", ca_file] if way == "option" else []))
    assert code == 0, words
    assert "5 files, 10.0 MiB" in words


@pytest.mark.full
@pytest.mark.usefixtures("named", "model")
def test_a_file_with_another_ca_is_told_as_such(capsys, tmp_path):
    (tmp_path / "other.crt").write_bytes(Authority("Another").pem)
    code, words = preheat(capsys, "--ca-bundle", str(tmp_path / "other.crt"))
    assert code == 3
    assert UNKNOWN in words
    assert f"no public CA and no CA in {tmp_path / 'other.crt'} signed it" in words


@pytest.mark.full
@pytest.mark.usefixtures("project", "model")
def test_a_store_that_names_no_ca_is_told_which_field_to_set(capsys):
    code, words = preheat(capsys)
    assert code == 3
    assert UNKNOWN in words
    assert "name that under storage.weights.caBundle, for the Job" in words
    assert "with --ca-bundle FILE" in words


@pytest.mark.full
@pytest.mark.usefixtures("named", "model")
def test_a_file_that_is_not_there_or_holds_no_certificate_is_refused(capsys, tmp_path):
    code, words = preheat(capsys, "--ca-bundle", str(tmp_path / "none.crt"))
    assert code == 2
    assert "does not exist" in words
    (tmp_path / "empty.crt").write_bytes(b"")
    code, words = preheat(capsys, "--ca-bundle", str(tmp_path / "empty.crt"))
    assert code == 3
    assert "empty.crt: it holds no certificate of a CA" in words
    assert "Traceback" not in words
