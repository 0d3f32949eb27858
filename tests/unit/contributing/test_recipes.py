"""The recipes of CONTRIBUTING, each followed in a copy of the repository: its files are all that a
new member needs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.checkouts import ROOT, copy_files

pytestmark = pytest.mark.slow
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
HERE = Path(__file__).parent
# The key seed of an example, at the end of the file; the salt is where Pulumi reads it, at the top
# level.
SECRETS = "\n".join(
    re.findall(
        r"^  inferplan:apiKeySeed:\n.*\n|^encryptionsalt.*\n",
        (ROOT / "stacks/Pulumi.local.yaml").read_text(),
        re.MULTILINE,
    )[::-1]
)
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def follow(recipe: str, folder: Path) -> Path:
    """Apply `recipe` to a copy of the repository, after a check of the files that it touches
    outside its own folder.
    """
    steps = tomllib.loads((HERE / f"{recipe}.toml").read_text())
    copy = copy_files(folder / "copy")
    for name, text in steps["new"].items():
        assert not (copy / name).exists(), name
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(text.removeprefix("\n") + SECRETS * name.endswith(".yaml"))
    for edit in steps["edit"]:
        text = (copy / edit["file"]).read_text()
        assert text.count(edit["find"]) == 1, edit
        (copy / edit["file"]).write_text(text.replace(edit["find"], edit["replace"]))
    touched = {*steps["new"], *(edit["file"] for edit in steps["edit"])}
    # A stack file is the user's own; that of an engine belongs to its documentation, so it counts.
    outside = {
        name for name in touched if not name.startswith((steps["folder"] or "\0", "stacks/"))
    }
    assert len(outside) <= steps["most_files_outside"], sorted(outside)
    assert not [
        name for name in touched for room in steps.get("untouched", ()) if name.startswith(room)
    ]
    return copy


PAGE = """
from inferplan.rehearsal.serving.payload.metrics import page
from inferplan.rehearsal.serving.payload.replicas import Model, Replica
spec = {"name": "parrot", "engine": "echo", "served_names": []}
print(page(Model(spec), Replica("parrot-0", None, 1)), end="")
"""
RUN = "import sys; from inferplan.commands.main import run; run(sys.argv[1:])"


def inferplan(copy: Path, *arguments: str, code: int = 0, program: str = RUN) -> str:
    """The output of the copy's own command line, or of another `program` of its code. Raises
    AssertionError for another exit code than `code`.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "INFERPLAN_STATE_DIR": str(copy / "state"),
        "COLUMNS": "200",
    }
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr * bool(code)


def planned(copy: Path, stack: str, kind: str) -> dict[str, Any]:
    """The inputs of the resources of `kind` that a plan of `stack` registers, by name."""
    inferplan(copy, "plan", stack, "--save", "saved.json")
    resources = json.loads((copy / "saved.json").read_text())["resources"]
    return {
        each["urn"].rpartition("::")[2]: each["inputs"]
        for each in resources
        if each["type"] == kind
    }


def test_an_engine_serves_with_its_default_image(tmp_path):
    copy = follow("engine", tmp_path)
    [container] = planned(copy, "docs/engines/Pulumi.echo.yaml", DEPLOYMENT)["parrot"]["spec"][
        "template"
    ]["spec"]["containers"]
    assert (container["image"], container["command"], container["args"]) == (
        "docker.io/acme/echo-server:v2.1.0",
        ["echo-server"],
        ["--greeting=ahoy"],
    )
    assert container["readinessProbe"]["httpGet"]["path"] == "/health"
    # Its folder has the examples of its fields, and what its stub exposes.
    fields = json.loads(inferplan(copy, "schema"))["definitions"]["EchoSpec"]["properties"]
    assert fields["greeting"]["examples"] == ["ahoy"]
    assert inferplan(copy, program=PAGE).splitlines() == [
        "# TYPE echo_answers_total counter",
        'echo_answers_total{parrot="parrot"} 0',
    ]


def test_a_store_answers_for_its_readers(tmp_path):
    copy = follow("store", tmp_path)
    [job] = planned(copy, "tidal", "kubernetes:batch/v1:Job").values()
    [container] = job["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each for each in container["env"]}
    request = json.loads(env["PREHEAT_REQUEST"]["value"])
    assert (request["kind"], request["root"]) == ("lagoon", "lagoon:coral-7b")
    # The Job's own program accepts the request.
    module = "inferplan.components.preheat.payload.request"
    program = f"import sys; from {module} import parse; print(parse(sys.argv[1], 'inference').kind)"
    assert inferplan(copy, env["PREHEAT_REQUEST"]["value"], program=program) == "lagoon\n"
    assert env["LAGOON_PIER"]["value"] == "https://pier.example.org:8443"
    assert env["LAGOON_TICKET"]["valueFrom"]["secretKeyRef"] == {"name": "ticket", "key": "TICKET"}
    policies = planned(copy, "tidal", "kubernetes:networking.k8s.io/v1:NetworkPolicy")
    [rule] = policies["coral-egress"]["spec"]["egress"]
    assert rule["to"] == [{"ipBlock": {"cidr": "192.0.2.0/28"}}]
    assert [each["port"] for each in rule["ports"]] == [8443]


def test_a_vendor_answers_for_its_devices(tmp_path):
    copy = follow("vendor", tmp_path)
    pod = planned(copy, "quartz", DEPLOYMENT)["prism"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert container["resources"]["limits"]["quartz.example/q"] == "2"
    assert pod["runtimeClassName"] == "quartz"
    assert (env["QUARTZ_LOGS"], env["QUARTZ_RING"]) == ("/var/log/quartz", "1")
    assert "HABANA_LOGS" not in env
    assert {"name": "quartz-logs", "mountPath": "/var/log/quartz"} in container["volumeMounts"]
    assert "quartz.example/q" in {each["key"] for each in pod["tolerations"]}


@pytest.mark.full
def test_a_gateway_replaces_the_proxy(tmp_path):
    copy = follow("gateway", tmp_path)
    [ingress] = planned(copy, "entry", "kubernetes:networking.k8s.io/v1:Ingress").values()
    assert ingress["metadata"]["annotations"] == {"turnstile.example/keys": "gateway-clients"}
    [rule] = ingress["spec"]["rules"]
    assert (rule["host"], rule["http"]["paths"][0]["path"]) == ("verse.example.org", "/sonnets")


@pytest.mark.full
def test_a_cloud_needs_nothing_of_the_rehearsal_the_review_or_the_policies(tmp_path):
    copy = follow("cloud", tmp_path)
    assert planned(copy, "cloudy", "inferplan:nimbus:Nodes") == {
        "l4": {"instanceType": "g6.xlarge", "count": 3},
        "system": {"instanceType": "m7i.2xlarge", "count": 2},
    }
    text = inferplan(copy, "check", "cloudy", code=1)
    assert "network-require-tls" in text
    assert "not evaluated" not in text
    stack = copy / "stacks" / "Pulumi.cloudy.yaml"
    stack.write_text(
        stack.read_text().replace(
            "provider: nimbus, region: norte, clusterName: meadow",
            "provider: existing, context: meadow",
        )
    )
    assert "Pools of Nimbus need a cluster of Nimbus" in inferplan(
        copy, "validate", "cloudy", code=2
    )


def test_a_rule_blocks_and_explains_itself(tmp_path):
    copy = follow("rule", tmp_path)
    text = " ".join(inferplan(copy, "check", "ruled", code=1).split())
    assert "rollout-require-percentage PodDisruptionBudget/gateway" in text
    assert "spec.maxUnavailable is not a percentage. Set maxUnavailable: 25%." in text
    assert "A percentage follows the number of replicas." in inferplan(
        copy, "check", "--explain", "rollout-require-percentage"
    )


def test_a_command_is_listed_and_runs(tmp_path):
    copy = follow("command", tmp_path)
    assert "List the pools of a stack." in inferplan(copy, "--help")
    assert inferplan(copy, "pools", "local").splitlines() == ["gaudi2 1", "l40s 2", "system 2"]


@pytest.mark.parametrize("recipe", sorted(path.stem for path in HERE.glob("*.toml")))
def test_the_table_of_contributing_names_every_file_that_a_recipe_edits(recipe):
    edited = {edit["file"] for edit in tomllib.loads((HERE / f"{recipe}.toml").read_text())["edit"]}
    row = next(
        line
        for line in CONTRIBUTING.splitlines()
        if line.lower().startswith(("| " + recipe, "| policy " + recipe, "| cli " + recipe))
    )
    assert [
        file
        for file in sorted(edited)
        if f"`{file}`" not in row and f"in `{Path(file).parent}`" not in row
    ] == []


def test_every_path_of_contributing_exists():
    paths = set(re.findall(r"`([a-z_]+/[\w./-]*)`", CONTRIBUTING))
    assert len(paths) > 20
    assert [each for each in sorted(paths) if not (ROOT / each).exists()] == []
