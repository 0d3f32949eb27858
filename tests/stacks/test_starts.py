"""Every container of every plan starts as its image allows, and claims no device that it did not
request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from inferplan.images.catalogue import facts_of, family_of
from inferplan.images.starts import missing_programs, programs_called, unwritable_paths
from tests.plans import PLANS, ROOT, DeclaredContainer, containers_of, recorded

DEVICES = re.compile(r"nvidia\.com/|habana\.ai/")


def _named_by_the_user(plan: Path) -> set[str]:
    """The images that the plan's file names."""
    return set(re.findall(r"(?:image|rcloneImage): *([^\s,}]+)", plan.read_text()))


def _faults(declared: DeclaredContainer, *, own: set[str]) -> list[str]:
    container, image = declared.container, str(declared.container["image"])
    facts = facts_of(image) or (family_of(image) if image in own else None)
    if facts is None and image not in own:
        return [f"{declared}: {image} has no row"]
    command = list(container.get("command") or [])
    keeps = facts is not None and facts.keeps_entrypoint
    faults = [] if command or declared.by_kuberay or keeps else [f"{declared}: no command"]
    if not container.get("workingDir") and not (declared.by_kuberay and facts is None):
        faults.append(f"{declared}: no workingDir")
    if facts is None:
        return faults
    words = [*command, *(container.get("args") or [])]
    faults += (
        [f"{declared}: {image} has no {program}" for program in missing_programs(facts, words)]
        if words
        else []
    )
    privileged = (container.get("securityContext") or {}).get("privileged")
    if privileged:
        return faults
    told = {each["name"]: str(each.get("value", "")) for each in container.get("env") or []}
    # What a shell of a gate writes is nothing: only its image's servers write.
    listed = (
        ()
        if programs_called(words) <= {"sh", "cp", "mkdir", "pause"}
        else unwritable_paths(facts, told, _writable(declared.pod, container))
    )
    return faults + [f"{declared}: {each.path} is on no writable volume" for each in listed]


def _writable(pod: Mapping[str, Any], container: Mapping[str, Any]) -> list[str]:
    kinds = {
        volume["name"]: next(key for key in volume if key != "name")
        for volume in pod.get("volumes") or []
    }
    read_only = ("configMap", "secret", "projected", "downwardAPI")
    return [
        mount["mountPath"]
        for mount in container.get("volumeMounts") or []
        if not mount.get("readOnly") and kinds[mount["name"]] not in read_only
    ]


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: path.name)
def test_every_container_of_a_plan_starts_as_its_image_allows(plan, monkeypatch):
    monkeypatch.chdir(ROOT)
    own, declared = _named_by_the_user(plan), list(containers_of(recorded(plan)))
    assert len(declared) > 3
    assert [fault for each in declared for fault in _faults(each, own=own)] == []


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: path.name)
def test_a_pod_names_a_claim_once(plan, monkeypatch):
    """With two volumes of one claim the kubelet waits forever (kubernetes/kubernetes issues 51853
    and 82526).
    """
    monkeypatch.chdir(ROOT)
    for declared in containers_of(recorded(plan)):
        claims = [
            each["persistentVolumeClaim"]["claimName"]
            for each in declared.pod["volumes"]
            if "persistentVolumeClaim" in each
        ]
        assert len(claims) == len(set(claims)), declared


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: path.name)
def test_a_container_on_accelerator_nodes_that_requests_no_device_is_handed_none(plan, monkeypatch):
    """Where the vendor's runtime is the node's default, an image's own variable would claim every
    device of the node.
    """
    monkeypatch.chdir(ROOT)
    for declared in containers_of(recorded(plan)):
        tolerated = any(
            DEVICES.match(each.get("key", "")) for each in declared.pod.get("tolerations") or []
        )
        limits = (declared.container.get("resources") or {}).get("limits", {})
        if (
            tolerated
            and not any(map(DEVICES.match, limits))
            and not declared.resource.endswith("device-plugin")
        ):
            told = {each["name"]: each.get("value") for each in declared.container.get("env") or []}
            assert (
                told.get("NVIDIA_VISIBLE_DEVICES") == told.get("HABANA_VISIBLE_DEVICES") == "void"
            ), declared
