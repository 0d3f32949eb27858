"""Records, certificates, kubeconfigs, ports and command lines of a cluster, without starting one."""

from __future__ import annotations

import base64
import json
import socket
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from inferplan.errors import ClusterError
from inferplan.kube.api import Api
from inferplan.progress import Notice, StepFinished, StepStarted, StepWaiting, line_of, plain
from inferplan.rehearsal.cluster import processes
from inferplan.rehearsal.cluster.components import (
    API_SERVER,
    COMPONENTS,
    LISTENING,
    Layout,
    arguments,
    health_url,
    stage_configuration,
)
from inferplan.rehearsal.cluster.pki import kubeconfig_text, write_pki, write_service_certificate
from inferplan.rehearsal.cluster.record import (
    Record,
    cluster_directory,
    forget_record,
    read_record,
    read_target,
    write_record,
)
from inferplan.rehearsal.cluster.startup import (
    PortTakenError,
    Startup,
    free_ports,
    is_free,
    log_tail,
)

_IN_USE = "listen tcp 127.0.0.1:39117: bind: address already in use"
RECORD = Record("uid", "v1.34.4", dict.fromkeys(LISTENING, 1), "digest", "boot")


def test_record_is_read_as_written_until_it_is_deleted(tmp_path):
    write_record(tmp_path, RECORD)
    assert read_record(tmp_path) == RECORD
    forget_record(tmp_path)
    assert read_record(tmp_path) is None


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"ports": {}}, {"ports": None}, {"extra": 1}, {"uid": None, "format": None}],
)
def test_a_record_of_another_format_is_ignored(tmp_path, change):
    write_record(tmp_path, RECORD)
    path = tmp_path / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert read_record(tmp_path) is None


@pytest.mark.parametrize("name", ["a", "local", "a-1", "a" * 40])
def test_plain_names_are_accepted(name):
    assert cluster_directory(name).name == name


def test_the_certificate_names_the_loopback_address_and_the_token_the_administrators_group(
    tmp_path,
):
    write_pki(tmp_path / "pki")
    server = x509.load_pem_x509_certificate((tmp_path / "pki" / "server.crt").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert "127.0.0.1" in [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    assert (tmp_path / "pki" / "admin.csv").read_text().endswith(",admin,admin,system:masters\n")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "pki").iterdir()} == {0o600}


def test_proxy_certificate_is_signed_by_a_separate_authority(tmp_path):
    write_pki(tmp_path / "pki")
    certificates = {
        name: x509.load_pem_x509_certificate((tmp_path / "pki" / f"{name}.crt").read_bytes())
        for name in ("server", "proxy")
    }
    authorities = {
        name: x509.load_pem_x509_certificate((tmp_path / "pki" / f"{name}.crt").read_bytes())
        for name in ("ca", "proxy-ca")
    }

    certificates["proxy"].verify_directly_issued_by(authorities["proxy-ca"])
    certificates["server"].verify_directly_issued_by(authorities["ca"])
    with pytest.raises(ValueError, match="certificate subject does not match"):
        certificates["server"].verify_directly_issued_by(authorities["proxy-ca"])


def test_service_certificate_is_valid_for_servers_and_clients(tmp_path):
    write_pki(tmp_path / "pki")
    write_service_certificate(
        tmp_path / "keda", tmp_path / "pki", ("keda-operator", "keda-operator.keda.svc")
    )
    certificate = x509.load_pem_x509_certificate((tmp_path / "keda" / "tls.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    ).value.get_values_for_type(x509.DNSName)
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value

    certificate.verify_directly_issued_by(
        x509.load_pem_x509_certificate((tmp_path / "keda" / "ca.crt").read_bytes())
    )
    assert names == ["keda-operator", "keda-operator.keda.svc", "localhost"]
    assert set(purposes) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keda").iterdir()} == {0o600}


def test_kubeconfig_contains_context_server_and_authority(tmp_path):
    write_pki(tmp_path / "pki")
    path = tmp_path / "kubeconfig"
    path.write_bytes(kubeconfig_text(tmp_path / "pki", "https://127.0.0.1:1", "inferplan-x"))
    target = read_target(path)

    assert (target.context, target.server) == ("inferplan-x", "https://127.0.0.1:1")
    assert target.authority == (tmp_path / "pki" / "ca.crt").read_bytes()


def test_a_kubeconfig_in_yaml_that_names_a_file_is_read(tmp_path):
    (tmp_path / "ca.pem").write_bytes(b"authority")
    path = tmp_path / "config"
    path.write_text(
        "current-context: a\ncontexts:\n- {name: a, context: {cluster: one}}\n- {name: b,"
        " context: {cluster: two}}\nclusters:\n- {name: one, cluster: {server: https://one,"
        " certificate-authority: ca.pem}}\n- {name: two, cluster: {server: https://two,"
        f" certificate-authority-data: {base64.b64encode(b'x').decode()}}}}}\n"
    )
    assert (read_target(path).server, read_target(path).authority) == ("https://one", b"authority")
    assert (read_target(path, "b").server, read_target(path, "b").authority) == (
        "https://two",
        b"x",
    )


@pytest.mark.parametrize("content", ["", "[]", "a: [", "x", "contexts: 3", "contexts: [1]", "\x00"])
def test_a_file_that_is_not_a_kubeconfig_is_rejected(tmp_path, content):
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ClusterError, match=r"is not a kubeconfig|has no context"):
        read_target(path)


def test_a_missing_kubeconfig_is_rejected(tmp_path):
    with pytest.raises(ClusterError, match="cannot read the kubeconfig"):
        read_target(tmp_path / "none")


def test_ports_are_distinct_and_a_listened_port_is_not_free():
    ports = free_ports()
    assert sorted(ports) == sorted(LISTENING)
    assert len(set(ports.values())) == len(LISTENING)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_free(server.getsockname()[1])


def test_every_component_names_its_cluster_in_its_arguments_and_listens_on_loopback():
    layout = Layout(Path("/state/clusters/x"), dict.fromkeys(LISTENING, 7))
    for component in COMPONENTS:
        words = arguments(component, layout)
        assert any("/state/clusters/x/" in word for word in words), component
        listens = [
            word for word in words if word.startswith(("--bind-address=", "--server-address="))
        ]
        assert component not in LISTENING or [
            word.partition("=")[2].partition(":")[0] for word in listens
        ] == ["127.0.0.1"]
    assert health_url(API_SERVER, layout) == "https://127.0.0.1:7/readyz"
    assert health_url("etcd", layout) is None


def test_processes_with_another_name_or_directory_do_not_belong_to_the_cluster(
    tmp_path, monkeypatch
):
    lines = [
        (1, ["/cache/etcd", f"--data-dir={tmp_path}/etcd"]),
        (2, ["/cache/etcd", f"--data-dir={tmp_path}2/etcd"]),
        (3, ["/bin/tail", "-f", f"{tmp_path}/logs/etcd.log"]),
        (4, ["kwok", f"--kubeconfig={tmp_path}/kubeconfig"]),
    ]
    monkeypatch.setattr(processes, "_command_lines", lambda: lines)
    assert processes.running(tmp_path) == {"etcd": [1], "kwok": [4]}


def test_tail_of_a_log_prefers_error_lines(tmp_path):
    log = tmp_path / "log"
    log.write_text("I0 fine\nE0 first\nI0 fine\nF0 fatal\nI0 goroutine\n")
    assert log_tail(log) == ("E0 first", "F0 fatal")
    assert log_tail(log, start=log.stat().st_size) == ()
    log.write_text("usage\nplain words\n")
    assert log_tail(log) == ("usage", "plain words")
    assert log_tail(tmp_path / "none") == ()


def test_a_port_that_was_taken_is_recognised_in_a_long_line_of_json(tmp_path):
    """kwok 0.8.0 writes the cause behind 300 other characters; a caller starts again with other
    ports.
    """
    line = json.dumps(
        {
            "time": "2026-11-24T22:51:42.986Z",
            "level": "ERROR",
            "source": {"file": "kwok/" * 60},
            "err": _IN_USE,
        }
    )
    program = tmp_path / "kwok.sh"
    program.write_text(f"#!/bin/sh\necho '{line}' >&2\nexit 1\n")
    program.chmod(0o755)
    layout = Layout(tmp_path, free_ports())
    write_pki(layout.pki)
    with pytest.raises(PortTakenError) as error:
        Startup(layout, {"kwok": program}, lambda _: None).start(["kwok"], layout.api(), 1)
    assert any(_IN_USE in each for each in error.value.log_tail)


def test_stage_files_are_joined_as_one_yaml_stream(tmp_path):
    (tmp_path / "a").write_text("a: 1\n")
    (tmp_path / "b").write_text("b: 2\n")
    options, stages = stage_configuration((tmp_path / "a", tmp_path / "b")).split(b"\n---\n", 1)
    assert stages == b"a: 1\n---\nb: 2\n"
    assert json.loads(options)["options"]["enableDebuggingHandlers"] is False


def test_every_event_has_one_line_of_plain_text(capsys):
    events = [
        StepStarted("s", 1, 2, "d"),
        StepWaiting("s", "r", 3.4),
        StepFinished("s", 1, 2, 3.44, "d"),
        Notice("n"),
    ]
    for event in events:
        plain(event)
    assert capsys.readouterr().err.splitlines() == [line_of(event) for event in events]
    assert [line_of(event) for event in events] == [
        "[1/2] s (d)",
        "      s: waiting for r, 3 s so far",
        "[1/2] s: done in 3.4 s, d",
        "note: n",
    ]


def test_an_error_reads_as_one_paragraph_with_the_log_quoted_below():
    error = ClusterError("kwok ended", "try again", log_tail=("a", "b"), log_path="/x.log")
    assert str(error) == "kwok ended (whole log: /x.log). Try again\n    a\n    b"


def test_importing_the_cluster_costs_no_heavy_package():
    code = (
        "import sys, inferplan.rehearsal.cluster; print([m for m in ('cryptography', 'yaml',"
        " 'pulumi', 'rich', 'kubernetes', 'urllib3') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (200, "ok", None),
        (503, "nothing", "HTTP 503"),
        (
            500,
            "[+]ping ok\n[-]informer-sync failed: reason withheld\nreadyz check failed\n",
            "informer-sync",
        ),
        (
            500,
            "".join(f"[-]check-{n} failed: reason withheld\n" for n in range(12)),
            "check-0, check-1 and 10 more of its own checks",
        ),
    ],
)
def test_a_failing_health_check_is_reported_in_a_few_words(
    tmp_path, monkeypatch, status, body, problem
):
    api = Api("https://127.0.0.1:1", tmp_path)
    monkeypatch.setattr(
        api._pool, "request", lambda *_, **__: SimpleNamespace(status=status, data=body.encode())
    )
    assert api.health_problem("https://127.0.0.1:1/readyz", 1) == problem


def test_only_the_api_server_gets_the_token_of_the_administrator(tmp_path, monkeypatch):
    (tmp_path / "admin.csv").write_text("secret,admin,admin,system:masters\n")
    api = Api("https://127.0.0.1:1", tmp_path)
    tokens = {}

    def answer(_, url, headers, **__):
        tokens[url] = headers.get("Authorization")
        return SimpleNamespace(status=200, data=b"{}")

    monkeypatch.setattr(api._pool, "request", answer)
    for url in ("https://127.0.0.1:1/readyz", "http://127.0.0.1:12/healthz"):
        api.health_problem(url, 1)
    api.get("/version")
    server = "https://127.0.0.1:1"
    assert tokens == {
        f"{server}/readyz": "Bearer secret",
        "http://127.0.0.1:12/healthz": None,
        f"{server}/version": "Bearer secret",
    }


def test_a_port_without_a_server_is_reported_in_a_few_words(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    api = Api(f"http://127.0.0.1:{port}", tmp_path)
    assert api.health_problem(f"http://127.0.0.1:{port}/healthz", 1) == "Connection refused"
    with pytest.raises(
        ClusterError, match=rf"the simulated cluster at http://127.0.0.1:{port} does not answer"
    ):
        api.get("/version", 1)
