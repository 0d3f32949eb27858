"""The preheats of one model as a plan declares them: the very request and environment that the Job would get."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kube.names import INSTANCE_LABEL
from operations.errors import RequestError

if TYPE_CHECKING:
    from components.preheat.payload.certificates import UntrustedError
    from components.preheat.payload.request import Request
    from components.serving.spec import ModelSpec
    from components.storage.fields import CaBundleSpec
    from components.storage.spec import WeightsSpec
    from operations.workspace import Workspace

_JOB = "kubernetes:batch/v1:Job"
# What tells rclone and huggingface_hub where the source is; everything else of the container stays in it.
_SOURCE_VARIABLES = ("RCLONE_CONFIG_", "AWS_REGION", "HF_ENDPOINT")


@dataclass(frozen=True, kw_only=True)
class PlannedPreheat:
    """One preheat Job of a plan. `secrets` are the Secrets that it reads, by the variables that they become."""

    name: str
    request: Request
    environment: dict[str, str]
    secrets: dict[str, str]
    origin: str
    source: str
    store: str
    share: str
    stated_size: str | None
    ca: CaBundleSpec | None
    namespace: str

    @property
    def round(self) -> int:
        """The round that it makes READY."""
        return int(self.request.directory.rpartition("-r")[2])

    @property
    def wanted_credentials(self) -> str:
        """What to export so that the source can be listed from here, as the end of a sentence."""
        missing = sorted(name for name in self.secrets if name not in os.environ)
        if not missing:
            return ""
        return f"; the Job takes {', '.join(missing)} from Secret {', '.join(sorted(set(self.secrets.values())))}: export the same here"

    def told(self, refusal: UntrustedError, given: Path | None) -> str:
        """What `refusal` says, with what to type on this machine, which does not hold the CA that the Job is lent; `given` is what it was."""
        if not refusal.unknown:
            return str(refusal)
        if given is not None:
            return str(
                replace(refusal, remedy=f"neither a public CA nor one in {given} signed it; give the certificate of the CA that did")
            )
        if self.ca is None:
            field = f"storage.{self.source}.caBundle"
            remedy = f"put the certificate of the CA that signed it into a Secret or ConfigMap and name that under {field}, for the Job"
            return str(replace(refusal, remedy=f"{remedy}; to list from here give the same as a file, with --ca-bundle FILE"))
        lent = self.ca.bundle
        value = f'index .data "{lent.key}"{" | base64decode" if lent.kind == "Secret" else ""}'
        ask = f"kubectl -n {self.namespace} get {lent.kind.lower()} {lent.name} -o 'go-template={{{{{value}}}}}' > ca.crt"
        return str(replace(refusal, remedy=f"the Job is lent the CA of {self.ca.location}: fetch it with {ask} and add --ca-bundle ca.crt"))


def planned(workspace: Workspace, model: str, number: int | None) -> list[PlannedPreheat]:
    """What `up` would declare to preheat `model`, with `number` as the round of its weights; artifacts beside it follow. Raises OperationError where there is nothing to preheat."""
    from components.preheat.spec import artifact_job
    from rehearsal.engine.program.record import record

    spec = _model(workspace, model)
    given = workspace.engine_input()
    if number is not None:
        models = json.loads(given["config"]["inferplan:models"])
        models[model]["preheat"]["round"] = number
        given["config"] = {**given["config"], "inferplan:models": json.dumps(models)}
    recording = record(workspace.program, **given)
    jobs = {_instance(each.inputs): each.inputs for each in recording.of_type(_JOB)}
    files = ({model: spec.stored_files} if spec.stored_files else {}) | {
        artifact_job(model, name): each for name, each in spec.artifacts.items()
    }
    return [_planned(workspace, spec, weights, name, jobs[name]) for name, weights in files.items()]


@contextlib.contextmanager
def reached(planned: PlannedPreheat, ca: Path | None = None) -> Iterator[None]:
    """The environment in which the tools find the source of `planned` and believe the CAs in the file `ca` beside the public ones.

    Credentials are those that this process has anyway. Raises PreheatError where `ca` holds no certificate.
    """
    from components.preheat.payload.certificates import extra_cas

    before = dict(os.environ)
    os.environ.update(planned.environment)
    # rclone's S3 client stumbles over this variable (1.60), and has one of its own for the same.
    if bundle := os.environ.pop("AWS_CA_BUNDLE", None):
        os.environ.setdefault("RCLONE_CA_CERT", bundle)
    try:
        with extra_cas(None if ca is None else str(ca)):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _model(workspace: Workspace, model: str) -> ModelSpec:
    models = workspace.settings.models
    if model not in models:
        near = get_close_matches(model, models, n=1)
        hint = f"did you mean {near[0]!r}" if near else f"it has {', '.join(models) or 'none'}"
        raise RequestError(f"{model!r} is no model of {workspace.stack}; {hint}")
    if models[model].preheat is None:
        raise RequestError(
            f"{model!r} has no preheat in {workspace.file.shown_path}; add preheat: {{into: <store>}} to have its files copied"
        )
    return models[model]


def _planned(workspace: Workspace, spec: ModelSpec, weights: WeightsSpec, name: str, job: dict[str, Any]) -> PlannedPreheat:
    from components.preheat.payload.request import VARIABLE, parse

    if spec.preheat is None:
        raise TypeError(f"{name} has no preheat")
    container = next(each for each in job["spec"]["template"]["spec"]["containers"] if each["name"] == "preheat")
    clear = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    references = {each["name"]: each["valueFrom"].get("secretKeyRef") for each in container["env"] if "valueFrom" in each}
    into = spec.preheat.into
    return PlannedPreheat(
        name=name,
        request=parse(clear[VARIABLE], workspace.settings.namespace),
        environment={key: value for key, value in clear.items() if key.startswith(_SOURCE_VARIABLES)},
        secrets={key: found["name"] for key, found in references.items() if found},
        origin=f"{weights.store} ({workspace.settings.storage[weights.store].location}), {weights.path}",
        source=weights.store,
        store=into,
        share=f"{into} ({workspace.settings.storage[into].location})",
        stated_size=weights.size,
        ca=getattr(workspace.settings.storage[weights.store], "ca_bundle", None),
        namespace=workspace.settings.namespace,
    )


def _instance(job: dict[str, Any]) -> str:
    return job["metadata"]["labels"][INSTANCE_LABEL]
