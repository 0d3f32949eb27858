"""What nodes of an EC2 pool boot from, and what they are told."""

from __future__ import annotations

import base64

import pytest

from inferplan.components.platforms.aws import launch_template as data
from inferplan.components.platforms.aws.launch_template import root_volume_bytes
from inferplan.pulumi_engine.recording import Recording
from tests.unit.aws.rig import CREATED, L40S, SYSTEM, declared
from tests.unit.aws.test_pools import DL1, GROUP, POOL, TEMPLATE, pool, template, whole


def user_data(recording: Recording) -> str:
    return base64.b64decode(template(recording)["userData"]).decode()


def test_directories_of_stores_are_made_before_the_kubelet_starts_on_whatever_disk_is_mounted_there():
    text = data.al2023(
        local_cache=True, hugepages_bytes=0, directories=["/mnt/k8s-disks/0/inferplan"]
    )
    assert text is not None
    assert "ExecStartPre=/usr/bin/install -d -m 0755 /mnt/k8s-disks/0/inferplan" in text
    assert "kubelet.service.d/30-model-disks.conf" in text
    assert text.index("text/x-shellscript") < text.index("application/node.eks.aws")


def test_a_store_on_the_disks_of_a_pool_has_its_directory_made_on_its_nodes_and_on_no_others():
    pools = {"system": SYSTEM, "p": {**L40S, "size": {"min": 2, "max": 2}}}
    storage = {
        "nvme": {
            "kind": "nodeDisk",
            "pool": "p",
            "path": "/mnt/k8s-disks/0/inferplan",
            "capacity": "400Gi",
        }
    }
    recording = declared(cluster=CREATED, nodePools=pools, storage=storage)
    assert "/mnt/k8s-disks/0/inferplan" in user_data(recording)
    assert "userData" not in recording.one(TEMPLATE, "system").inputs


def test_a_local_cache_joins_the_disks_in_the_words_of_each_image():
    assert '"strategy": "RAID0"' in user_data(pool(localCache=True))
    assert '"ephemeral-storage", "init"' in user_data(
        pool(localCache=True, amiType="BOTTLEROCKET_x86_64_NVIDIA")
    )


def test_bottlerocket_keeps_its_system_apart_from_the_images():
    disks = template(pool(amiType="BOTTLEROCKET_x86_64_NVIDIA"))["blockDeviceMappings"]
    assert [disk["deviceName"] for disk in disks] == ["/dev/xvda", "/dev/xvdb"]


def test_a_first_generation_gaudi_node_sets_huge_pages_aside_and_joins_by_itself():
    recording = whole(DL1)
    text = user_data(recording)
    assert recording.one(GROUP, "p-on-demand").inputs["amiType"] == "CUSTOM"
    assert template(recording)["imageId"] == "ami-0123456789abcdef0"
    assert "vm.nr_hugepages=21000" in text
    assert '"name": "prod"' in text
    assert "--register-with-taints=habana.ai/gaudi=present:NoSchedule" in text
    assert "--node-labels=inferplan.dev/pool=p" in text
    assert [each.name for each in recording.of_type("kubernetes:node.k8s.io/v1:RuntimeClass")] == [
        "runtime-classes-habana"
    ]


def test_user_data_is_what_was_reviewed(snapshot):
    cluster = {
        "name": "c",
        "apiServerEndpoint": "https://e",
        "certificateAuthority": "Q0E=",
        "cidr": "172.20.0.0/16",
    }
    member = {"cluster": cluster, "kubelet": {"flags": ["--node-labels=a=b"]}}
    assert data.al2023(local_cache=True, hugepages_bytes=2 * 2**30, membership=member) == snapshot(
        name="al2023"
    )
    assert data.bottlerocket(local_cache=True, hugepages_bytes=2 * 2**30) == snapshot(
        name="bottlerocket"
    )
    assert data.al2023(local_cache=False, hugepages_bytes=0) is None
    assert data.bottlerocket(local_cache=False, hugepages_bytes=0) is None


@pytest.mark.parametrize(
    ("fields", "images", "gib"),
    [
        ({}, 1, 124),
        ({}, 3, 244),
        ({"localCache": True}, 3, 40),
        ({"rootVolume": {"size": "500Gi"}}, 3, 500),
    ],
)
def test_the_root_volume_holds_two_versions_of_every_image_unless_a_cache_or_a_size_says_otherwise(
    fields, images, gib
):
    assert root_volume_bytes(POOL.validate_python({**L40S, **fields}), images) == gib * 2**30
