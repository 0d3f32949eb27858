"""Models from a hub are pinned to a commit."""

from __future__ import annotations

import re

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate
from policies.subjects.serving import engine_containers, model_of

COMMIT = re.compile(r"[0-9a-f]{40}\Z")


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for store in pod.stores:
        address = store.text()
        if address.startswith("hf://") and not COMMIT.match(address.rpartition(":")[2]):
            yield found(store, "downloads a model from a hub without a commit")
    for container in engine_containers(pod):
        model = model_of(container)
        if model and not model.startswith(("/", ".", "s3://", "gs://", "az://")):
            if not COMMIT.match(container.option("--revision", "--model-revision") or ""):
                yield found(container.at("args"), "serves a model from a hub without a commit in --revision")
            code = container.option("--code-revision")
            if code is not None and not COMMIT.match(code):
                yield found(container.at("args"), "downloads code with a --code-revision that is not a commit")


RULE = Rule(
    id="model-require-revision",
    title="Models from a hub are pinned to a commit",
    severity=Severity.HIGH,
    refs=(
        "inference",
        "CVE-2026-47155",
    ),
    why="A branch can change, so the next restart could serve other weights and other code",
    remedy=(
        "serve from a preheated path, or set --revision (and --tokenizer-revision) to a 40-digit commit; for KServe append it "
        "to the URI: hf://org/model:<commit>"
    ),
    subject=PODS,
    check=_check,
)
