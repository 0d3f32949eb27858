"""Ways around the guards of a model: logins that are off, shells, tunnels, code that another
container fetches, foreign writers of weights, roles of other accounts, and node groups for all.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from inferplan.policies.subjects.serving import problems_of
from tests.policies.unseen.unseen import edited, load, violations

BASE = load("plain-4")["base"]
POD = "spec.template.spec"
DIGEST = "@sha256:" + "3" * 64
HARD = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
SMALL = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}


def container(image: str, *words: str, mount: tuple[str, str] = ("", "")) -> dict[str, Any]:
    mounts = [{"name": mount[0], "mountPath": mount[1]}] if mount[0] else []
    return {
        "name": "second",
        "image": f"docker.io/{image}:1.0{DIGEST}",
        "command": list(words),
        "resources": SMALL,
        "securityContext": HARD,
        "volumeMounts": mounts,
    }


def rules_of(edits: dict[str, Any] | None = None, **more: Any) -> set[str]:
    """The rules that the platform of plain-4 violates after edits of its server, with `more`
    resources.
    """
    base = copy.deepcopy(BASE)
    base["chat"]["props"] = edited(base["chat"]["props"], edits or {})
    return {rule for rule, *_ in violations(base | more)}


@pytest.mark.parametrize(
    ("text", "off"),
    [
        ("--auth=none", True),
        ("--IdentityProvider.token=", True),
        ("JUPYTER_TOKEN=", True),
        ("DISABLE_AUTH=true", True),
        ("--without-connection-token", True),
        ("--no-token", True),
        ("WEBUI_AUTH=False", True),
        ("LANGFLOW_AUTO_LOGIN=true", True),
        ("--auth-mode=none", True),
        ("--skip-tokenizer-init", False),
        ("--no-password", False),
        ("SMTP_AUTH=none", False),
        ("HF_TOKEN=", False),
        ("DISABLE_AUTH=false", False),
        ("--auth=oidc", False),
        ("--max-tokens=0", False),
    ],
)
def test_a_switch_of_a_login_is_known_by_its_form(text, off):
    name, _, value = text.partition("=")
    assert ("switches a login off" in problems_of(name, value)) is off


@pytest.mark.parametrize(
    ("words", "open_"),
    [
        (("ttyd", "-W", "bash"), True),
        (("ttyd", "-c", "$(LOGIN)", "bash"), False),
        (("jupyter", "kernelgateway", "--ip=0.0.0.0"), True),
        (("jupyter", "nbconvert", "--to=html"), False),
    ],
)
def test_a_program_that_runs_what_its_clients_send_has_a_login(words, open_):
    found = rules_of({f"{POD}.containers[1]": container("acme/tool", *words)})
    assert ("model-disallow-development-switches" in found) is open_


FOLDER = {"name": "code", "emptyDir": {"sizeLimit": "1Gi"}}


def fetching(words: tuple[str, ...], runs: dict[str, Any]) -> bool:
    edits = {
        f"{POD}.volumes[3]": FOLDER,
        f"{POD}.initContainers": [container("acme/get", *words, mount=("code", "/w"))],
        f"{POD}.containers[0].volumeMounts[3]": {"name": "code", "mountPath": "/app"},
        **{f"{POD}.containers[0].{key}": value for key, value in runs.items()},
    }
    return "pod-disallow-piped-programs" in rules_of(edits)


RUN = {"command": ["python3", "/app/main.py"]}
KEY = [{"name": "PYTHONPATH", "value": "/app/lib"}]


@pytest.mark.parametrize(
    ("words", "runs", "found"),
    [
        (("git", "clone", "https://github.com/acme/a", "/w"), RUN, True),
        (("sh", "-c", "cd /w && curl -fsSLO https://a.example/main.py"), RUN, True),
        (("aws", "s3", "cp", "s3://tools/x", "/w/x"), {"command": ["/app/x"]}, True),
        (("wget", "-P", "/w", "https://a.example/a.sh"), {"command": ["bash", "/app/a.sh"]}, True),
        (("pip", "install", "-t", "/w", "flask"), {}, True),
        (("npm", "install", "--prefix", "/w", "serve"), {}, True),
        (("rclone", "copy", "r:libs", "/w/lib"), {"env": KEY}, True),
        (
            ("sh", "-c", "git clone https://a.example/a /w && cd /w && git checkout " + "a" * 40),
            RUN,
            False,
        ),
        (("pip", "install", "-t", "/w", "--require-hashes", "-r", "/r.txt"), {}, False),
        (("sh", "-c", "curl -o /w/main.py https://a.example/m && sha256sum -c /sums"), RUN, False),
        (("git", "clone", "https://github.com/acme/prompts", "/w"), {}, False),
        (("curl", "-o", "/w/words.json", "https://a.example/w"), {}, False),
        (("cp", "-r", "/assets", "/w"), RUN, False),
    ],
)
def test_code_that_another_container_fetches_is_found(words, runs, found):
    assert fetching(words, runs) is found


WRITER = {
    "type": "kubernetes:apps/v1:DaemonSet",
    "props": {
        "metadata": {"name": "other", "namespace": "rank"},
        "spec": {
            "template": {
                "spec": {
                    "containers": [container("acme/a", "a", mount=("m", "/m"))],
                    "volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": "models"}}],
                }
            }
        },
    },
}


@pytest.mark.parametrize(
    ("edits", "found"),
    [
        ({}, True),
        ({f"{POD}.volumes[0].persistentVolumeClaim.claimName": "other"}, False),
        ({f"{POD}.volumes[0].persistentVolumeClaim.readOnly": True}, False),
        ({f"{POD}.containers[0].volumeMounts[0].readOnly": True}, False),
    ],
)
def test_another_pod_may_not_write_the_weights_of_a_server(edits, found):
    other = {**WRITER, "props": edited(WRITER["props"], edits)}
    assert ("stack-require-read-only-weights" in rules_of(other=other)) is found


def test_another_container_of_a_server_may_not_write_its_weights():
    sync = container("acme/sync", "sync", mount=("models", "/m"))
    writable = {"name": "models", "persistentVolumeClaim": {"claimName": "models"}}
    edits = {f"{POD}.volumes[0]": writable, f"{POD}.containers[1]": sync}
    assert "stack-require-read-only-weights" in rules_of(edits)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("cloudflared", "tunnel", "run"), True),
        (("cloudflared", "tunnel", "--url", "http://chat:30000"), True),
        (("cloudflared", "tunnel", "--url", "http://gate:8080"), False),
        (("inlets", "client", "--upstream=chat.rank.svc:30000"), True),
        (("autossh", "-N", "-R", "8443:chat:30000", "a@jump.example"), True),
        (("ssh", "-N", "-L", "8443:db:5432", "a@jump.example"), False),
        (("kubectl", "port-forward", "--address=0.0.0.0", "svc/chat", "8000"), True),
        (("kubectl", "proxy", "--address", "::"), True),
        (("kubectl", "port-forward", "--address=127.0.0.1", "svc/chat", "8000"), False),
        (("kubectl", "wait", "pod/chat"), False),
    ],
)
def test_a_tunnel_from_another_pod_leads_to_no_model(words, found):
    pod = edited(WRITER["props"], {f"{POD}.containers[0].command": list(words)})
    pod["spec"]["template"]["spec"]["volumes"] = []
    rules = rules_of(other={**WRITER, "props": pod})
    assert ("stack-require-gateway-before-models" in rules) is found


@pytest.mark.parametrize(("account", "found"), [("998877665544", True), ("210987654321", False)])
@pytest.mark.parametrize("kind", ["account", "identity"])
def test_pods_take_no_role_of_another_account(kind, account, found):
    role = f"arn:aws:iam::{account}:role/app"
    marked = {"name": "x", "namespace": "rank", "annotations": {"eks.amazonaws.com/role-arn": role}}
    thing = (
        {"type": "kubernetes:core/v1:ServiceAccount", "props": {"metadata": marked}}
        if kind == "account"
        else {
            "type": "aws:eks/podIdentityAssociation:PodIdentityAssociation",
            "props": {"clusterName": "a", "serviceAccount": "x", "roleArn": role},
        }
    )
    assert ("aws-restrict-other-accounts" in rules_of(thing=thing)) is found


@pytest.mark.parametrize(
    ("edits", "found"),
    [
        ({"taints": None}, True),
        ({"instanceTypes": None, "launchTemplate": {"name": "gpu"}, "taints": None}, True),
        ({"taints": [{"key": "a", "effect": "PREFER_NO_SCHEDULE"}]}, True),
        ({"taints": [{"key": "acme.example/a", "effect": "NO_EXECUTE"}]}, False),
        ({"taints": None, "instanceTypes": ["m7i.xlarge"], "amiType": "AL2023_x86_64"}, False),
    ],
)
@pytest.mark.parametrize("alone", [False, True])
def test_a_group_with_accelerators_beside_others_has_a_taint(edits, found, alone):
    group = {**BASE["gpu-group"], "props": edited(BASE["gpu-group"]["props"], edits)}
    template = {
        "type": "aws:ec2/launchTemplate:LaunchTemplate",
        "props": {"name": "gpu", "instanceType": "g6e.xlarge"},
    }
    base = {name: each for name, each in BASE.items() if not (alone and name == "cpu-nodes")}
    rules = {rule for rule, *_ in violations(base | {"gpu-group": group, "t": template})}
    assert ("accelerator-require-pool-taint" in rules) is (found and not alone)


def test_a_hook_installs_nothing():
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "apt-get install -y tcpdump"]}}}
    edits = {f"{POD}.containers[0].lifecycle.postStart": hook["postStart"]}
    assert "model-disallow-trust-remote-code" in rules_of(edits)
