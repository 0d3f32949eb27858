"""The pack from the wheel with the extra `policy` alone, in a folder of the user's own, on a
program that has never heard of us.
"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from datetime import date, timedelta
from pathlib import Path

import pulumi
import pytest
from pulumi_kubernetes import apps, core, meta

from inferplan.policies.engine.settings import today
from tests.policies.analyzer import MANDATORY, analyze, configure, pack
from tests.recorder import declare
from tests.wheels import CLEAN, environment_with

PAGE = Path(__file__).resolve().parents[2] / "docs" / "policy-gate.md"


def shop():
    """A shop's program: one careless Deployment, and a name at a provider that no rule knows."""
    labels = {"app": "shop"}
    container = core.v1.ContainerArgs(
        name="web", image="nginx", security_context=core.v1.SecurityContextArgs(privileged=True)
    )
    pods = core.v1.PodTemplateSpecArgs(
        metadata=meta.v1.ObjectMetaArgs(labels=labels),
        spec=core.v1.PodSpecArgs(host_network=True, containers=[container]),
    )
    core.v1.Namespace("shop", metadata=meta.v1.ObjectMetaArgs(name="shop"))
    apps.v1.Deployment(
        "shop",
        metadata=meta.v1.ObjectMetaArgs(name="shop", namespace="shop"),
        spec=apps.v1.DeploymentSpecArgs(
            replicas=1, selector=meta.v1.LabelSelectorArgs(match_labels=labels), template=pods
        ),
    )
    pulumi.CustomResource("cloudflare:index/record:Record", "shop", {"name": "shop.example"})


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    return environment_with(tmp_path_factory.mktemp("policy"), "policy")


@pytest.fixture
def folder(tmp_path):
    """The folder that the page describes, word for word."""
    own = tmp_path / "policies"
    own.mkdir()
    files = re.findall(
        r"^`policies/([^`]+)`:\n\n```\w+\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    for name, text in files:
        (own / name).write_text(text)
    assert {name for name, _ in files} == {"PulumiPolicy.yaml", "requirements.txt", "__main__.py"}
    assert len((own / "__main__.py").read_text().split()) == 5
    return own


def violated(python, folder) -> set[tuple[str, str]]:
    """The mandatory rules that the shop violates, each with its resource, with the default
    providers that the engine adds.
    """
    recording = declare(shop)
    provided = [
        dataclasses.replace(
            each,
            provider=f"{recording.stack_urn}::pulumi:providers:{each.type.partition(':')[0]}::default::ID::1",
        )
        for each in recording
    ]
    with pack(folder, python) as stub:
        configure(stub, {})
        found = analyze(stub, dataclasses.replace(recording, registrations=tuple(provided)))
    messages = [each.message for each in found if each.enforcementLevel == MANDATORY]
    return {
        (match[1], match[2])
        for each in messages
        if (match := re.search(r"\[([a-z0-9-]+)\] ([\w/]+)", each))
    }


def test_the_pack_alone_blocks_a_careless_program_that_never_heard_of_us(python, folder):
    found = violated(python, folder)
    for rule in (
        "pod-disallow-privileged",
        "pod-disallow-host-namespaces",
        "image-disallow-latest",
        "stack-require-default-deny",
    ):
        assert (rule, "Deployment/shop") in found
    assert ("namespace-require-pod-security", "Namespace/shop") in found
    assert ("stack-disallow-unseen-objects", "Record/shop") in found


def test_settings_next_to_the_pack_accept_a_type(python, folder):
    ends = str(date.fromisoformat(today()) + timedelta(days=30))
    accepted = {
        "type": "cloudflare:index/record:Record",
        "reason": "names of the shop",
        "owner": "web",
        "expires": ends,
    }
    (folder / "stacks").mkdir()
    (folder / "stacks" / "test.json").write_text(json.dumps({"acceptedTypes": [accepted]}))
    found = violated(python, folder)
    assert ("stack-disallow-unseen-objects", "Record/shop") not in found
    assert ("pod-disallow-privileged", "Deployment/shop") in found


def test_the_environment_has_only_that_extra(python):
    listed = (
        "import importlib.metadata as m; print(*sorted(each.name for each in m.distributions()))"
    )
    names = subprocess.run(
        [python, "-c", listed], capture_output=True, text=True, check=True, env=CLEAN
    ).stdout.split()
    assert {"inferplan", "pulumi_policy"} <= set(names)
    assert not {"pulumi_aws", "botocore", "pytest"} & set(names)


def test_without_the_extra_the_pack_says_what_to_install(python, folder, tmp_path):
    hidden = tmp_path / "hidden" / "pulumi_policy.py"
    hidden.parent.mkdir()
    hidden.write_text("raise ModuleNotFoundError('gone', name='pulumi_policy')")
    done = subprocess.run(
        [python, str(folder)],
        env={**CLEAN, "PYTHONPATH": str(hidden.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "with the extra policy: inferplan docs installing" in done.stderr
