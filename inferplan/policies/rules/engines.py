"""Options of inference engines."""

import re
from collections.abc import Iterator
from itertools import pairwise
from posixpath import normpath

from inferplan.kube.names import SYSTEM_FOLDERS
from inferplan.policies.engine.fields import Field
from inferplan.policies.engine.rule import (
    Parameters,
    Violations,
    is_set,
    resource_rule,
    violation,
    violations,
)
from inferplan.policies.subjects.mounted import mounts_map
from inferplan.policies.subjects.packages import installs
from inferplan.policies.subjects.pods import CONTAINERS, PODS, Container, PodTemplate
from inferplan.policies.subjects.programs import Word
from inferplan.policies.subjects.python_code import plain_code
from inferplan.policies.subjects.serving import (
    engine_containers,
    engine_of,
    is_open_shell,
    model_of,
    problems_of,
    revision_of,
    row_of,
    started_engine,
)

OFF = ("0", "false", "no", "off")
# vLLM's security guide (2026): development and profiling endpoints need no key; adapters load from
# any path or hub.
DEVELOPMENT_VARIABLES = (
    "VLLM_SERVER_DEV_MODE|VLLM_ALLOW_RUNTIME_LORA_UPDATING|VLLM_TORCH_PROFILER_DIR|GRADIO_SHARE"
)
# vLLM reads files of the pod that a prompt names; SGLang runs code from a request. Chat templates
# and tensors of a client are code (CVE-2025-61620, CVE-2025-62164). Triton's endpoints for Vertex
# AI and SageMaker do not check the key of its restricted APIs.
DEVELOPMENT_OPTIONS = re.compile(
    "--(allow-sagemaker|allow-vertex-ai|allowed-local-media-path|enable-custom-logit-processor|enable-prompt-embeds|profiler-config"
    "|share|tool-server|trust-request-chat-template|public-api|remotetunnel|ngrok(-\\w+)*"
    "|cloudflared?(-\\w+)*|(use-)?(local)?tunnel)"
)
MEDIA = "--allowed-local-media-path"
# Of the image and of mounts.
OTHER_FOLDERS = frozenset(["mnt", "opt", "srv", "var"])
# Folders that the pod can write although no volume is mounted there.
WRITABLE = tuple(f"/{each}/" for each in ("tmp", "var/tmp", "dev/shm", "run", "proc"))
SEARCH_PATHS = ("PYTHONPATH", "LD_LIBRARY_PATH")
# Code passed as an argument, for example to python3 -c.
TRUSTING_CODE = re.compile(
    r"\btrust_(remote_code|repo)['\"]?\s*[=:]\s*True\b|\bhub\.load\((?!.*source\s*=\s*['\"]local)"
)
OPEN_ACCOUNTS = "lets every visitor make an account"
# A debugger runs what its client sends.
DEBUGGERS = frozenset(["debugpy", "ptvsd", "pydevd", "gdbserver"])
ORIGINS, CREDENTIALS = "--allowed-origins", "--allow-credentials"
# Two options of vLLM, one of SGLang and one of LiteLLM. The variable of vLLM logs whole answers.
LOG_OPTIONS = (
    "--enable-log-requests",
    "--enable-log-outputs",
    "--log-requests",
    "--detailed-debug",
)
LOG_VARIABLE = "VLLM_DEBUG_LOG_API_SERVER_RESPONSE|OLLAMA_DEBUG"
TRUST_VARIABLE = r"(?i)(\w+_)?TRUST_REMOTE_CODE"
# argparse accepts a unique prefix of an option (vLLM 0.32 also has --trust-request-chat-template).
SHORTEST_TRUST_OPTION, TRUST_OPTION = "--trust-rem", "--trust-remote-code"
ON = ("", "1", "true", "yes", "on")
# Options of vLLM that import a class, a module or a file, or read options from a file (vLLM 0.22,
# `vllm serve --help`, read 2026-11-22).
IMPORTS = re.compile(
    "--(config|io-processor-plugin|logits-processor-pattern|logits-processors|middleware|reasoning-parser-plugin|scheduler-cls"
    "|tool-parser-plugin|worker-cls|worker-extension-cls)"
)
# Options of Triton that load libraries from a directory. Anyone who can write models could put
# libraries there.
LIBRARY_FOLDERS = ("--backend-directory", "--repoagent-directory")
CONNECTOR_MODULE = re.compile(r"kv_connector_module_path")
LOAD_VARIABLES = (
    "LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|PYTHONPATH|PYTHONSTARTUP|PYTHONHOME|VLLM_PLUGINS"
)
DOWNLOADERS = re.compile(r"(\A|[\s/])(hf|huggingface-cli|modelscope) download ")
# Ollama's tags move, and a function of the hub's library takes the newest commit by default.
OLLAMA = re.compile(r"(\A|[\s/;&|])ollama (pull|run) ")
MOVING = re.compile(
    r"\b(snapshot_download|hf_hub_download)\((?!(?:[^()]|\([^()]*\))*\brevision\s*=)"
)
COMMIT = re.compile(r"[0-9a-f]{40}\Z")
REPOSITORY_API = "model-repository"
PROTOCOLS = (
    ("--allow-http", "--http-restricted-api"),
    ("--allow-grpc", "--grpc-restricted-protocol"),
)
TRITON_OFF = ("false", "0")
# Triton reads a bucket over HTTP if its URL says so. Inside the cluster, network policies protect
# the connection.
WITHOUT_TLS = re.compile(r"s3://http://(?![\w.-]+\.svc(\.cluster\.local)?[:/])")


@resource_rule(CONTAINERS)
def model_disallow_development_switches(container: Container, _: Parameters) -> Violations:
    variables = container.variables(DEVELOPMENT_VARIABLES)
    yield from violations(
        variables,
        lambda entry: is_set(entry.at("valueFrom")) or _is_on(entry),
        "enables a development feature",
    )
    engine = started_engine(container)
    unsafe = row_of(engine).get("unsafe", "(?!)") if engine else "(?!)"
    # Visitors may create accounts if an administrator has to approve them. Open WebUI's are
    # such accounts by default.
    role = container.environment.get("DEFAULT_USER_ROLE")
    accepted = engine == "open-webui" if role is None else role.at("value").text() == "pending"
    for field, name, value in _settings(container):
        if re.fullmatch(unsafe, f"{name}={value}"):
            yield violation(field, "enables a development feature")
        yield from (
            violation(field, problem)
            for problem in problems_of(name, value)
            if not (problem == OPEN_ACCOUNTS and accepted)
        )
    if is_open_shell(container):
        yield violation(container.at("image"), "starts a shell for everyone who reaches it")
    for word in container.arguments:
        if word.text in DEBUGGERS:
            yield violation(word.field, "starts a debugger")
    for option, value, word in _options(container):
        # --profiler-config.profiler sets a field of an option that is a map.
        if (
            DEVELOPMENT_OPTIONS.fullmatch(option.partition(".")[0])
            and (value is None or value not in ("", *OFF))
            and not (option == MEDIA and _is_narrow(container.option(MEDIA) or ""))
        ):
            yield violation(word.field, "enables a development feature")
        if word.text.partition("=")[0] == CREDENTIALS and "*" in (container.option(ORIGINS) or "*"):
            yield violation(
                word.field, "lets every website send requests with the browser's credentials"
            )


def _settings(container: Container) -> Iterator[tuple[Field, str, str]]:
    """The literal variables and the options of a container: field, name and value."""
    for name, entry in container.environment.items():
        if entry.at("valueFrom").absent:
            yield entry, name, entry.at("value").text()
    yield from ((word.field, name, value) for word, name, value in container.options)


def _is_narrow(path: str) -> bool:
    """True for a folder inside a folder that is not one of the system."""
    match normpath(path).split("/"):
        case ["", first, _, *_]:
            return first not in SYSTEM_FOLDERS | OTHER_FOLDERS
    return False


def _options(container: Container) -> Iterator[tuple[str, str | None, Word]]:
    """Each word of the command line as an option with hyphens, its value after `=` in small letters
    or None, and the word.
    """
    for word in container.arguments:
        name, equals, value = word.text.partition("=")
        yield name.replace("_", "-"), value.lower() if equals else None, word


def _is_on(entry: Field) -> bool:
    return entry.at("value").text().lower() not in ("", *OFF)


@resource_rule(CONTAINERS)
def model_disallow_request_logging(container: Container, _: Parameters) -> Violations:
    for option, value, word in _options(container):
        if option in LOG_OPTIONS and value not in OFF:
            yield violation(word.field, "logs prompts")
    yield from violations(container.variables(LOG_VARIABLE), _is_on, "logs answers")
    engine = started_engine(container)
    logs = row_of(engine).get("logs", "(?!)") if engine else "(?!)"
    for field, name, value in _settings(container):
        if re.fullmatch(logs, f"{name}={value}"):
            yield violation(field, "logs prompts")


@resource_rule(CONTAINERS)
def model_disallow_trust_remote_code(container: Container, _: Parameters) -> Violations:
    for option, value, word in _options(container):
        if (
            option.startswith(SHORTEST_TRUST_OPTION)
            and TRUST_OPTION.startswith(option)
            and (value or "") in ON
        ):
            yield violation(word.field, "lets the model's files run as code")
    for word in container.arguments:
        if TRUSTING_CODE.search(plain_code(word.text)):
            yield violation(word.field, "lets the model's files run as code")
    variables = container.variables(TRUST_VARIABLE)
    yield from violations(
        variables,
        lambda entry: entry.at("value").text().lower() in ON,
        "lets the model's files run as code",
    )
    trusted = row_of(engine).get("distrust", ()) if (engine := started_engine(container)) else ()
    names = {word.partition("=")[0] for word in container.words} | container.environment.keys()
    if trusted and names.isdisjoint(trusted):
        yield violation(container.at("args"), "trusts the code of models by default")
    for field, text in container.commands:
        if installs(text):
            yield violation(field, "runs what it downloads")
    if engine_of(container) == "vllm" or any(map(_is_tritonserver, container.words)):
        yield from _other_code(container)


def _is_tritonserver(word: str) -> bool:
    return word.rpartition("/")[2] == "tritonserver"


def _other_code(container: Container) -> Violations:
    models = (container.option("--model-repository", "--model-store") or "").rstrip("/")
    for name, _value, word in _options(container):
        # Files of ConfigMaps are judged by pod-restrict-mounted-files.
        mounted = name == "--config" and mounts_map(container, container.option(name) or "")
        if engine_of(container) == "vllm" and IMPORTS.fullmatch(name) and not mounted:
            yield violation(
                word.field, "imports code, or reads options, from a place that no rule can read"
            )
        if CONNECTOR_MODULE.search(word.text):
            yield violation(word.field, "imports a connector from a module path")
        if (
            name in LIBRARY_FOLDERS
            and models
            and (container.option(name) or "").startswith(f"{models}/")
        ):
            yield violation(word.field, "loads libraries from the model repository")
    variables = container.variables(LOAD_VARIABLES)
    yield from violations(
        variables,
        lambda entry: (
            (entry.at("value").text() or is_set(entry.at("valueFrom")))
            and not _names_image(container, entry)
        ),
        "loads code before the server's own",
    )
    yield from (
        violation(source, "sets variables that no rule can read")
        for source in container.at("envFrom").each()
        if source.at("configMapRef").absent
    )


def _names_image(container: Container, entry: Field) -> bool:
    """True if a variable adds only folders of the image to a search path."""
    mounted = (
        f"{each.text().rstrip('/')}/" for each in container.select("volumeMounts", "*", "mountPath")
    )
    closed = (*mounted, *WRITABLE)
    folders = entry.at("value").text().split(":")
    return entry.at("name").text() in SEARCH_PATHS and all(
        each.startswith("/") and not f"{normpath(each)}/".startswith(closed) for each in folders
    )


def _moving_downloads(container: Container) -> Violations:
    problem = "downloads a model without a commit"
    if DOWNLOADERS.search(" ".join(container.words)) and not COMMIT.match(
        container.option("--revision") or ""
    ):
        yield violation(container.at("args"), problem)
    for field, text in container.commands:
        if MOVING.search(text):
            yield violation(field, problem)
        if OLLAMA.search(text):
            yield violation(
                field,
                "downloads a model by a tag that moves. Put the model file into the image, or write an exemption",
            )


@resource_rule(PODS)
def model_require_revision(pod: PodTemplate, _: Parameters) -> Violations:
    for store in pod.stores:
        address = store.text()
        if address.startswith("hf://") and not COMMIT.match(address.rpartition(":")[2]):
            yield violation(store, "downloads a model from a hub without a commit")
    for container in pod.containers:
        yield from _moving_downloads(container)
    for container in engine_containers(pod):
        model = model_of(container)
        if model and not model.startswith(("/", ".", "s3://", "gs://", "az://")):
            if not COMMIT.match(revision_of(container)):
                yield violation(
                    container.at("args"), "serves a model from a hub without a commit in --revision"
                )
            code = container.option("--code-revision")
            if code is not None and not COMMIT.match(code):
                yield violation(
                    container.at("args"),
                    "downloads code with a --code-revision that is not a commit",
                )


@resource_rule(CONTAINERS)
def model_restrict_triton_repository(container: Container, _: Parameters) -> Violations:
    for server in _servers(container):
        yield from (
            violation(word.field, "downloads models over a connection without TLS")
            for word, _, value in server
            if WITHOUT_TLS.match(value)
        )
        modes = [
            (word, value) for word, option, value in server if option == "--model-control-mode"
        ]
        if not modes or modes[-1][1] == "none":
            continue
        word, mode = modes[-1]
        if mode == "poll":
            yield violation(word.field, "loads every model that appears in the repository")
        for protocol, restriction in PROTOCOLS if mode == "explicit" else ():
            allowed = [value.lower() for _, option, value in server if option == protocol]
            restricted = [
                value.partition(":")[0].split(",")
                for _, option, value in server
                if option == restriction
            ]
            if (not allowed or allowed[-1] not in TRITON_OFF) and not any(
                REPOSITORY_API in apis for apis in restricted
            ):
                yield violation(
                    word.field, f"allows loading models without a key, past {restriction}"
                )


def _servers(container: Container) -> Iterator[tuple[tuple[Word, str, str], ...]]:
    """The options of each tritonserver that a command line starts; mpirun starts several."""
    starts = [place for place, word in enumerate(container.words) if _is_tritonserver(word)]
    for start, end in pairwise((*starts, len(container.words))):
        yield container.options[start:end]
