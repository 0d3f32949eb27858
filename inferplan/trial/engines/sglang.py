"""The trial of a model behind SGLang: its own parser judges the arguments of the plan. No server
starts.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic.alias_generators import to_camel

from inferplan.components.serving.sglang import options
from inferplan.components.serving.sglang.spec import SglangSpec
from inferplan.errors import RequestError
from inferplan.tables import table
from inferplan.trial import checkpoint as checkpoints
from inferplan.trial import verdict
from inferplan.trial.subject import Subject
from inferplan.trial.verdict import Finding

TITLE = "SGLang"
UNJUDGED = (
    "the model configuration, the start and the answers, because SGLang's package has no CPU"
    " kernels"
)
PAYLOAD = Path(__file__).with_name("payload") / "sglang_trial.py"
_SECONDS = 600.0
_RELEASE, _ACCEPTED, _REJECTED = "trial: release ", "trial: accepted", "trial: rejected "
# The errors that SGLang raises about settings; others come from code that expects an accelerator.
_ABOUT_SETTINGS = ("ValueError", "AssertionError", "argument ", "unrecognized ")


def run(subject: Subject, progress: Callable[[str], None]) -> Iterator[Finding]:
    """Yield the findings about the files and the arguments. Raises RequestError if SGLang cannot run
    here.
    """
    if subject.request is not None:
        raise RequestError("--request: SGLang starts no server in a trial. Remove --request")
    place = ("models", subject.name)
    for fault in checkpoints.faults(checkpoints.read_checkpoint(subject.weights)):
        yield Finding(verdict.WEIGHTS, "rejected", fault, (*place, "weights"))
    progress(f"SGLang judges {subject.name}")
    output, errors = _judged(subject)
    said = [line for line in output.splitlines() if line.startswith("trial: ")]
    if not any(line.startswith(_RELEASE) for line in said):
        cause = verdict.sentence_of(errors)
        raise subject.place.absent(
            f"SGLang that starts ({cause})",
            f"This computer cannot run SGLang ({cause}). Install sglang in a separate environment"
            " (inferplan docs trial), and set INFERPLAN_CPU_SERVER to its `sglang` program",
        )
    if _ACCEPTED in said:
        own = said[0].removeprefix(_RELEASE)
        planned = options.version_in(subject.container["image"])
        other = f"judged by SGLang {own}; the plan's image has {planned}"
        yield Finding("arguments", "works", other if own != planned else "")
        return
    rejected = [line.removeprefix(_REJECTED) for line in said if line.startswith(_REJECTED)]
    text = json.loads(rejected[0]) if rejected else verdict.sentence_of(errors)
    sentence = verdict.shortened(text)
    on_cpus = any(each in sentence.lower() for each in table("trial/engines/vllm.toml")["cpu_only"])
    if on_cpus or not sentence.startswith(_ABOUT_SETTINGS):
        yield Finding("arguments", "not judged", sentence)
        return
    path = verdict.path_of(sentence, _settings(subject.name, subject.spec)) or place
    yield Finding("arguments", "rejected", sentence, path)


def _judged(subject: Subject) -> tuple[str, str]:
    """The output of SGLang about the arguments of the container, on the files in the directory."""
    python = subject.place.python("a program of an environment with SGLang")
    mount = f"/models/{subject.name}"
    arguments = [
        each.replace(mount, str(subject.weights)) for each in subject.container["args"][1:]
    ]
    done = subject.place.finished(
        [python, str(PAYLOAD), *arguments, "--device=cpu"],
        # Stay offline.
        {**subject.environment, "HF_HUB_OFFLINE": "1"},
        _SECONDS,
        f"SGLang did not finish in {_SECONDS:.0f} s. Try again on a computer with less load",
    )
    return done.stdout, done.stderr


def _settings(name: str, spec: SglangSpec) -> dict[verdict.Path, list[str]]:
    """The settings of the model by their path, each with its names and values in SGLang's words."""
    base: verdict.Path = ("models", name)
    fields: dict[verdict.Path, list[str]] = {
        (*base, to_camel(field)): [field, *options.FIELD_OPTIONS[field], str(value)]
        for field, value in spec.values(None).items()
    }
    for each in options.parsed(spec.extra_args):
        values = re.findall(r"[A-Za-z0-9_]{3,}", each.value or "")
        fields[(*base, "extraArgs", each.index)] = [each.name.lstrip("-"), *values]
    return fields
