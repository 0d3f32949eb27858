"""The trial of one model of a stack: its container in the plan, the engine on this computer."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from inferplan.client.local_gateway.real_server import container_of, is_of_model
from inferplan.commands.try_model.gateway import gateway_before
from inferplan.documents.errors import unknown
from inferplan.errors import RequestError
from inferplan.hardware.accelerators import vendor_of_image, vendors
from inferplan.pulumi_engine.values import reveal
from inferplan.stackfile.reader import StackFile
from inferplan.trial.computer import Computer
from inferplan.trial.container import ENGINES, Container
from inferplan.trial.questions import request_in
from inferplan.trial.subject import Subject
from inferplan.trial.trial import TRIALS, EngineTrial
from inferplan.trial.verdict import Finding
from inferplan.workspace.workspace import Workspace

_DEVICES = Path("/dev")


@dataclass(frozen=True, kw_only=True)
class Trying:
    """The findings about a model by the `engine`, what it cannot judge, and the stack file."""

    engine: str
    findings: list[Finding]
    unjudged: str
    file: StackFile

    def place_of(self, finding: Finding) -> str:
        """The file, line and column of the setting that `finding` is about, "" if it has none."""
        position = self.file.locate(finding.path)
        return f"{self.file.shown_path}:{position.line}:{position.column}" if position else ""


def tried(
    workspace: Workspace,
    model: str,
    weights: Path,
    note_each: Callable[[str], None],
    request: Path | None = None,
    *,
    container: str | None = None,
) -> Trying:
    """Try `model` on the files in `weights`, also with the `request` in a file. Where
    `container` names a container engine, it runs the plan's image, or the one after a `=`. Raises
    RequestError, before anything starts, if the model cannot be tried.
    """
    spec = workspace.settings.models.get(model)
    if spec is None:
        raise RequestError(
            unknown("model", model, workspace.settings.models, owner=workspace.stack)
        )
    trial = TRIALS.get(spec.engine)
    if trial is None:
        raise RequestError(
            f"{model} runs on {spec.engine}, which cannot be tried without accelerators. Allowed:"
            f" models of {', '.join(TRIALS)}. Start a pod of it on a small pool instead"
        )
    weights = weights.expanduser().absolute()
    if not weights.is_dir():
        raise RequestError(
            f"--weights: {weights} is not a directory. Name one with the model's files"
        )
    # Links in the directory start from its real place.
    weights = weights.resolve()
    program = "" if container else _program(model, trial)
    recording = workspace.record()
    server = dict(container_of(model, recording))
    if container is None:
        place: Computer | Container = Computer(program)
    else:
        engine, _, image = container.partition("=")
        server["image"] = image or server["image"]
        place = _container(engine, server["image"], weights)
    place.prepare(note_each)
    subject = Subject(
        name=model,
        spec=spec,
        container=server,
        objects={
            each.type: inputs
            for each in recording
            if is_of_model(model, inputs := reveal(each.inputs))
        },
        weights=weights,
        place=place,
        request=None if request is None else request_in(request),
        gateway=gateway_before(workspace.settings, model),
    )
    return Trying(
        engine=trial.title,
        findings=list(trial.run(subject, note_each)),
        unjudged=trial.unjudged,
        file=workspace.file,
    )


def _program(model: str, trial: EngineTrial) -> str:
    """The program of the engine on this computer. Raises RequestError if there is none."""
    engines = [each for each in ENGINES if shutil.which(each)]
    use = f"use --container {(engines or ENGINES)[0]} for the image of the plan"
    if not trial.program:
        raise RequestError(
            f"{model} runs on {trial.title}, which has no package for this computer."
            f" {use[:1].upper()}{use[1:]}"
        )
    program = os.environ.get("INFERPLAN_CPU_SERVER") or shutil.which(trial.program)
    if program is None or not os.access(program, os.X_OK):
        raise RequestError(
            f"{program or trial.program} is not a program on this computer. Install {trial.package}"
            " in a separate environment (inferplan docs trial), and put it on PATH or name it in"
            f" INFERPLAN_CPU_SERVER; or {use}"
        )
    return program


def _container(engine: str, image: str, weights: Path) -> Container:
    """The containers of `image`, with the accelerators of its vendor that this computer has."""
    if engine not in ENGINES:
        raise RequestError(
            f"--container: {engine!r} is not a container engine. Allowed: {', '.join(ENGINES)}"
        )
    vendor = vendors().get(vendor_of_image(image) or "")
    own = vendor.containers if vendor else {}
    is_here = engine in own and (_DEVICES / own.get("needs", "")).exists()
    devices = [*_DEVICES.glob(own["files"])] if is_here else []
    return Container(
        engine=engine,
        image=image,
        reads=(weights,),
        accelerators=len(devices),
        options=own[engine] if devices else (),
    )
