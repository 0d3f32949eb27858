"""What a stack file may say of the stores that models come from and go to, beyond buckets and
shares.
"""

from __future__ import annotations

import re

import pytest

from tests.unit.stackfile.test_checks import CONFIG, WEIGHTS, lines, only

__all__ = ["lines"]

COMMIT = "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2"
STORES = {
    **CONFIG["storage"],
    "mirror": {"kind": "http", "url": "https://mirror.acme.example/llm"},
    "hub": {"kind": "huggingface"},
    "nas": {"kind": "pvc", "claimName": "models", "capacity": "10Gi"},
    "nvme": {"kind": "nodeDisk", "pool": "l40s", "path": "/mnt/nvme/models", "capacity": "100Gi"},
}
HUB = {"store": "hub", "path": "Qwen/Qwen3-8B", "revision": COMMIT, "size": "16Gi"}


@pytest.fixture
def faults(lines):
    """The faults of a stack with every kind of store, and one model that differs from a sound one."""
    return lambda model=None, **sections: lines(model, **{"storage": STORES, **sections})


@pytest.mark.parametrize(
    "model",
    [
        {"weights": {**WEIGHTS, "store": "mirror"}},
        {
            "weights": {
                **WEIGHTS,
                "store": "mirror",
                "files": {"config.json": None, "model.safetensors": "0" * 64},
            }
        },
        {"weights": HUB},
        {"weights": {**WEIGHTS, "store": "nas"}},
        {"preheat": {"into": "nvme"}},
        {"weights": HUB, "preheat": {"into": "nvme"}},
    ],
    ids=["http", "http with files", "hub", "claim", "node disk", "hub to node disk"],
)
def test_files_may_come_from_and_go_to_every_kind_of_store(faults, model):
    assert faults(model) == ()


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("v1.0", "'v1.0' is not a commit"),
        ("8afb486", "'8afb486' is not a commit"),
        (None, "The revision is missing"),
    ],
)
def test_a_repository_needs_a_whole_commit_and_the_error_says_how_to_find_it(
    faults, revision, words
):
    weights = {key: value for key, value in {**HUB, "revision": revision}.items() if value}
    line = only(faults({"weights": weights}))
    assert "models.chat-model.weights" in line
    assert words in line
    assert f"git ls-remote https://huggingface.co/Qwen/Qwen3-8B {revision or 'HEAD'}" in line


@pytest.mark.parametrize("path", ["qwen", "a/b/c", "/Qwen"])
def test_a_repository_is_an_owner_and_a_name(faults, path):
    assert any(
        "owner/name" in line or "not a path inside" in line
        for line in faults({"weights": {**HUB, "path": path}})
    )


@pytest.mark.parametrize("store", ["mirror", "hub"])
def test_no_engine_reads_a_server_itself(faults, store):
    weights = HUB if store == "hub" else {**WEIGHTS, "store": store}
    line = only(faults({"weights": weights, "preheat": None}))
    assert "which engines cannot read directly" in line
    assert "Add preheat" in line


@pytest.mark.parametrize("into", ["mirror", "hub", "weights"])
def test_a_preheat_into_a_store_that_pods_cannot_mount_is_rejected(faults, into):
    assert "which pods cannot mount. Use one of nas, nvme, shared." in only(
        faults({"preheat": {"into": into}})
    )


def test_only_a_server_needs_its_files_named(faults):
    line = only(faults({"weights": {**WEIGHTS, "files": {"config.json": None}}}))
    assert "files is only for stores of kind http" in line
    assert "preheat.include" in line


def test_a_disk_of_nodes_is_no_source(faults):
    assert "files cannot be copied from it" in only(
        faults({"weights": {**WEIGHTS, "store": "nvme"}})
    )


def test_a_model_runs_on_the_nodes_whose_disks_hold_it(faults):
    line = only(faults({"preheat": {"into": "nvme"}, "pool": "gaudi2"}))
    assert "'nvme' is on the nodes of pool 'l40s', but chat-model runs on 'gaudi2'" in line


@pytest.mark.parametrize(
    ("into", "words"),
    [
        ("nas", "exceeds the free space of store 'nas'"),
        ("nvme", "exceeds the free space of store 'nvme': its models need 120Gi on each node"),
    ],
)
def test_files_larger_than_their_store_are_rejected(faults, into, words):
    line = only(
        faults(
            {
                "weights": {**WEIGHTS, "size": "120Gi"},
                "preheat": {"into": into},
                "tensorParallelSize": 4,
            }
        )
    )
    assert words in line
    assert "120Gi" in line


def test_a_disk_names_a_pool_that_is_there(faults):
    store = {**STORES["nvme"], "pool": "l40"}
    found = faults(storage={**STORES, "nvme": store})
    assert "storage.nvme.pool: Unknown pool 'l40'. Did you mean 'l40s'?" in only(found)


EKS = {
    "provider": "eks",
    "accelerator": "nvidia-l40s",
    "instanceTypes": ["g6e.12xlarge"],
    "zones": ["us-east-1a", "us-east-1b"],
    "localCache": True,
}


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        ({"size": {"min": 1, "max": 4}}, "a node that joins later has an empty disk"),
        (
            {"size": {"min": 2, "max": 2}, "amiType": "BOTTLEROCKET_x86_64_NVIDIA"},
            "cannot create a directory at boot",
        ),
    ],
    ids=["a pool that grows", "Bottlerocket"],
)
def test_a_disk_is_on_nodes_that_stay_and_can_prepare_it(faults, pool, words):
    cluster = {
        "provider": "eks",
        "name": "c",
        "region": "us-east-1",
        "subnets": {
            "us-east-1a": "subnet-0123456789abcdef0",
            "us-east-1b": "subnet-0123456789abcdef1",
        },
    }
    found = faults(
        {"preheat": {"into": "nvme"}}, cluster=cluster, nodePools={"l40s": {**EKS, **pool}}
    )
    assert words in "\n".join(found)


@pytest.mark.parametrize(
    "credentials",
    [
        {"mirror": {"secretName": "chat-model-server-key"}},
        {"hub": {"secretName": "chat-model-server-key"}},
    ],
    ids=["http", "hub"],
)
def test_a_secret_of_a_store_is_not_one_that_this_stack_makes(faults, credentials):
    from inferplan.components.gateway.keys import server_key_secret

    [(store, _)] = credentials.items()
    stores = {
        **STORES,
        store: {**STORES[store], "credentials": {"secretName": server_key_secret("chat-model")}},
    }
    assert "Rename one of them." in only(faults(storage=stores))


CA = {"secretName": "acme-ca"}


@pytest.mark.parametrize(
    ("store", "address"),
    [
        ({"kind": "s3", "bucket": "acme-weights", "endpoint": "http://minio:9000"}, "endpoint"),
        ({"kind": "http", "url": "http://mirror.acme.example/llm"}, "url"),
        ({"kind": "huggingface", "endpoint": "http://hub.acme.example"}, "endpoint"),
    ],
    ids=["s3", "http", "hub"],
)
def test_a_ca_of_a_store_without_tls_is_refused_where_it_stands(faults, store, address):
    line = only(faults(storage={**STORES, "plain": {**store, "caBundle": CA}}))
    assert re.match(rf"s\.yaml:\d+:\d+: storage\.plain\.caBundle: {address} is http://", line)
    assert f"Use https:// in {address}, or remove caBundle." in line


@pytest.mark.parametrize("store", ["shared", "nas", "nvme"])
def test_a_volume_shows_no_certificate(faults, store):
    line = only(faults(storage={**STORES, store: {**STORES[store], "caBundle": CA}}))
    assert f"storage.{store}.caBundle: Unknown field 'caBundle'. Allowed fields:" in line


def test_a_model_that_streams_does_not_name_the_ca_twice(faults):
    stores = {**STORES, "weights": {**STORES["weights"], "caBundle": CA}}
    model = {"preheat": None, "env": {"AWS_CA_BUNDLE": "/etc/ssl/ca.pem"}}
    assert (
        "models.chat-model.env.AWS_CA_BUNDLE: AWS_CA_BUNDLE is also set by"
        " storage.weights.caBundle." in only(faults(model, storage=stores))
    )
    assert faults({**model, "preheat": {"into": "shared"}}, storage=stores) == ()
    assert faults(model) == ()
