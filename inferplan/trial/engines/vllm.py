"""The trial of a model behind vLLM: vLLM's build for CPUs judges its arguments, starts with them on
generated weights of few layers, and answers questions.
"""

import json
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic.alias_generators import to_camel

from inferplan.components.serving.vllm import values
from inferplan.components.serving.vllm.spec import VllmSpec
from inferplan.tables import table
from inferplan.trial import checkpoint as checkpoints
from inferplan.trial import verdict
from inferplan.trial.checkpoint import Checkpoint
from inferplan.trial.process import Process, free_port
from inferplan.trial.questions import Question, ask, questions, read
from inferplan.trial.subject import Subject
from inferplan.trial.verdict import Finding

TITLE = "vLLM"
UNJUDGED = "CUDA graphs and kernels, memory of the accelerators, links between them, and speed"
_TABLE = "trial/engines/vllm.toml"
_PAYLOAD = Path(__file__).with_name("payload") / "vllm_trial.py"
_START_SECONDS = 600.0
_RELEASE, _ACCEPTED, _REJECTED = "trial: release ", "trial: accepted", "trial: rejected "
_CHAT = "trial: chat "
# The longest prompt: attention of a CPU is slow, and a limit beyond the learned positions shows
# just behind them.
_PROMPT_TOKENS = 4096
_CACHE_GIB = 2
_KEPT_VARIABLES = ("PATH", "LANG", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "HOME", "TMPDIR")


def run(subject: Subject, progress: Callable[[str], None]) -> Iterator[Finding]:
    """Yield the findings in the order of the steps. The engine and its children have ended
    afterwards. Raises RequestError, before anything starts, if the model cannot be tried.
    """
    container = subject.container
    python = subject.place.python("the `vllm` program of an environment with vLLM's CPU build")
    trial = _Trial(
        subject=subject,
        image=container["image"],
        arguments=container["args"],
        environment=subject.environment,
        checkpoint=checkpoints.read_checkpoint(subject.weights),
        settings=_settings(subject.name, subject.spec),
    )
    for fault in checkpoints.faults(trial.checkpoint):
        yield Finding(verdict.WEIGHTS, "rejected", fault, ("models", trial.name, "weights"))
    with tempfile.TemporaryDirectory(prefix="inferplan-trial-") as name:
        folder = Path(name)
        small = folder / "model"
        small.mkdir()
        differs = checkpoints.small_copy(trial.checkpoint, small)
        port, key = free_port(), subject.server_key
        pods_only, judged_only = table(_TABLE)["pods_only"], table(_TABLE)["judged_only"]
        on_accelerators = subject.place.accelerators >= max(subject.accelerators, 1)
        fitting = _fitting_length(trial)
        length = [] if fitting is None else [f"--max-model-len={fitting}"]
        arguments = {
            "judged": _arguments(trial, trial.checkpoint.directory, pods_only),
            "served": [
                *_arguments(
                    trial, small, pods_only if on_accelerators else (*pods_only, *judged_only)
                ),
                *length,
                *([] if on_accelerators else ["--enforce-eager"]),
                *("--load-format=dummy", "--host=127.0.0.1", f"--port={port}"),
            ],
        }
        progress(f"vLLM judges {trial.name} and starts")
        command = [python, str(_PAYLOAD), json.dumps(arguments)]
        with subject.place.started(
            command, _environment(trial, key), folder, port=port, key=key
        ) as process:
            yield from _findings(trial, process, port, key, differs, progress)


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """The `subject` with image, `arguments` and `environment` of its container, the checkpoint, and
    the settings of the stack file by path, each with the words that vLLM may use for it.
    """

    subject: Subject
    image: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    checkpoint: Checkpoint
    settings: Mapping[verdict.Path, Collection[str]]

    @property
    def name(self) -> str:
        return self.subject.name

    @property
    def mount(self) -> str:
        return self.arguments[0]


def _arguments(trial: _Trial, directory: Path, without: Collection[str]) -> list[str]:
    """The arguments on the files in `directory`, without the options `without` and those whose
    value is a path that only the pods have.
    """
    words = [
        f"{before}{directory}{after}" if found else word
        for word in trial.arguments
        for before, found, after in [word.partition(trial.mount)]
    ]
    kept, dropped = [str(directory)], False
    for word in words[1:]:
        if word.startswith("-") and not word[1:2].isdecimal():
            name = values.full_name(
                word.partition("=")[0].replace("_", "-").partition(".")[0], values.releases()[-1]
            )
            dropped = name in without or word.partition("=")[2].startswith("/artifacts/")
        if not dropped:
            kept.append(word)
    return kept


def _fitting_length(trial: _Trial) -> int | None:
    """The context in tokens that the cache of a trial holds, None if it holds that of the model."""
    text = trial.checkpoint.text
    heads = text.get("num_key_value_heads") or text.get("num_attention_heads") or 1
    width = text.get("head_dim") or (text.get("hidden_size") or 0) // (
        text.get("num_attention_heads") or 1
    )
    # Keys and values of 2 layers, with 2 bytes each.
    room = (_CACHE_GIB << 30) // max(2 * 2 * 2 * heads * width, 1)
    asked = next(
        (
            each.value
            for each in values.parsed(trial.arguments, values.releases()[-1])
            if each.name == "--max-model-len"
        ),
        None,
    )
    length = values.amount(asked) or trial.checkpoint.positions or 0
    return room if length > room else None


def _environment(trial: _Trial, key: str) -> dict[str, str]:
    own = trial.subject.place.variables(_KEPT_VARIABLES)
    return {
        **own,
        **trial.environment,
        "VLLM_CPU_KVCACHE_SPACE": str(_CACHE_GIB),
        # No hub is asked, and no statistics are sent.
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": own.get(
            "VLLM_CACHE_ROOT", str(Path(tempfile.gettempdir()) / "inferplan-vllm-cache")
        ),
        "VLLM_API_KEY": key,
    }


def _findings(
    trial: _Trial,
    process: Process,
    port: int,
    key: str,
    differs: Sequence[str],
    progress: Callable[[str], None],
) -> Iterator[Finding]:
    url = f"http://127.0.0.1:{port}"
    ready = process.wait(lambda: read(url, "/v1/models", key) is not None, _START_SECONDS)
    log = process.log
    if "No module named 'vllm'" in log:
        raise trial.subject.place.absent(
            TITLE,
            "the program in INFERPLAN_CPU_SERVER or on PATH is not in an environment with vLLM."
            " Install vLLM's CPU build in one (inferplan docs trial), and use its `vllm` program",
        )
    if _ACCEPTED not in log:
        yield _stopped(trial, "arguments", log, process)
        return
    yield from _warnings(trial, log)
    yield Finding("arguments", "works", _other_release(trial, log))
    if _CHAT in log:
        yield from _without_start(trial, log)
        return
    if not ready:
        yield _stopped(trial, "start", log, process)
        return
    small = f", with {', '.join(differs)}" if differs else ""
    yield Finding("start", "works", f"ready on generated weights{small}")
    served = read(url, "/v1/models", key)["data"]
    paths = list((read(url, "/openapi.json", key) or {}).get("paths", ()))
    limit = min(
        (each for each in (served[0].get("max_model_len"),) if isinstance(each, int)),
        default=trial.checkpoint.positions or 1,
    )
    learned = trial.checkpoint.positions
    # A limit beyond the learned positions fails at the first token behind them.
    longest = min(limit, learned + 64 if learned and limit > learned else _PROMPT_TOKENS)
    options = {
        each.name: each.value for each in values.parsed(trial.arguments, values.releases()[-1])
    }
    all_questions = questions(
        [each["id"] for each in served],
        paths,
        longest=max(longest - 2, 1),
        special=_special_tokens(trial.checkpoint),
        tools="--tool-call-parser" in options,
    )
    own = [trial.subject.request] if trial.subject.request else []
    for number, question in enumerate((*all_questions, *own)):
        progress(f"asking {question.kind}")
        answered = _answered(trial, question, url, key, process)
        yield answered
        if number == 0 and answered.state == "works":
            yield from trial.subject.asked_through_gateway(question, port)


def _without_start(trial: _Trial, log: str) -> Iterator[Finding]:
    """Yield the findings of an image that cannot start here: it read the tokenizer and the template."""
    said = json.loads(log.partition(_CHAT)[2].splitlines()[0])
    yield _finding(trial, "a chat prompt", said) if said else Finding("a chat prompt", "works")
    yield Finding(
        "start",
        "not judged",
        "the image only has kernels for accelerators, and this computer has no accelerator",
    )


def _other_release(trial: _Trial, log: str) -> str:
    """The sentence about the release that judged, if the image of the plan has another one."""
    lines = (line for line in log.splitlines() if line.startswith(_RELEASE))
    own = next(lines, "").removeprefix(_RELEASE).partition("+")[0]
    planned = values.release_in(trial.image)
    return f"judged by vLLM {own}; the image of the plan has {planned}" if own != planned else ""


def _stopped(trial: _Trial, step: str, log: str, process: Process) -> Finding:
    rejected = next((line for line in log.splitlines() if line.startswith(_REJECTED)), None)
    if rejected is not None:
        text = json.loads(rejected.removeprefix(_REJECTED))
        sentence = verdict.shortened(
            verdict.validation_text(text) if "validation error" in text else text
        )
    elif process.exit_status is None:
        sentence = f"vLLM does not answer after {_START_SECONDS:.0f} s; its last line: {verdict.sentence_of(log[-2000:])}"
    else:
        sentence = verdict.sentence_of(log)
    return _finding(trial, step, sentence)


def _finding(trial: _Trial, step: str, said: str) -> Finding:
    sentence = re.sub(r"/\S*inferplan-trial-[^/\s]+/model", str(trial.checkpoint.directory), said)
    if any(each in sentence.lower() for each in table(_TABLE)["cpu_only"]):
        return Finding(step, "not judged", sentence)
    path = verdict.path_of(sentence, trial.settings) or ("models", trial.name)
    return Finding(step, "rejected", sentence, path)


def _warnings(trial: _Trial, log: str) -> Iterator[Finding]:
    """Variables that vLLM does not know are ignored with a warning."""
    for line in log.splitlines():
        if "Unknown vLLM environment variable" in line:
            name = line.rpartition(" ")[2]
            if name in trial.environment:
                yield Finding(
                    "environment",
                    "works",
                    f"vLLM ignores {name}: it does not know it",
                    ("env", name),
                )


def _answered(trial: _Trial, question: Question, url: str, key: str, process: Process) -> Finding:
    answer = ask(url, question, key)
    if answer.status == 200:
        return Finding(question.kind, "works")
    said = answer.message
    if answer.status in (0, 500) and (
        process.exit_status is not None or "EngineCore" in said or not answer.status
    ):
        said = verdict.sentence_of(process.log.partition(_ACCEPTED)[2])
    return _finding(trial, question.kind, verdict.shortened(said))


def _special_tokens(checkpoint: Checkpoint) -> list[int]:
    """The ids of the special tokens of the tokenizer."""
    try:
        document = json.loads((checkpoint.directory / "tokenizer.json").read_text(encoding="utf-8"))
        return [each["id"] for each in document.get("added_tokens", ())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _settings(name: str, spec: VllmSpec) -> dict[verdict.Path, list[str]]:
    """The settings of the model `name` by their path, each with its names and values in vLLM's
    spelling.
    """
    base = ("models", name)
    fields = {
        (*base, to_camel(field)): [field, str(value)]
        for field, value in spec.options(None).items()
        if field in spec.model_fields_set
    }
    listed: dict[verdict.Path, list[str]] = {}
    for each in values.parsed(spec.extra_args, values.releases()[-1]):
        words = [
            each.name.lstrip("-"),
            _short_size(each.name),
            each.key,
            *re.findall(r"[A-Za-z0-9_]{3,}", each.value or ""),
        ]
        listed[(*base, "extraArgs", each.index)] = [word for word in words if word]
    adapters = (
        {(*base, "loraAdapters"): ["lora", *spec.lora_adapters, *spec.lora_adapters.values()]}
        if spec.lora_adapters
        else {}
    )
    variables = {(*base, "env", key): [key, str(value)] for key, value in spec.env.items()}
    return {**fields, **listed, **adapters, **variables}


def _short_size(name: str) -> str:
    """The short word that vLLM's sentences have for a size, dcp_size for
    --decode-context-parallel-size.
    """
    first, _, last = name.lstrip("-").rpartition("-")
    return f"{''.join(word[:1] for word in first.split('-'))}_size" if last == "size" else ""
