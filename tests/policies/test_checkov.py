"""An independent judge: checkov, in an environment of its own, on the manifests of a stack and on
their mutants.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from inferplan.planning.policy_check import stack_of
from inferplan.policies.engine.evaluate import evaluate_resource, evaluate_stack
from inferplan.policies.engine.rule import Level
from inferplan.policies.engine.settings import Settings
from inferplan.pulumi_engine.values import UNKNOWN, Secret
from tests.policies.mutants import mutants_of
from tests.policies.recorded import COMMITTED, EXAMPLES, recorded

ROOT = Path(__file__).resolve().parents[2]
LOCK = Path(__file__).parent / "checkov" / "requirements.lock"
BARE = Settings(today="2026-11-21")
JUDGED = ("Deployment", "DaemonSet", "Job", "Ingress")

# checkov's checks and the rule of ours that holds the same thing.
SAME = {
    "CKV_K8S_16": "pod-disallow-privileged",
    "CKV_K8S_17": "pod-disallow-host-namespaces",
    "CKV_K8S_18": "pod-disallow-host-namespaces",
    "CKV_K8S_19": "pod-disallow-host-namespaces",
    "CKV_K8S_20": "pod-disallow-privilege-escalation",
    "CKV_K8S_22": "pod-require-read-only-root",
    "CKV_K8S_23": "pod-require-non-root",
    "CKV_K8S_25": "pod-disallow-added-capabilities",
    "CKV_K8S_26": "pod-disallow-host-ports",
    "CKV_K8S_37": "pod-require-drop-all-capabilities",
    "CKV_K8S_31": "pod-require-seccomp",
    "CKV_K8S_10": "pod-require-cpu-request",
    "CKV_K8S_12": "pod-require-memory-limit",
    "CKV_K8S_13": "pod-require-memory-limit",
    "CKV_K8S_8": "pod-require-liveness-probe",
    "CKV_K8S_9": "pod-require-readiness-probe",
    "CKV_K8S_14": "image-disallow-latest",
    "CKV_K8S_38": "pod-disallow-token-mount",
    "CKV_K8S_153": "network-disallow-snippets",
}
_NO_PORT = (
    "a device plugin has no port: it registers with the kubelet over a socket, and again when that"
    " closes"
)
# Where the two differ, and why ours stays as it is: rule, mutation and who refuses;
# docs/decisions/policy-oracle.md shows the table.
DISAGREEMENTS = {
    (
        "pod-require-non-root",
        "root allowed",
        "ours",
    ): "a container's false overrides the pod's true; checkov reads only the pod's",
    (
        "pod-require-non-root",
        "root pod",
        "ours",
    ): (
        "runAsUser 0 breaks the restricted profile even with runAsNonRoot: true, the only field"
        " that checkov reads"
    ),
    (
        "pod-require-non-root",
        "unchanged",
        "checkov",
    ): (
        "NVIDIA's device plugin writes its socket into the kubelet's directory, which belongs to"
        " root"
    ),
    (
        "pod-disallow-token-mount",
        "strange registry",
        "ours",
    ): "a controller may mount its token as the image that its project publishes only",
    (
        "pod-require-non-root",
        "root user",
        "ours",
    ): "the same, on one container: the kubelet would not start it",
    (
        "pod-require-non-root",
        "group of root",
        "ours",
    ): "files of group 0 are writable for the pod; checkov reads no fsGroup",
    (
        "pod-require-seccomp",
        "seccomp off",
        "ours",
    ): "a container's Unconfined overrides the pod's profile; checkov reads only the pod's",
    ("pod-require-liveness-probe", "unchanged", "checkov"): _NO_PORT,
    ("pod-require-readiness-probe", "unchanged", "checkov"): _NO_PORT,
    (
        "pod-require-read-only-root",
        "unchanged",
        "checkov",
    ): (
        "NVIDIA's own hook writes ld.so.cache into the root of a container with accelerators, where"
        " it adds the driver's libraries"
    ),
    (
        "image-disallow-latest",
        "unchanged",
        "checkov",
    ): "Gaudi's registry names versions in the path, and publishes the one tag latest below it",
}


@pytest.fixture(scope="module")
def checkov():
    """The program, from a lock of its own; skipped with the reason where it cannot be installed."""
    home = ROOT / ".inferplan" / f"checkov-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    program = home / "bin" / "checkov"
    ready = home / "ready"
    if not ready.exists():
        # What an interrupted installation has left need not be whole.
        shutil.rmtree(home, ignore_errors=True)
        uv = str(Path(sys.executable).parent / "uv")
        for command in (
            ["venv", "--quiet", str(home)],
            [
                "pip",
                "install",
                "--quiet",
                "--require-hashes",
                "--python",
                str(home),
                "-r",
                str(LOCK),
            ],
        ):
            done = subprocess.run([uv, *command], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(
                    f"checkov cannot be installed here: {done.stderr.strip().splitlines()[-1:]}"
                )
        ready.touch()
    return program


def subjects(name):
    """Every object of a stack that checkov has words for, and every mutant of one: the object's
    URN, the name of the mutation, the object.
    """
    recording = recorded(name)
    for each in recording:
        if each.type.rpartition(":")[2] in JUDGED:
            yield each.urn, "unchanged", each
    for mutant in mutants_of(recording):
        each = next(each for each in mutant.recording if each.urn == mutant.urn)
        if each.type.rpartition(":")[2] in JUDGED:
            yield each.urn, mutant.name.rpartition(": ")[2], each


def shown(value):
    if isinstance(value, Secret):
        return "x"
    if value is UNKNOWN:
        return "unknown"
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    return [shown(item) for item in value] if isinstance(value, list) else value


def told_by_checkov(program, folder):
    command = [
        str(program),
        "-d",
        str(folder),
        "--framework",
        "kubernetes",
        "--skip-download",
        "-o",
        "json",
        "--compact",
        "--quiet",
    ]
    done = subprocess.run(
        [*command, "--check", ",".join(SAME)], capture_output=True, text=True, check=False
    )
    failed = json.loads(done.stdout)["results"]["failed_checks"]
    return {(each["file_path"].strip("/"), SAME[each["check_id"]]) for each in failed}


def told_by_us(registration):
    stack = stack_of(dataclasses.replace(recorded("local"), registrations=(registration,)))
    (resource,) = stack.resources
    outcomes = evaluate_resource(resource, BARE, [Level.MANDATORY])
    return {each.rule.id for each in [*outcomes, *evaluate_stack(stack, BARE, [Level.MANDATORY])]}


def differences(checkov, folder, name):
    """Where the two judges differ, as rule, mutation and who refuses; what they differ about
    unchanged is told of that alone.
    """
    asked = {}
    for position, (urn, mutation, each) in enumerate(subjects(name)):
        (folder / f"{position:04}.yaml").write_text(yaml.safe_dump(shown(each.inputs)))
        asked[f"{position:04}.yaml"] = (urn, mutation, told_by_us(each))
    theirs = told_by_checkov(checkov, folder)
    assert theirs
    assert len(asked) >= 100
    apart = {
        (urn, rule, mutation, "ours" if rule in ours else "checkov")
        for file, (urn, mutation, ours) in asked.items()
        for rule in SAME.values()
        if (rule in ours) != ((file, rule) in theirs)
    }
    before = {(urn, rule, who) for urn, rule, mutation, who in apart if mutation == "unchanged"}
    return {
        (rule, mutation, who)
        for urn, rule, mutation, who in apart
        if mutation == "unchanged" or (urn, rule, who) not in before
    }


@pytest.mark.full
@pytest.mark.parametrize("name", [*COMMITTED, *EXAMPLES])
def test_checkov_agrees_on_a_stack_and_its_mutants_but_for_the_table(
    checkov, tmp_path, monkeypatch, name
):
    monkeypatch.chdir(ROOT)
    assert differences(checkov, tmp_path, name) - set(DISAGREEMENTS) == set()


def test_every_disagreement_is_in_the_documented_table():
    text = (ROOT / "docs" / "decisions" / "policy-oracle.md").read_text()
    for (rule, mutation, who), cause in DISAGREEMENTS.items():
        assert f"| `{rule}` | {mutation} | {who} | {cause} |" in text
