"""The trial of a Triton server: a server on this computer, in explicit mode, loads the models of the
plan's repository one by one, and answers a request for each.

The server is the one that nvidia-pytriton ships (its python backend), or a whole tritonserver.
"""

import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from inferplan.components.serving.triton.models import CustomModel, FileModel
from inferplan.components.serving.triton.spec import TritonSpec
from inferplan.components.serving.triton.text_models import TextGenerationModel, VllmModel
from inferplan.errors import RequestError
from inferplan.images.catalogue import backends_of
from inferplan.trial import verdict
from inferplan.trial.computer import Computer
from inferplan.trial.container import Container
from inferplan.trial.process import Process, free_port
from inferplan.trial.questions import Question, ask, read
from inferplan.trial.subject import Subject
from inferplan.trial.verdict import Finding

TITLE = "Triton"
UNJUDGED = "instances on accelerators, their memory, backends that this server lacks, and speed"
_START_SECONDS = 300.0
_STARTED, _LATE_LOCK = "Started Metrics Service", "boost::interprocess::lock_exception"
_OWN_OPTIONS = (
    "--model-repository",
    "--model-control-mode",
    "--exit-timeout-secs",
    "--http-port",
    "--grpc-port",
    "--metrics-port",
    "--trace-config",
)
_ON_ACCELERATORS = re.compile(r"\bkind\s*:\s*\"?KIND_(?:GPU|AUTO|MODEL)\"?")
_ACCELERATORS = re.compile(r"\bgpus\s*:\s*(?:\[[^\]]*\]|[0-9]+)")
_BACKEND = re.compile(r"backend library for backend '(\w+)'")
_LOG_LINE = re.compile(r"^[EW][0-9]{4} [0-9:.]+ [0-9]+ [\w.]+:[0-9]+\] (?P<message>.+)$")
_UNREADABLE = re.compile(r"inference\.ModelConfig: .+")
_SAMPLES = {"BYTES": "What is the answer?", "BOOL": False}
# Triton says this of exceptions in the code of a model, which may reject a made-up value.
_RAISED_BY_MODEL = "Failed to process the request(s)"


@dataclass(frozen=True)
class _Server:
    """A tritonserver on this computer: the program, its variables and further options."""

    program: str
    environment: Mapping[str, str]
    options: Sequence[str]


def run(subject: Subject, progress: Callable[[str], None]) -> Iterator[Finding]:
    """Yield a finding for each model of the repository, and for a request to each that clients call.
    Raises RequestError, before anything starts, if there is no server or no repository.
    """
    with tempfile.TemporaryDirectory(prefix="inferplan-trial-") as name:
        folder = Path(name)
        server = _server(subject.place, folder)
        repository = folder / "repository"
        models = _lay_out(subject, repository)
        progress(f"Triton starts, and loads {', '.join(models)}")
        key = subject.server_key
        environment = {**server.environment, **subject.environment}
        for attempt in (1, 2, 3):
            port = free_port()
            command = [server.program, *_arguments(subject, repository, port, key), *server.options]
            with subject.place.started(command, environment, folder, port=port, key=key) as process:
                up = process.wait(lambda process=process: _STARTED in process.log, _START_SECONDS)
                # A busy machine may hold the lock of the shared memory for too long.
                if not up and _LATE_LOCK in process.log and attempt < 3:
                    continue
                if not up:
                    yield _finding(subject, "start", _said(process.log, ""))
                    return
                yield from _loaded(subject, models, process, port, key)
                return


def _loaded(
    subject: Subject, models: Mapping[str, str], process: Process, port: int, key: str
) -> Iterator[Finding]:
    """Yield the findings about each of the `models`, given with why it cannot be judged here."""
    url = f"http://127.0.0.1:{port}"
    unjudged: dict[str, str] = {name: reason for name, reason in models.items() if reason}
    ready: list[str] = []
    for name in models:
        step = f"load {name}"
        if name in unjudged:
            yield Finding(step, "not judged", unjudged[name])
            continue
        answer = ask(url, Question(step, f"/v2/repository/models/{name}/load", {}), key)
        config = read(url, f"/v2/models/{name}/config", key) if answer.status == 200 else None
        if config is not None:
            ready.append(name)
            yield Finding(step, "works")
            continue
        sentence = _sentence(answer.message, process.log, name)
        lacks = _BACKEND.search(sentence)
        image = "" if subject.place.in_image else subject.container["image"]
        if lacks and image and lacks[1] in backends_of(image):
            unjudged[name] = f"{sentence} The image of the plan has it."
        if "No module named" in sentence and image and subject.spec.image is not None:
            unjudged[name] = f"{sentence} The image of the stack file may have it."
        if lost := [each for each in unjudged if re.search(rf"\b{re.escape(each)}\b", sentence)]:
            needs = f"{sentence} (needs {', '.join(lost)})"
            unjudged.setdefault(name, needs)
            yield Finding(step, "not judged", unjudged[name])
            continue
        yield _finding(subject, step, sentence, name)
    for name in subject.spec.public:
        if name in ready:
            yield from _asked(subject, name, port, key)
    if subject.request is not None and len(ready) == len(models):
        answer = ask(url, subject.request, key)
        step = subject.request.kind
        yield (
            Finding(step, "works")
            if answer.status == 200
            else _finding(subject, step, verdict.shortened(answer.message))
        )


def _asked(subject: Subject, name: str, port: int, key: str) -> Iterator[Finding]:
    url = f"http://127.0.0.1:{port}"
    config = read(url, f"/v2/models/{name}/config", key)
    step = f"a request to {name}"
    if config.get("model_transaction_policy", {}).get("decoupled"):
        yield Finding(step, "not judged", "a decoupled model answers streams. Use --request")
        return
    question = Question(step, f"/v2/models/{name}/infer", _request(config))
    answer = ask(url, question, key)
    sentence = verdict.shortened(answer.message)
    if answer.status == 200:
        yield Finding(step, "works")
        yield from subject.asked_through_gateway(question, port)
    elif _RAISED_BY_MODEL in sentence:
        yield Finding(step, "not judged", f"{sentence} (a made-up request. Use --request)")
    else:
        yield _finding(subject, step, sentence, name)


def _request(config: Mapping[str, Any]) -> dict[str, Any]:
    """A request of one zero, or one word, for each element of the inputs of a model."""
    batch = ["1"] if config.get("max_batch_size") else []
    inputs = []
    for each in config.get("input", ()):
        shape = [max(int(length), 1) for length in (*batch, *each["dims"])]
        kind = each["data_type"].removeprefix("TYPE_").replace("STRING", "BYTES")
        data = [_SAMPLES.get(kind, 0)] * math.prod(shape)
        inputs.append({"name": each["name"], "datatype": kind, "shape": shape, "data": data})
    sequence = {"sequence_id": 1, "sequence_start": True, "sequence_end": True}
    parameters = {"parameters": sequence} if "sequence_batching" in config else {}
    return {"inputs": inputs, **parameters}


def _sentence(answer: str, log: str, model: str) -> str:
    """The cause of a failed load: Triton answers "failed to poll" where only its log has a cause."""
    if "failed to poll" in answer or ("failed to load" in answer and "no version" in answer):
        return _said(log, model) or answer
    return verdict.shortened(re.sub(r"\s*At:\s.*", "", answer, flags=re.DOTALL).strip(" ;"))


def _said(log: str, model: str) -> str:
    """The last sentence about `model` in the log, with the place if its configuration is unreadable."""
    lines = [match["message"] for line in log.splitlines() if (match := _LOG_LINE.match(line))]
    about = [line for line in lines if model in line] or lines or [verdict.sentence_of(log)]
    said = about[-1].strip('"')
    places = _UNREADABLE.findall(log) if "failed to read text proto" in said else []
    return verdict.shortened(" ".join((said, *places[-1:])))


def _finding(subject: Subject, step: str, said: str, model: str = "") -> Finding:
    sentence = re.sub(r"/\S*inferplan-trial-[^/\s]+/repository", str(subject.weights), said)
    base: verdict.Path = ("models", subject.name, "repository")
    return Finding(
        step, "rejected", sentence, (*base, model) if model in subject.spec.models else base
    )


def _arguments(subject: Subject, repository: Path, port: int, key: str) -> list[str]:
    planned = [
        each.replace("$(SERVER_KEY)", key)
        for each in subject.container["args"]
        if each.partition("=")[0] not in _OWN_OPTIONS
    ]
    return [
        f"--model-repository={repository}",
        "--model-control-mode=explicit",
        *planned,
        "--exit-timeout-secs=2",
        f"--http-port={port}",
        f"--grpc-port={free_port()}",
        f"--metrics-port={free_port()}",
        *(f"--{kind}-address=127.0.0.1" for kind in ("http", "grpc", "metrics")),
        "--backend-config=python,stub-timeout-seconds=300",
    ]


def _lay_out(subject: Subject, repository: Path) -> dict[str, str]:
    """Fill `repository` with the models of the plan, on processors instead of accelerators. Return
    the models, those of steps before those that use them, each with why it is not judged here.
    """
    spec: TritonSpec = subject.spec
    repository.mkdir()
    if spec.existing is not None:
        _copy(subject.weights, repository)
        names = [*spec.existing.models]
        absent = [name for name in names if not (repository / name).is_dir()]
        if absent:
            raise RequestError(
                f"--weights: {subject.weights} has no directory {', '.join(absent)}. Name the"
                " directory of the model repository"
            )
        return dict.fromkeys(names, "")
    files = subject.objects.get("kubernetes:core/v1:ConfigMap", {}).get("data", {})
    for key, text in files.items():
        # A key of a ConfigMap has two dots for each slash of the path.
        path = key.replace("..", "/")
        file = repository / PurePosixPath(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_on_processors(text, path, subject), encoding="utf-8")
    for name, model in spec.models.items():
        if isinstance(model, FileModel | CustomModel) and model.file is not None:
            source = subject.weights / PurePosixPath(model.file).parent
            (repository / name / str(model.version)).symlink_to(source)
    reasons = {
        name: f"kind {model.kind} needs torch and an accelerator"
        if isinstance(model, TextGenerationModel | VllmModel)
        else ""
        for name, model in spec.models.items()
    }
    return dict(sorted(reasons.items(), key=lambda item: spec.models[item[0]].kind == "ensemble"))


def _copy(source: Path, repository: Path) -> None:
    """Links to the files below `source`, and its configurations on processors."""
    for path in source.rglob("*"):
        place = repository / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif path.name == "config.pbtxt":
            place.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text(encoding="utf-8", errors="replace")
            place.write_text(_on_processors(text, path.name, None), encoding="utf-8")
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path.absolute())


def _on_processors(text: str, path: str, subject: Subject | None) -> str:
    if not path.endswith("config.pbtxt"):
        return text
    if subject is not None:
        text = text.replace(f"/models/{subject.name}", str(subject.weights))
    return _ACCELERATORS.sub("", _ON_ACCELERATORS.sub("kind: KIND_CPU", text))


def _server(place: Computer | Container, folder: Path) -> _Server:
    """The server of an image, or that of an installed program: a tritonserver, or a program of an
    environment with nvidia-pytriton, whose python backend needs the stub of the environment's Python.
    """
    if place.in_image:
        return _Server("tritonserver", {}, [])
    kept = place.variables(("PATH", "LANG", "TMPDIR"))
    path = Path(place.program).absolute()
    home = next(
        (path.parents[1] / "lib").glob("python3*/site-packages/pytriton/tritonserver"), None
    )
    if home is None:
        if path.name != "tritonserver":
            raise RequestError(
                f"{path} is neither tritonserver nor a program of an environment that has"
                " nvidia-pytriton. Set INFERPLAN_CPU_SERVER to the path of one of them"
            )
        libraries = os.environ.get("LD_LIBRARY_PATH", "")
        return _Server(str(path), {**kept, "LD_LIBRARY_PATH": libraries}, [])
    python, packages = path.with_name("python"), home.parents[1]
    ask_library = "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"
    done = subprocess.run(
        [str(python), "-c", ask_library], capture_output=True, text=True, check=True
    )
    shutil.copytree(home / "backends", folder / "backends")
    stub = home / "python_backend_stubs" / packages.parent.name.removeprefix("python")
    shutil.copy2(stub / "triton_python_backend_stub", folder / "backends" / "python")
    libraries = os.pathsep.join((done.stdout.strip(), str(packages / "nvidia_pytriton.libs")))
    return _Server(
        str(home / "bin" / "tritonserver"),
        {
            **kept,
            "PATH": os.pathsep.join((str(python.parent), kept.get("PATH", ""))),
            "LD_LIBRARY_PATH": libraries,
        },
        [f"--backend-directory={folder / 'backends'}", f"--cache-directory={home / 'caches'}"],
    )
