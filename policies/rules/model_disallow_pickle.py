"""Weights are not pickle files."""

from __future__ import annotations

import re

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import PODS, PodTemplate
from policies.subjects.serving import engine_containers

FORMATS = ("pt", "npcache", "pickle")
# What KServe's server of that name loads is joblib or pickle, nothing else.
PICKLED = ("sklearn",)
FILES = re.compile(r"(\.(pkl|pickle|pt|pth|ckpt)|pytorch_model[\w.-]*\.bin)\Z", re.IGNORECASE)
# Variables that have torch or vLLM unpickle what they are given.
SWITCHES = ("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "VLLM_ALLOW_INSECURE_SERIALIZATION")
OFF = ("0", "false", "no", "off")


def _check(pod: PodTemplate, _: Parameters) -> Findings:
    for model in pod.models:
        kind = model if model.keys[-1] in PICKLED else model.at("modelFormat", "name")
        if kind is model or kind.text() in PICKLED:
            yield found(kind, "is a format that loads pickle files")
    for container in engine_containers(pod):
        if container.option("--load-format") in FORMATS:
            yield found(container.at("args"), "loads weights from pickle files")
        for word in container.arguments:
            if FILES.search(word.text):
                yield found(word.field, "names a pickle file")
        for name, entry in container.environment().items():
            if name in SWITCHES and entry.at("value").text().lower() not in OFF:
                yield found(entry, "loads pickle files")


RULE = Rule(
    id="model-disallow-pickle",
    title="Weights are not pickle files",
    severity=Severity.CRITICAL,
    refs=(
        "inference",
        "NSA-CISA: supply chain",
    ),
    why="Loading a pickle file runs the code in it, with the pod's keys",
    remedy="convert the weights to safetensors, and use --load-format safetensors, auto or runai_streamer",
    subject=PODS,
    check=_check,
)
