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
from inferplan.pulumi_engine.values import reveal
from inferplan.stackfile.reader import StackFile
from inferplan.trial.questions import request_in
from inferplan.trial.subject import Subject
from inferplan.trial.trial import TRIALS
from inferplan.trial.verdict import Finding
from inferplan.workspace.workspace import Workspace


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
) -> Trying:
    """Try `model` on the files in `weights`, also with the `request` in a file. Raises RequestError, before anything starts, if it
    cannot be tried.
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
    program = os.environ.get("INFERPLAN_CPU_SERVER") or shutil.which(trial.program)
    if program is None or not os.access(program, os.X_OK):
        raise RequestError(
            f"{program or trial.program} is not a program on this computer. Install {trial.package}"
            " in an environment of its own (inferplan docs trial), and put it on PATH or name it in"
            " INFERPLAN_CPU_SERVER"
        )
    recording = workspace.record()
    subject = Subject(
        name=model,
        spec=spec,
        container=container_of(model, recording),
        objects={
            each.type: inputs
            for each in recording
            if is_of_model(model, inputs := reveal(each.inputs))
        },
        weights=weights.expanduser().absolute(),
        program=program,
        request=None if request is None else request_in(request),
        gateway=gateway_before(workspace.settings, model),
    )
    return Trying(
        engine=trial.title,
        findings=list(trial.run(subject, note_each)),
        unjudged=trial.unjudged,
        file=workspace.file,
    )
