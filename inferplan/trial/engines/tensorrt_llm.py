"""The trial of a model behind `trtllm-serve`: in a container of its image, its server reads the
arguments and the settings of the plan, and its LLM API checks them. No server starts.
"""

import json
from collections.abc import Callable, Iterator

from pydantic.alias_generators import to_camel

from inferplan.components.serving.tensorrt_llm.spec import TensorrtLlmSpec
from inferplan.errors import RequestError
from inferplan.tables import table
from inferplan.trial import checkpoint as checkpoints
from inferplan.trial import verdict
from inferplan.trial.container import PAYLOAD
from inferplan.trial.subject import Subject
from inferplan.trial.verdict import Finding

TITLE = "TensorRT-LLM"
UNJUDGED = "the start and the answers, because TensorRT-LLM has no CPU kernels"
_PROGRAM = PAYLOAD / "tensorrt_llm_trial.py"
_SECONDS = 600.0
_RELEASE, _ACCEPTED, _REJECTED = "trial: release ", "trial: accepted", "trial: rejected "
_FILE = "llm.yaml"
# The errors that its classes raise about settings.
_ABOUT_SETTINGS = ("ValidationError", "ValueError", "UsageError", "BadParameter", "NoSuchOption")


def run(subject: Subject, progress: Callable[[str], None]) -> Iterator[Finding]:
    """Yield the findings about the files and the arguments. Raises RequestError if the image cannot
    judge them.
    """
    spec: TensorrtLlmSpec = subject.spec
    if subject.request is not None:
        raise RequestError("--request: TensorRT-LLM starts no server in a trial. Remove --request")
    if spec.serves_engines:
        raise RequestError(
            f"{subject.name} has engines, which only accelerators can build and load. Start the Job"
            " that builds them on a small pool instead"
        )
    place = ("models", subject.name)
    for fault in checkpoints.faults(checkpoints.read_checkpoint(subject.weights)):
        yield Finding(verdict.WEIGHTS, "rejected", fault, (*place, "weights"))
    progress(f"TensorRT-LLM judges {subject.name}")
    log = _judged(subject)
    if _RELEASE not in log:
        yield Finding("arguments", "not judged", verdict.sentence_of(log))
        return
    if _ACCEPTED in log:
        yield Finding("arguments", "works")
        return
    rejected = [each for each in log.splitlines() if each.startswith(_REJECTED)]
    text = json.loads(rejected[0].removeprefix(_REJECTED)) if rejected else verdict.sentence_of(log)
    kind = text.partition(":")[0]
    if "validation error" in text:
        text = f"{kind}: {verdict.validation_text(text)}"
    on_cpus = any(each in text.lower() for each in table("trial/engines/vllm.toml")["cpu_only"])
    if on_cpus or kind not in _ABOUT_SETTINGS:
        yield Finding("arguments", "not judged", verdict.shortened(text))
        return
    path = verdict.path_of(text, _settings(subject.name, spec)) or place
    yield Finding("arguments", "rejected", verdict.shortened(text), path)


def _judged(subject: Subject) -> str:
    """The output of the image about the arguments of the container, on the files in the directory."""
    arguments = [
        each.replace(f"/models/{subject.name}", str(subject.weights)).replace(
            f"/settings/{_FILE}", "/dev/stdin"
        )
        for each in subject.container["args"]
    ]
    return subject.place.finished(
        ["python3", str(_PROGRAM), str(max(subject.accelerators, 1)), "serve", *arguments],
        {**subject.environment, "HF_HUB_OFFLINE": "1"},
        _SECONDS,
        f"TensorRT-LLM did not finish in {_SECONDS:.0f} s. Try again on a computer with less load",
        text=subject.objects["kubernetes:core/v1:ConfigMap"]["data"][_FILE],
    ).stdout


def _settings(name: str, spec: TensorrtLlmSpec) -> dict[verdict.Path, list[str]]:
    """The settings of the model by their path, each with its name and value."""
    base: verdict.Path = ("models", name)
    fields: dict[verdict.Path, list[str]] = {
        (*base, to_camel(field)): [field, str(value)]
        for field, value in spec.model_dump(exclude_unset=True).items()
        if isinstance(value, str | int | float)
    }
    return fields | {
        (*base, "llmArgs", key): [key, str(value)] for key, value in spec.llm_args.items()
    }
