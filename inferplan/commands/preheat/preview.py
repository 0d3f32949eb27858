"""The preheats of one model as a plan declares them, and the files at their source, which a child
process lists.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferplan.documents.errors import unknown
from inferplan.errors import RequestError
from inferplan.kube.names import INSTANCE_LABEL
from inferplan.kube.objects import label

if TYPE_CHECKING:
    from inferplan.components.preheat.payload.certificates import UntrustedError
    from inferplan.components.preheat.payload.request import Request
    from inferplan.components.preheat.preview import Listing
    from inferplan.components.serving.spec import ModelSpec
    from inferplan.components.storage.fields import CaBundleSpec
    from inferplan.components.stores import WeightsSpec
    from inferplan.workspace.workspace import Workspace

_JOB = "kubernetes:batch/v1:Job"
# The variables by which rclone and huggingface_hub find the source; the others stay in the
# container.
_SOURCE_VARIABLES = ("RCLONE_CONFIG_", "AWS_REGION", "HF_ENDPOINT")


@dataclass(frozen=True, kw_only=True)
class PlannedPreheat:
    """One preheat Job of a plan. `secrets` are the Secrets that it reads, by variable."""

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
        return int(self.request.directory.rpartition("-r")[2])

    @property
    def missing_credentials(self) -> str:
        """The variables to export before the source can be listed from here, as the end of a
        sentence.
        """
        missing = sorted(name for name in self.secrets if name not in os.environ)
        if not missing:
            return ""
        return (
            f"; the Job takes {', '.join(missing)} from Secret"
            f" {', '.join(sorted(set(self.secrets.values())))}: export the same here"
        )

    def explained(self, error: UntrustedError, ca: Path | None) -> str:
        """The message of `error` with the remedy on this machine, which does not have the CA of the
        Job. `ca` is the file of --ca-bundle.
        """
        if not error.unknown:
            return str(error)
        if ca is not None:
            return str(
                replace(
                    error,
                    remedy=(
                        f"no public CA and no CA in {ca} signed it. Give the certificate of the CA"
                        " that did."
                    ),
                )
            )
        if self.ca is None:
            field = f"storage.{self.source}.caBundle"
            remedy = (
                "put the certificate of the CA that signed it into a Secret or ConfigMap and name"
                f" that under {field}, for the Job"
            )
            return str(
                replace(
                    error,
                    remedy=(
                        f"{remedy}; to list the source from here, give it as a file with"
                        " --ca-bundle FILE"
                    ),
                )
            )
        source = self.ca.bundle
        value = f'index .data "{source.key}"{" | base64decode" if source.kind == "Secret" else ""}'
        ask = (
            f"kubectl -n {self.namespace} get {source.kind.lower()} {source.name} -o"
            f" 'go-template={{{{{value}}}}}' > ca.crt"
        )
        return str(
            replace(
                error,
                remedy=(
                    f"the Job trusts the CA of {self.ca.location}: fetch it with {ask} and add"
                    " --ca-bundle ca.crt"
                ),
            )
        )


def problems_of_files(workspace: Workspace, model: str, mount: Path | None) -> list[str]:
    spec = workspace.settings.models[model]
    if mount is None or spec.stored_files is None or not (mount / spec.stored_files.path).is_dir():
        return []
    return list(
        spec.problems_of_files(
            mount / spec.stored_files.path,
            workspace.settings.node_pools[spec.pool].target(spec.pool),
        )
    )


def planned(workspace: Workspace, model: str, number: int | None) -> list[PlannedPreheat]:
    """The preheats that `up` would declare for `model` and its artifacts, with `number` as the
    round of its weights. Raises RequestError.
    """
    from inferplan.components.preheat.spec import artifact_job
    from inferplan.pulumi_engine.program.record import record

    spec = _model(workspace, model)
    program_input = workspace.engine_input()
    if number is not None:
        models = json.loads(program_input["config"]["inferplan:models"])
        models[model]["preheat"]["round"] = number
        program_input["config"] = {
            **program_input["config"],
            "inferplan:models": json.dumps(models),
        }
    recording = record(workspace.program, **program_input)
    jobs = {label(each.inputs, INSTANCE_LABEL): each.inputs for each in recording.of_type(_JOB)}
    files = ({model: spec.stored_files} if spec.stored_files else {}) | {
        artifact_job(model, name): each for name, each in spec.artifacts.items()
    }
    return [_planned(workspace, spec, weights, name, jobs[name]) for name, weights in files.items()]


def _model(workspace: Workspace, model: str) -> ModelSpec:
    models = workspace.settings.models
    if model not in models:
        raise RequestError(
            unknown(
                "model",
                model,
                models,
                owner=workspace.stack,
                remedy="Add one under inferplan:models.",
            )
        )
    if models[model].preheat is None:
        raise RequestError(
            f"{model!r} has no preheat in {workspace.file.shown_path}. Add preheat: {{into:"
            " <store>} to copy its files"
        )
    return models[model]


def _planned(
    workspace: Workspace, spec: ModelSpec, weights: WeightsSpec, name: str, job: dict[str, Any]
) -> PlannedPreheat:
    from inferplan.components.preheat.payload.request import VARIABLE, parse

    if spec.preheat is None:
        raise TypeError(f"{name} has no preheat")
    container = next(
        each for each in job["spec"]["template"]["spec"]["containers"] if each["name"] == "preheat"
    )
    clear = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    references = {
        each["name"]: each["valueFrom"].get("secretKeyRef")
        for each in container["env"]
        if "valueFrom" in each
    }
    into = spec.preheat.into
    return PlannedPreheat(
        name=name,
        request=parse(clear[VARIABLE], workspace.settings.namespace),
        environment={
            key: value for key, value in clear.items() if key.startswith(_SOURCE_VARIABLES)
        },
        secrets={key: reference["name"] for key, reference in references.items() if reference},
        origin=(
            f"{weights.store} ({workspace.settings.storage[weights.store].location}),"
            f" {weights.path}"
        ),
        source=weights.store,
        store=into,
        share=f"{into} ({workspace.settings.storage[into].location})",
        stated_size=weights.size,
        ca=getattr(workspace.settings.storage[weights.store], "ca_bundle", None),
        namespace=workspace.settings.namespace,
    )


def list_in_environment(request: Request, variables: Mapping[str, str], ca: Path | None) -> Listing:
    """The files at the source of `request`, listed with `variables` set and the CAs in the file
    `ca` trusted too. Raises PreheatError.
    """
    environment = {**os.environ, **variables}
    # rclone's S3 client fails with this variable (1.60), and has its own one.
    if bundle := environment.pop("AWS_CA_BUNDLE", None):
        environment.setdefault("RCLONE_CA_CERT", bundle)
    child = [sys.executable, "-P", "-m", __name__]
    question = pickle.dumps((request, None if ca is None else str(ca)))
    ended = subprocess.run(
        child, input=question, env=environment, stdout=subprocess.PIPE, check=True
    )
    answer = pickle.loads(ended.stdout)  # noqa: S301 - written by our own child process
    if isinstance(answer, Exception):
        raise answer
    return answer


def _main() -> None:
    from inferplan.components.preheat.payload.certificates import extra_cas
    from inferplan.components.preheat.payload.errors import PreheatError
    from inferplan.components.preheat.preview import list_source

    request, ca = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - written by our own parent process
    try:
        with extra_cas(ca):
            answer: object = list_source(request)
    except PreheatError as error:
        answer = error
    sys.stdout.buffer.write(pickle.dumps(answer))


if __name__ == "__main__":
    _main()
