"""What the readers of a store can reach, and what the plan says where Kubernetes cannot limit that."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pulumi
import pytest
from pydantic import ValidationError

from inferplan.commands import main
from inferplan.components.network import store_edges
from inferplan.components.sources import HubStore, ObjectStore, WebStore, WorkloadIdentity
from inferplan.planning.notes import egress_notes
from inferplan.stackfile.stack import StackSettings
from tests.recorder import declare

ROOT = Path(__file__).resolve().parents[2]
ANY = {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}}
AGENT = {
    "to": [{"ipBlock": {"cidr": "169.254.170.23/32"}}],
    "ports": [{"port": 80, "protocol": "TCP"}],
}


def namespace(name):
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


def block(cidr):
    return {"ipBlock": {"cidr": cidr}}


def rule(peer, *ports):
    return {"to": [peer], "ports": [{"port": port, "protocol": "TCP"} for port in ports]}


def egress(store):
    """The egress rules as the API server gets them."""
    from pulumi_kubernetes.networking import v1 as networking

    from inferplan.components.network import policy

    made = declare(
        lambda: networking.NetworkPolicy(
            "edges", spec=policy({"app": "reader"}, egress=store_edges(store))
        )
    )
    return made.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]["egress"]


def bucket(endpoint, **changes):
    return ObjectStore(
        bucket="acme-weights", prefix="", endpoint=endpoint, credentials="minio", **changes
    )


@pytest.mark.parametrize(
    ("endpoint", "peer"),
    [
        ("http://minio.storage.svc:9000", namespace("storage")),
        ("http://minio.storage.svc.cluster.local:9000", namespace("storage")),
        ("http://minio.storage.svc.cluster.local.:9000", namespace("storage")),
        ("http://MinIO.Storage.svc:9000", namespace("storage")),
        ("http://minio-0.minio-hl.storage.svc:9000", namespace("storage")),
        ("http://minio.storage:9000", namespace("storage")),
        ("http://minio:9000", {"podSelector": {}}),
        ("http://10.20.30.40:9000", block("10.20.30.40/32")),
        ("http://[fd00::7]:9000", block("fd00::7/128")),
        ("https://minio.acme.example:9000", ANY),
        ("https://storage.svc.acme.example:9000", ANY),
        ("https://acme.com:9000", ANY),
        ("https://nas.lan:9000", ANY),
        ("https://weights.ai:9000", ANY),
    ],
)
def test_a_reader_reaches_the_endpoint_of_its_bucket_and_no_more_than_it_must(endpoint, peer):
    assert egress(bucket(endpoint)) == [rule(peer, 9000)]


def test_named_networks_replace_what_the_host_says():
    store = bucket("https://minio.acme.example:9000", networks=("10.20.30.0/24", "10.20.31.0/24"))
    assert egress(store) == [
        {
            "to": [block("10.20.30.0/24"), block("10.20.31.0/24")],
            "ports": [{"port": 9000, "protocol": "TCP"}],
        }
    ]


@pytest.mark.parametrize(
    ("store", "rules"),
    [
        (WebStore(address="http://mirror.files.svc/llm"), [rule(namespace("files"), 80)]),
        (WebStore(address="https://192.0.2.7/llm"), [rule(block("192.0.2.7/32"), 443)]),
        (WebStore(address="https://mirror.acme.example/llm"), [rule(ANY, 443)]),
        (HubStore(endpoint="https://huggingface.co"), [rule(ANY, 443)]),
        (HubStore(endpoint="http://hub.mirrors.svc:8080"), [rule(namespace("mirrors"), 443, 8080)]),
    ],
)
def test_a_preheat_reaches_its_server_or_hub(store, rules):
    assert egress(store) == rules


def identity(**annotations):
    return WorkloadIdentity(
        service_account="llama", annotations=annotations, ready=cast("pulumi.Resource", None)
    )


def test_amazon_s3_stays_open_and_a_role_gets_its_credentials():
    assert egress(ObjectStore(bucket="acme-weights", prefix="")) == [rule(ANY, 443), AGENT]


def test_behind_an_interface_endpoint_pod_identity_needs_no_other_address():
    store = ObjectStore(
        bucket="acme-weights", prefix="", networks=("10.0.7.0/24",), identity=identity()
    )
    assert egress(store) == [rule(block("10.0.7.0/24"), 443), AGENT]


@pytest.mark.parametrize("reader", [identity(role="arn:aws:iam::123456789012:role/llama"), None])
def test_a_role_of_the_service_account_still_reaches_sts(reader):
    store = ObjectStore(
        bucket="acme-weights", prefix="", networks=("10.0.7.0/24",), identity=reader
    )
    assert rule(ANY, 443) in egress(store)


S3 = {"kind": "s3", "bucket": "acme-weights"}
MINIO = {
    **S3,
    "endpoint": "https://minio.acme.example:9000",
    "credentials": {"secretName": "minio"},
}


def notes(store, cluster=None, **model):
    settings = StackSettings.model_validate(
        {
            "cluster": cluster or {"provider": "existing", "context": "c"},
            "nodePools": {
                "gpu": {"provider": "existing", "accelerator": "nvidia-l40s", "nodes": 2}
            },
            "storage": {"weights": store, "unused": {"kind": "huggingface"}},
            "models": {
                "llama": {
                    "engine": "vllm",
                    "pool": "gpu",
                    "weights": {"store": "weights", "path": "llama"},
                    **model,
                }
            },
        }
    )
    return list(egress_notes(settings))


@pytest.mark.parametrize(
    ("store", "words"),
    [
        (
            S3,
            [
                "storage.weights: its readers can reach every IPv4 address on port 443",
                "Amazon S3",
                "storage.weights.networks",
            ],
        ),
        (
            MINIO,
            [
                "on port 9000",
                "host name minio.acme.example",
                "set storage.weights.networks to the networks of its servers.",
            ],
        ),
        (
            {**MINIO, "endpoint": "http://minio.dev:9000"},
            ["If it is a Service, write minio.dev.svc."],
        ),
        ({"kind": "huggingface"}, ["host name huggingface.co", "storage.weights.networks"]),
        (
            {"kind": "http", "url": "http://mirror.acme.example:8080/llm"},
            ["on port 8080", "mirror.acme.example"],
        ),
        ({**S3, "networks": ["10.0.7.0/24"]}, ["AWS STS", "storage.weights.credentials"]),
    ],
)
def test_the_plan_says_which_store_stays_open_and_why(store, words):
    [line] = notes(store)
    assert all(each in line for each in words), line


@pytest.mark.parametrize(
    "store",
    [
        {**MINIO, "endpoint": "http://minio.storage.svc:9000"},
        {**MINIO, "endpoint": "http://10.20.30.40:9000"},
        {**MINIO, "networks": ["10.30.8.0/24"]},
        {"kind": "nfs", "server": "nfs.acme.example", "path": "/export", "capacity": "1Ti"},
    ],
)
def test_a_store_that_is_limited_is_not_mentioned(store):
    assert notes(store) == []


def test_with_pod_identity_networks_are_enough():
    eks = {"provider": "eks", "name": "prod", "region": "eu-central-1"}
    assert notes({**S3, "networks": ["10.0.7.0/24"]}, cluster=eks) == []
    assert len(notes({**S3, "networks": ["10.0.7.0/24"]}, cluster={**eks, "identity": "irsa"})) == 1


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ("10.0.0.1/8", "has host bits set"),
        ("minio", "Use CIDR notation"),
        ("0.0.0.0/0", "metadata"),
        ("169.254.0.0/16", "metadata"),
        ("::/0", "metadata"),
    ],
)
def test_networks_are_networks_and_never_hold_the_metadata_service(network, words):
    with pytest.raises(ValidationError, match=words):
        notes({**MINIO, "networks": [network]})


@pytest.mark.parametrize("arguments", [("plan", "local"), ("check", "local")])
def test_plan_and_check_print_the_line(arguments, tmp_path, monkeypatch, capsys):
    (tmp_path / "stacks").mkdir()
    for name in ("Pulumi.yaml", "inferplan/infra", "policies"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    text = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    (tmp_path / "stacks" / "Pulumi.local.yaml").write_text(
        text.replace("http://minio.storage.svc:9000", "https://minio.acme.example")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    with pytest.raises(SystemExit):
        main.run(arguments)
    printed = " ".join(capsys.readouterr().err.split())
    assert "storage.weights: its readers can reach every IPv4 address on port 443" in printed
    assert "set storage.weights.networks to the networks of its servers" in printed
