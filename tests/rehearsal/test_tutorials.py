"""The tutorials, followed on this machine: shell blocks run as they are, and a simulated cluster
stands for the real one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inferplan.rehearsal.cluster import Cluster
from tests.patience import PATIENCE_SECONDS
from tests.rehearsal.rack import bare_rack
from tests.tutorials import ROOT, Block, blocks

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.full,
    pytest.mark.skipif(
        shutil.which("kubectl") is None,
        reason="no kubectl on PATH, with which the tutorials read a cluster",
    ),
]
AWS = shutil.which("aws") or "aws"
BASH = shutil.which("bash") or "bash"
NODES = ("gaudi-1", "gaudi-2")


class Reader:
    """A person at a shell in a copy of the project; variables that a block exports stay for the
    next one.
    """

    def __init__(self, folder: Path) -> None:
        for name in ("Pulumi.yaml", "inferplan/infra", "schemas", "docs"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "stacks", folder / "stacks")
        shutil.copytree(ROOT / "policies" / "stacks", folder / "policies" / "stacks")
        self.folder = folder
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = {**os.environ, "PATH": path, "AWS_EC2_METADATA_DISABLED": "true"}
        self.environment.pop("PULUMI_CONFIG_PASSPHRASE", None)

    def run(self, block: Block, *, code: int = 0) -> str:
        script = f"{block.script}\nenv -0 > {self.folder}/environment"
        done = subprocess.run(
            [BASH, "-c", script], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=4 * PATIENCE_SECONDS, check=False
        )  # fmt: skip
        assert done.returncode == code, (
            f"{block.script}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
        if code == 0:
            entries = (self.folder / "environment").read_text().split("\0")
            self.environment = dict(each.split("=", 1) for each in entries if "=" in each)
        return done.stdout


def kubectl(reader: Reader, *arguments: str) -> None:
    command = ["kubectl", "--context", "rack", *arguments]
    subprocess.run(
        command, env=reader.environment, cwd=reader.folder, check=True, capture_output=True
    )


def test_tutorial_of_existing_rack_works(cluster: Cluster, tmp_path):
    reader = Reader(tmp_path)
    manifest = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": "nginx"},
        "spec": {"controller": "x.y/z"},
    }
    (tmp_path / "class.json").write_text(json.dumps(manifest))
    for name in ("minio-access-key", "minio-secret-key"):
        (tmp_path / name).write_text("secret")
    certificate = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=llm.rack.internal",
    ]
    subprocess.run(
        [*certificate, "-keyout", "tls.key", "-out", "tls.crt"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    answers: list[str] = []
    with bare_rack(cluster, tmp_path, NODES) as kubeconfig:
        reader.environment["KUBECONFIG"] = str(kubeconfig)
        try:
            for block in blocks("rack.md"):
                match block.mark:
                    case "network":
                        # Helm would bring the controller and its class.
                        kubectl(reader, "apply", "-f", "class.json")
                    case "update":
                        assert [each.split()[:2] for each in block.commands] == [
                            ["pulumi", "stack"],
                            ["inferplan", "up"],
                        ]
                        reader.run(Block("", ("inferplan plan rack > /dev/null",)))
                        kubectl(reader, "create", "namespace", "inference")
                    case "traffic":
                        reader.run(
                            Block(
                                "",
                                tuple(
                                    each
                                    for each in block.commands
                                    if each.startswith("inferplan keys")
                                ),
                            )
                        )
                    case mark:
                        answers.append(reader.run(block, code=1 if mark == "exit 1" else 0))
        finally:
            for each in ("namespace/inference", "ingressclass/nginx", "runtimeclass/habana"):
                kubectl(reader, "delete", "--ignore-not-found", each)
    first, second, last = (each for each in answers if "network policies" in each)
    assert "kubectl --context rack label node gaudi-1 gaudi-2 inferplan.dev/pool=gaudi2" in first
    assert "3 error" in first
    assert "2 warning, 0 error" in second
    assert "0 warning, 0 error" in last


@pytest.mark.skipif(
    not Path(AWS).is_absolute(), reason="no AWS CLI on PATH, with which the tutorial calls AWS"
)
def test_tutorial_of_empty_account_reaches_the_update(tmp_path):
    """moto stands for AWS. What it does not implement (quotas, the simulation of policies) is a
    question without an answer.
    """
    from moto.server import ThreadedMotoServer

    account = "480912345678"
    reader = Reader(tmp_path)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        reader.environment |= {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_DEFAULT_REGION": "us-east-1",
            "ADDRESS": "203.0.114.7",
        }
        reader.environment |= {"AWS_ACCESS_KEY_ID": "root", "AWS_SECRET_ACCESS_KEY": "root"}
        _log_in(reader, account)
        answers = [
            answer for block in blocks("aws.md") if (answer := _follow(reader, block)) is not None
        ]
        attached = _aws(
            reader, "iam", "list-attached-role-policies", "--role-name", "platform-engineers"
        )
    finally:
        server.stop()
    assert attached["AttachedPolicies"] == [
        {
            "PolicyName": "inferplan-first",
            "PolicyArn": f"arn:aws:iam::{account}:policy/inferplan-first",
        }
    ]
    [examined] = [each for each in answers if "AWS offerings" in each]
    for check in ("AWS account", "AWS offerings", "AWS cluster", "AWS vcpu-quotas"):
        assert f" {check} " in examined
    assert "0 error" in examined, examined


def _follow(reader: Reader, block: Block) -> str | None:
    match block.mark:
        case "network" | "traffic":
            return None
        case "update":
            assert {each.split()[0] for each in block.commands} <= {"pulumi", "inferplan", "aws"}
            return reader.run(Block("", ("inferplan plan first > /dev/null",)))
    return reader.run(block)


def _log_in(reader: Reader, account: str) -> None:
    """Credentials of a session of the role `platform-engineers`, which exists, in `account`."""
    role = f"arn:aws:iam::{account}:role/platform-engineers"
    session = _aws(
        reader, "sts", "assume-role", "--role-arn", role, "--role-session-name", "reader"
    )["Credentials"]
    keys = {
        "AWS_ACCESS_KEY_ID": "AccessKeyId",
        "AWS_SECRET_ACCESS_KEY": "SecretAccessKey",
        "AWS_SESSION_TOKEN": "SessionToken",
    }
    reader.environment |= {name: session[key] for name, key in keys.items()}
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    _aws(
        reader,
        "iam",
        "create-role",
        "--role-name",
        "platform-engineers",
        "--assume-role-policy-document",
        trust,
    )


def _aws(reader: Reader, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [AWS, *arguments, "--output", "json"],
        env=reader.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)
