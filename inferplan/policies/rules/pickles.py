"""Pickle files, whose loading runs the code in them."""

import re

from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    resource_rule,
    violation,
    violations,
)
from inferplan.policies.rules.engines import OFF
from inferplan.policies.subjects.pods import PODS, PodTemplate
from inferplan.policies.subjects.python_code import plain_code
from inferplan.policies.subjects.serving import engine_containers

UNPICKLING_CODE = re.compile(
    r"\b(weights_only\s*=\s*False|allow_pickle\s*=\s*True)\b|\bread_pickle\("
    r"|\b(_?pickle|joblib|dill|cloudpickle|marshal|shelve)\.(loads?|open|Unpickler)\("
)
PICKLE_FORMATS = ("pt", "npcache", "pickle")
# KServe's server for sklearn loads only joblib and pickle files.
PICKLE_SERVERS = ("sklearn",)
PICKLE_FILE = re.compile(r"(\.(pkl|pickle|pt|pth|ckpt)|pytorch_model[\w.-]*\.bin)\Z", re.IGNORECASE)
# Variables that let torch or vLLM load pickle files.
PICKLE_VARIABLES = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD|VLLM_ALLOW_INSECURE_SERIALIZATION"


@resource_rule(PODS)
def model_disallow_pickle(pod: PodTemplate, _: Parameters) -> Violations:
    for model in pod.models:
        kind = model if model.keys[-1] in PICKLE_SERVERS else model.at("modelFormat", "name")
        if kind is model or kind.text() in PICKLE_SERVERS:
            yield violation(kind, "is a format that loads pickle files")
    for container in pod.containers:
        yield from (
            violation(word.field, "loads pickle files")
            for word in container.arguments
            if UNPICKLING_CODE.search(plain_code(word.text))
        )
    for container in engine_containers(pod):
        if container.option("--load-format") in PICKLE_FORMATS:
            yield violation(container.at("args"), "loads weights from pickle files")
        yield from (
            violation(word.field, "names a pickle file")
            for word in container.arguments
            if PICKLE_FILE.search(word.text)
        )
        variables = container.variables(PICKLE_VARIABLES)
        yield from violations(
            variables,
            lambda entry: entry.at("value").text().lower() not in OFF,
            "loads pickle files",
        )
