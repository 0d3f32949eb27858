"""vLLM's settings on Gaudi: typed, refused where nobody reads them, and budgeted in the startup
probe.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from inferplan.hardware.accelerators import accelerators, lookup, vendor_of_image
from tests.unit.serving.models import GAUDI2, L40S, MOUNT, container_of, deployment_of, vllm

IMAGE = "vault.habana.ai/gaudi-docker/{software}/ubuntu24.04/habanalabs/vllm-{vllm}-ptupstream-2.11.0:latest"


def environment(**fields):
    return {
        each["name"]: each.get("value")
        for each in container_of(vllm(**fields), target=GAUDI2)["env"]
    }


def test_buckets_become_the_variables_of_vllm_gaudi():
    tuning = {
        "bucketingStrategy": "pad",
        "promptBsBucket": {"max": 4},
        "promptQueryBucket": {"min": 128, "step": 128, "max": 4096, "padPercent": 10},
        "promptCtxBucket": {"max": 32},
        "decodeBsBucket": {"min": 1, "step": 16, "max": 64, "padMax": 8},
        "decodeBlockBucket": {"step": 256, "max": 2048},
        "graphReservedMem": 0.3,
        "contiguousPa": False,
    }
    given = {
        key: value for key, value in environment(gaudi=tuning).items() if key.startswith("VLLM_")
    }
    assert {
        "VLLM_BUCKETING_STRATEGY": "pad",
        "VLLM_PROMPT_BS_BUCKET_MAX": "4",
        "VLLM_PROMPT_QUERY_BUCKET_MIN": "128",
        "VLLM_PROMPT_QUERY_BUCKET_STEP": "128",
        "VLLM_PROMPT_QUERY_BUCKET_MAX": "4096",
        "VLLM_PROMPT_QUERY_BUCKET_PAD_PERCENT": "10",
        "VLLM_PROMPT_CTX_BUCKET_MAX": "32",
        "VLLM_DECODE_BS_BUCKET_MIN": "1",
        "VLLM_DECODE_BS_BUCKET_STEP": "16",
        "VLLM_DECODE_BS_BUCKET_MAX": "64",
        "VLLM_DECODE_BS_BUCKET_PAD_MAX": "8",
        "VLLM_DECODE_BLOCK_BUCKET_STEP": "256",
        "VLLM_DECODE_BLOCK_BUCKET_MAX": "2048",
        "VLLM_GRAPH_RESERVED_MEM": "0.3",
        "VLLM_CONTIGUOUS_PA": "false",
    }.items() <= given.items()
    assert not [key for key in environment() if "BUCKET" in key]


def test_the_startup_probe_waits_an_hour_for_the_warm_up_unless_it_is_skipped():
    def seconds(**fields):
        probe = container_of(vllm(**fields), target=GAUDI2)["startupProbe"]
        return probe["periodSeconds"] * probe["failureThreshold"]

    assert seconds() >= 3600
    assert seconds(gaudi={"skipWarmup": True}) < 1200
    assert seconds(warmupSeconds=7200) >= 7200
    assert environment(gaudi={"skipWarmup": True})["VLLM_SKIP_WARMUP"] == "true"


def test_huge_pages_are_the_tables_for_each_card_or_what_the_user_wrote():
    def pages(**fields):
        return container_of(vllm(tensorParallelSize=2, **fields), target=GAUDI2)["resources"][
            "limits"
        ]["hugepages-2Mi"]

    assert pages() == "23600Mi"
    assert pages(resources={"hugepages2Mi": "30000Mi"}) == "30000Mi"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"gaudi": {"promptBsBucket": {"min": 8, "max": 4}}}, "min is 8 and max 4"),
        (
            {"gaudi": {"decodeBsBucket": {"padMax": 4}}},
            "decodeBsBucket are read with bucketingStrategy pad only, and it is exp",
        ),
        (
            {"gaudi": {"bucketingStrategy": "lin", "decodeBsBucket": {"padPercent": 4}}},
            "and it is lin",
        ),
        (
            {"gaudi": {"contiguousPa": True}, "enablePrefixCaching": True},
            "exclude each other on Gaudi",
        ),
        (
            {"env": {"VLLM_PROMPT_QUERY_BUCKET_MAX": "1"}},
            r"use the field gaudi\.promptQueryBucket\.max",
        ),
        (
            {"env": {"VLLM_EXPONENTIAL_BUCKETING": "false"}},
            r"use the field gaudi\.bucketingStrategy",
        ),
        (
            {"env": {"VLLM_DECODE_BLOCK_BUCKET_PAD_MAX": "1"}},
            r"use the field gaudi\.decodeBlockBucket\.padMax",
        ),
    ],
)
def test_a_setting_that_contradicts_another_is_refused_with_the_remedy(fields, words):
    with pytest.raises(ValidationError, match=words):
        vllm(**fields)


def test_settings_of_gaudi_are_refused_on_nvidia():
    [fault] = vllm(gaudi={"bucketingStrategy": "lin"}).errors_on(L40S)
    assert (fault.path, "These settings apply to Gaudi only" in fault.message) == (("gaudi",), True)
    assert list(vllm(gaudi={"bucketingStrategy": "lin"}).errors_on(GAUDI2)) == []


@pytest.mark.parametrize(
    ("software", "release", "fits"),
    [
        *(("1.24.1", release, True) for release in ("0.26.0", "0.24.0")),
        *(("1.24.0", release, True) for release in ("0.21.0", "0.19.1", "0.19.0", "0.17.1")),
        *(("1.23.0", release, True) for release in ("0.17.1", "0.11.2")),
        *(("1.24.0", release, False) for release in ("0.26.0", "0.20.0", "0.21.1", "0.16.0")),
        ("1.24.1", "0.21.0", False),
        ("1.23.0", "0.19.0", False),
    ],
)
def test_an_image_pairs_releases_that_vllm_gaudi_has_validated_together(software, release, fits):
    said = lookup("gaudi-2").unpaired("vllm", IMAGE.format(software=software, vllm=release))
    assert (said is None) == fits
    if said is not None:
        assert "0.26.0, 0.24.0 on 1.24.1" in said


def test_the_tables_own_images_pair_and_belong_to_their_vendor():
    for row in accelerators().values():
        for engine, support in row.engines.items():
            if support.image is not None:
                assert row.unpaired(engine, support.image) is None
                assert vendor_of_image(support.image) == row.vendor.name
    assert vendor_of_image("registry.example/own/vllm:1.0") is None


@pytest.mark.parametrize("fields", [{}, {"tensorParallelSize": 4}], ids=["one", "four"])
def test_a_pod_on_gaudi_starts_vllm_itself_and_writes_its_logs_to_a_volume(fields):
    """The image's entrypoint takes `server` or `benchmark`, and its directory is closed to other
    users (.cd/Dockerfile, v0.26.0).
    """
    marked = replace(MOUNT, marked=True)
    pod = deployment_of(vllm(**fields), target=GAUDI2, weights=marked)["template"]["spec"]
    [server] = pod["containers"]
    assert (server["command"], server["workingDir"]) == (["vllm", "serve"], "/cache")
    told = {each["name"]: each.get("value") for each in server["env"]}
    [mount] = [each for each in server["volumeMounts"] if each["mountPath"] == told["HABANA_LOGS"]]
    [volume] = [each for each in pod["volumes"] if each["name"] == mount["name"]]
    assert volume["emptyDir"]["sizeLimit"]
    assert not mount.get("readOnly")
    [gate] = pod["initContainers"]
    assert "vllm" not in gate["image"]
    assert {each["name"]: each["value"] for each in gate["env"]} == {
        "HABANA_VISIBLE_DEVICES": "void",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }


def test_a_container_that_restarts_finds_the_graphs_that_were_compiled_before():
    path, cleared, megabytes = environment()["PT_HPU_RECIPE_CACHE_CONFIG"].split(",")
    [mount] = [
        each
        for each in container_of(vllm(), target=GAUDI2)["volumeMounts"]
        if path.startswith(f"{each['mountPath']}/")
    ]
    assert (mount["name"], cleared) == ("cache", "False")
    assert int(megabytes) < 20 * 1024
    assert (
        environment(env={"PT_HPU_RECIPE_CACHE_CONFIG": "/elsewhere,False,1"})[
            "PT_HPU_RECIPE_CACHE_CONFIG"
        ]
        == "/elsewhere,False,1"
    )
