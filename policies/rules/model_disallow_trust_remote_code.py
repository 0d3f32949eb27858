"""Servers run only code from their image."""

from __future__ import annotations

import re

from policies.engine.rule import Findings, Parameters, Rule, Severity, found
from policies.subjects.pods import CONTAINERS, Container
from policies.subjects.serving import is_vllm

NAMES = re.compile(r"(?i)^(VLLM_|HF_|TRANSFORMERS_)?TRUST_REMOTE_CODE$")
# argparse takes an option cut short as long as no other begins alike (vLLM 0.32 has --trust-request-... too).
SHORTEST, OPTION = "--trust-rem", "--trust-remote-code"
ON = ("", "1", "true", "yes", "on")


def _means_it(option: str) -> bool:
    return option.startswith(SHORTEST) and OPTION.startswith(option)


# Options of vLLM that import a class, a module or a file by the name that they are given, or read options from a file that no rule sees
# (vLLM 0.22, `vllm serve --help`, read 2026-11-22).
IMPORTS = (
    "--config",
    "--io-processor-plugin",
    "--logits-processor-pattern",
    "--logits-processors",
    "--middleware",
    "--reasoning-parser-plugin",
    "--scheduler-cls",
    "--tool-parser-plugin",
    "--worker-cls",
    "--worker-extension-cls",
)
# Options of Triton that load libraries of a directory. Anyone who can write models could write libraries next to them.
FOLDERS = ("--backend-directory", "--repoagent-directory")
MODULE = re.compile(r"kv_connector_module_path")
LOADED = re.compile(r"LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|PYTHONPATH|PYTHONSTARTUP|PYTHONHOME|VLLM_PLUGINS")
INSTALLS = re.compile(r"\b(pip3?|uv pip|conda|apt-get|apt) install\b|\b(curl|wget)\b[^|]*\|\s*(sudo )?(ba|z)?sh\b")


def _check(container: Container, _: Parameters) -> Findings:
    for word in container.arguments:
        name, _equals, value = word.text.partition("=")
        if _means_it(name.replace("_", "-")) and value.lower() in ON:
            yield found(word.field, "lets the model's files run as code")
    for name, entry in container.environment().items():
        if NAMES.match(name) and entry.at("value").text().lower() in ON:
            yield found(entry, "lets the model's files run as code")
    for field in (*container.at("command").each(), *container.at("args").each()):
        if INSTALLS.search(field.text()):
            yield found(field, "runs what it downloads")
    if is_vllm(container) or _is_triton(container):
        yield from _doors(container)


def _is_triton(container: Container) -> bool:
    return any(word.rpartition("/")[2] == "tritonserver" for word in container.words)


def _doors(container: Container) -> Findings:
    """Other ways to code than the model's repository."""
    models = (container.option("--model-repository", "--model-store") or "").rstrip("/")
    for word in container.arguments:
        name = word.text.partition("=")[0].replace("_", "-")
        if is_vllm(container) and name in IMPORTS:
            yield found(word.field, "imports code, or reads options, from a place that no rule can read")
        if MODULE.search(word.text):
            yield found(word.field, "imports a connector from a module path")
        if name in FOLDERS and models and (container.option(name) or "").startswith(f"{models}/"):
            yield found(word.field, "loads libraries from the model repository")
    for name, entry in container.environment().items():
        if LOADED.fullmatch(name) and (entry.at("value").text() or not entry.at("valueFrom").absent):
            yield found(entry, "loads code before the server's own")
    for source in container.at("envFrom").each():
        yield found(source, "sets variables that no rule can read")


RULE = Rule(
    id="model-disallow-trust-remote-code",
    title="Servers run only code from their image",
    severity=Severity.CRITICAL,
    refs=(
        "inference",
        "NSA-CISA: supply chain",
    ),
    why="With trust_remote_code, files of the model are programs that run with the server's keys",
    remedy=(
        "remove --trust-remote-code and options that import other code; put plugins into the image and list variables under "
        "env; or convert the model to a format without code, or use an image whose engine supports it"
    ),
    subject=CONTAINERS,
    check=_check,
)
