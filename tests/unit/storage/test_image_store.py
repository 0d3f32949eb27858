"""Stores of OCI images: servers mount the image of their model by its digest."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from inferplan.components.pod_parts import claim_volume
from inferplan.components.serving.demand import timing
from inferplan.components.sources import VolumeClaim
from inferplan.components.storage.image_spec import ImageStoreSpec
from inferplan.documents.errors import InvalidStack
from inferplan.planning.notes import egress_notes
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from tests.plans import ROOT, recorded

EXAMPLE = ROOT / "docs" / "storage" / "Pulumi.images.yaml"
DIGEST = "6b3b1f0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a"
REFERENCE = f"registry.acme.example/models/qwen-3-8b@sha256:{DIGEST}"


def pods(recording) -> dict:
    return {
        each.name: each.inputs["spec"]["template"]["spec"]
        for each in recording
        if each.type.endswith(":Deployment") and each.name != "gateway"
    }


def test_servers_mount_the_image_of_their_model_and_nothing_is_copied():
    recording = recorded(EXAMPLE)
    pod = pods(recording)["qwen-3-8b"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volumes["model"] == {
        "name": "model",
        "image": {"reference": REFERENCE, "pullPolicy": "IfNotPresent"},
    }
    [mount] = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "model"]
    assert mount == {"name": "model", "mountPath": "/models/qwen-3-8b", "readOnly": True}
    assert pod["imagePullSecrets"] == [{"name": "acme-registry"}]
    kinds = {each.type.rpartition(":")[2] for each in recording}
    assert not kinds & {"Job", "PreheatJob", "PersistentVolumeClaim", "PersistentVolume"}


def edited(tmp_path: Path, change) -> Path:
    tree = yaml.safe_load(EXAMPLE.read_text())
    change(
        {key.removeprefix("inferplan:"): each for key, each in tree["config"].items()},
        tree["config"],
    )
    file = tmp_path / "Pulumi.images.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    return file


def test_the_mirror_of_the_stack_has_the_images_of_models_too(tmp_path):
    file = edited(
        tmp_path, lambda sections, _: sections["images"].update(mirror="mirror.acme.example")
    )
    recording = recorded(file)
    [volume] = [each for each in pods(recording)["qwen-3-8b"]["volumes"] if "image" in each]
    assert volume["image"]["reference"] == f"mirror.acme.example/{REFERENCE}"


def models(change: dict):
    return lambda sections, _: sections["models"]["qwen-3-8b"].update(change)


def weights(**change):
    def edit(sections, _config):
        values = {**sections["models"]["qwen-3-8b"]["weights"], **change}
        sections["models"]["qwen-3-8b"]["weights"] = {
            key: value for key, value in values.items() if value is not None
        }

    return edit


def registry(text: str):
    return lambda sections, _: sections["storage"]["images"].update(registry=text)


SHARE = {"kind": "nfs", "server": "nfs.example", "path": "/models", "capacity": "1Ti"}


def with_preheat(sections, _config):
    sections["storage"]["shared"] = SHARE
    sections["models"]["qwen-3-8b"]["preheat"] = {"into": "shared"}


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        (weights(revision="v1.2"), "weights.revision", ("'v1.2' is a tag", "sha256:<64 hex digits>", "crane digest registry.acme.example/models/qwen-3-8b:v1.2")),
        (weights(revision="latest"), "weights.revision", ("latest", "fixed version")),
        (weights(revision=None), "weights", ("revision is missing", "sha256:")),
        (weights(revision="sha256:abc"), "weights.revision", ("sha256:abc",)),
        (weights(path=f"qwen-3-8b@sha256:{DIGEST}"), "weights.path", ("not the repository", "revision")),
        (weights(path="qwen-3-8b:v2"), "weights.path", ("not the repository", "revision")),
        (weights(path="Qwen/Qwen3-8B"), "weights.path", ("lower-case",)),
        (weights(size="2Ti"), "weights.size", ("4096Gi", "disk of pool")),
        (with_preheat, "weights.store", ("kind oci", "Remove preheat")),
        (registry("https://registry.acme.example"), "registry", ("has a scheme", "registry.acme.example")),
        (registry("models"), "registry", ("not a registry", "ghcr.io/acme/models")),
    ],
)  # fmt: skip
def test_what_cannot_work_is_rejected_with_the_remedy(tmp_path, change, path, words):
    with pytest.raises(InvalidStack) as error:
        validate(read_stack(edited(tmp_path, change)))
    lines = [each for each in error.value.lines if f"{path}: " in each]
    matches = [each for each in lines if all(word in each for word in words)]
    assert len(matches) == 1, error.value.lines


def test_an_image_cannot_take_a_preheat(tmp_path):
    def change(sections, _config):
        sections["storage"]["hub"] = {"kind": "huggingFace".lower()}
        sections["models"]["qwen-3-8b"].update(
            weights={"store": "hub", "path": "Qwen/Qwen3-8B", "revision": "a" * 40},
            preheat={"into": "images"},
        )

    with pytest.raises(InvalidStack) as error:
        validate(read_stack(edited(tmp_path, change)))
    assert any("preheat.into" in line for line in error.value.lines), error.value.lines


def test_the_plan_states_disk_and_time_of_each_node():
    settings = validate(read_stack(EXAMPLE))
    [note] = [each for each in egress_notes(settings) if each.startswith("models.qwen-3-8b:")]
    # 17 GiB, packed and unpacked; 17 x 2^30 bytes at 50 MB/s.
    assert "34Gi" in note
    assert "366 s" in note
    assert "Kubernetes 1.35" in note


def test_a_rollout_waits_for_the_pull():
    times = [
        timing(model_bytes=10**10, load_mib_per_second=200, warmup_seconds=60, drain_seconds=60, replicas=2, pulled=pulled)
        for pulled in (0, 10**10)
    ]  # fmt: skip
    assert times[1].progress_deadline - times[0].progress_deadline == 200
    assert times[1].startup == times[0].startup


def test_the_volume_is_that_of_the_registry_and_a_claim_stays_a_claim():
    source = ImageStoreSpec.model_validate(
        {"kind": "oci", "registry": "ghcr.io/acme/models"}
    ).source()
    reference = f"ghcr.io/acme/models/a@sha256:{'b' * 64}"
    image = {"reference": reference, "pull_policy": "IfNotPresent"}
    assert claim_volume("v", source.mount("a", "b" * 64).claim) == {"name": "v", "image": image}
    claim = {"claim_name": "models", "read_only": True}
    assert claim_volume("v", VolumeClaim(name="models")) == {
        "name": "v",
        "persistent_volume_claim": claim,
    }
