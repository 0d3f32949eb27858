"""The trial of Ray Serve applications: Ray, on this computer and without a cluster, checks the
configuration of the plan, imports the applications, and merges both as its controller does.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from inferplan.components.serving.ray_serve.applications import LlmApplication
from inferplan.errors import RequestError
from inferplan.trial import verdict
from inferplan.trial.subject import Subject
from inferplan.trial.verdict import Finding

TITLE = "Ray Serve"
UNJUDGED = "replicas, since no cluster starts; packages of the image that this computer lacks, and accelerators"
PAYLOAD = Path(__file__).with_name("payload") / "ray_trial.py"
_SECONDS = 300.0
# Ray starts a node of its own for some applications; on a busy computer that takes too long.
_OF_THIS_COMPUTER = ("node timed out during startup", "Can't find a `node_ip_address.json`")


def run(subject: Subject, progress: Callable[[str], None]) -> Iterator[Finding]:
    """Yield the findings about each application. Raises RequestError if Ray cannot run here."""
    if subject.request is not None:
        raise RequestError("--request: Ray Serve starts no server in a trial. Remove --request")
    service = subject.objects["kubernetes:ray.io/v1:RayService"]
    text = service["spec"]["serveConfigV2"].replace(f"/models/{subject.name}", str(subject.weights))
    config = yaml.safe_load(text)
    progress(f"Ray checks {', '.join(subject.spec.applications)}")
    for line in _lines(subject, config):
        yield _finding(subject, line)


def _lines(subject: Subject, config: Mapping[str, Any]) -> list[dict[str, str]]:
    python = subject.place.python("a program of an environment with Ray Serve")
    done = subject.place.finished(
        [python, str(PAYLOAD), str(subject.weights)],
        subject.environment,
        _SECONDS,
        f"Ray did not finish in {_SECONDS:.0f} s. An application may wait for something while"
        " it is imported. Move that into its constructor",
        text=json.dumps(config),
    )
    lines = [
        json.loads(line.removeprefix("trial: "))
        for line in done.stdout.splitlines()
        if line.startswith("trial: ")
    ]
    if done.returncode or not lines:
        said = verdict.sentence_of(done.stderr)
        raise subject.place.absent(
            f"working Ray Serve ({said})",
            f"{python} has no Ray Serve that works ({said}). Install ray[serve] in a separate"
            " environment (inferplan docs trial), and set INFERPLAN_CPU_SERVER to its `serve` program",
        )
    return lines


def _finding(subject: Subject, line: Mapping[str, str]) -> Finding:
    name, deployment = line["application"], line["deployment"]
    step = f"{line['step']} {name}".strip()
    if not line["sentence"]:
        return Finding(step, "works")
    app = subject.spec.applications.get(name)
    said = line["sentence"]
    sentence = verdict.shortened(
        f"{said.partition(':')[0]}: {verdict.validation_text(said)}"
        if "validation error" in said
        else said
    )
    module = "" if app is None or isinstance(app, LlmApplication) else app.import_path
    own = module.partition(":")[0].partition(".")[0]
    # The image may have packages that this computer lacks.
    missing = "" if subject.place.in_image else line["missing"].partition(".")[0]
    lacking = missing not in ("", own)
    if lacking or any(each in said for each in _OF_THIS_COMPUTER):
        return Finding(step, "not judged", sentence)
    path: verdict.Path = ("models", subject.name, "applications", *([name] if app else []))
    deployments = getattr(app, "deployments", {})
    if deployment in deployments:
        return Finding(step, "rejected", sentence, (*path, "deployments", deployment))
    settings: dict[verdict.Path, list[str]] = {
        (*path, "deployments", each): [each] for each in deployments
    }
    if app is not None and line["step"] == "import" and module:
        attribute = module.partition(":")[2]
        settings[(*path, "importPath")] = [own, f"no attribute '{attribute}'"]
        settings[(*path, "args")] = [f"{key} input_value" for key in getattr(app, "args", {})]
    return Finding(step, "rejected", sentence, verdict.path_of(sentence, settings) or path)
