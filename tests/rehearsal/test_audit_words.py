"""The words of `inferplan audit` on a terminal and in its report: what was not tried, what blocks,
and the last line after an interrupt.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inferplan.rehearsal.cluster import clusters

COMMAND = [sys.executable, "-c", "from inferplan.commands.main import run; run()", "audit"]
SERVER = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: server}
spec:
  replicas: 1
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec: {containers: [{name: c, image: "vllm/vllm-openai:v0.23.0", args: [--model=/models/a]}]}
"""
NEW = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: extra}
spec:
  replicas: 2
  selector: {matchLabels: {app: extra}}
  template:
    metadata: {labels: {app: extra}}
    spec: {containers: [{name: c, image: "registry.example.com/x:1", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
IDLE = """
apiVersion: v1
kind: Service
metadata: {name: server}
spec: {type: LoadBalancer, selector: {app: server}, ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: server}
spec: {defaultBackend: {service: {name: server, port: {number: 80}}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {schedule: "0 3 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "registry.example.com/x:1"}]}}}}}
"""
GATED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: gated}
spec:
  selector: {matchLabels: {app: gated}}
  template:
    metadata: {labels: {app: gated}}
    spec:
      readinessGates: [{conditionType: mesh.example.com/enrolled}]
      containers: [{name: c, image: "registry.example.com/x:1"}]
"""
TRUSTED = SERVER.replace("--model=/models/a", "--model=/models/a, --trust-remote-code")
UNTRIED = ["Service default/server", "Ingress default/server", "Deployment default/gated"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "old.yaml").write_text(SERVER)
    (tmp_path / "nodes.yaml").write_text(
        "kind: Fleet\npools: [{name: gpu, count: 1, allocatable: {nvidia.com/gpu: 1}}]\n"
    )
    return tmp_path


def command_for(folder: Path, *documents: str, policy: str = "critical") -> list[str]:
    (folder / "new.yaml").write_text("---".join(documents))
    return [
        *COMMAND,
        "new.yaml",
        *["--from", "old.yaml", "--nodes", "nodes.yaml", "--policy"],
        policy,
    ]


def audited(folder: Path, *documents: str, policy: str = "critical") -> tuple[int, str, str]:
    """The exit code, the lines on the terminal with single spaces, and the report."""
    command = [*command_for(folder, *documents, policy=policy), "--report", "report.md"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    report = folder / "report.md"
    return (
        done.returncode,
        " ".join(done.stdout.split()),
        report.read_text() if report.exists() else done.stderr,
    )


def test_what_blocks_comes_first_and_is_named_with_its_policy(folder):
    code, screen, report = audited(folder, TRUSTED, NEW)
    assert code == 3
    assert (
        "outcome ⛔ it must not be applied as it is ⛔ never Ready Deployment default/extra"
        in screen
    )
    assert "blocked by policy model-disallow-trust-remote-code: Deployment server:" in screen
    both = "blocked: 1 mandatory policy violation, the rehearsed upgrade failed"
    assert screen.endswith(f"verdict: {both}")
    assert both in report.splitlines()[1]
    first = [report.index(each) for each in ("never Ready", "model-disallow-trust-remote-code")]
    assert max(first) < report.index("advisory")
    assert "let an old pod go first" not in screen + report
    assert not re.search(r"\bextra-[0-9a-z]{5,10}\b", screen + report)


@pytest.mark.full
def test_what_was_not_tried_is_in_the_first_row_and_by_name(folder):
    code, screen, report = audited(folder, SERVER, IDLE, GATED, policy="advise")
    assert code == 0
    assert "outcome 🟢 everything that was tried became ready; not tried: 3" in screen
    for each in UNTRIED:
        assert f"not tried {each}: " in screen
        assert f"| not tried | {each}: " in report
    assert "not tried CronJob" not in screen


@pytest.mark.full
def test_a_critical_rule_alone_blocks_and_is_named(folder):
    code, screen, report = audited(folder, TRUSTED)
    assert code == 3
    assert "everything became ready" in screen
    assert "blocked by policy model-disallow-trust-remote-code: Deployment server:" in screen
    assert screen.endswith("verdict: blocked: 1 mandatory policy violation")
    assert "blocked: 1 mandatory policy violation" in report.splitlines()[1]


@pytest.mark.full
def test_every_risk_that_the_verdict_counts_is_listed(folder):
    command = command_for(folder, IDLE, policy="advise")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    counted = re.search(r"verdict: .*?([0-9]+) risks?", done.stdout)
    assert counted, done.stdout
    assert len(re.findall(r"^risk: ", done.stdout, re.MULTILINE)) == int(counted[1])


@pytest.mark.full
def test_the_last_line_after_an_interrupt_is_true(folder):
    process = subprocess.Popen(
        [*command_for(folder, TRUSTED, NEW), "--report", "report.md"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = ""
    for line in process.stdout or ():
        said += line
        if line.startswith("applying the new state"):
            process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    end = " ".join(said.rpartition("inferplan: ")[2].split())
    assert end.startswith(
        "interrupted; its simulated cluster was deleted, and nothing was written. To start again,"
    )
    assert not [each for each in clusters() if each.startswith("audit-")]
    assert not (folder / "report.md").exists()
