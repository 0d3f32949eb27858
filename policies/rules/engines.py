"""Options of inference engines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.engine.rule import Parameters, Severity, Violations, resource_rule, violation
from policies.subjects.pods import CONTAINERS, PODS, Container, PodTemplate
from policies.subjects.programs import Word
from policies.subjects.serving import engine_containers, is_vllm, model_of

OFF = ("0", "false", "no", "off")
# vLLM's security guide (2026): development and profiling endpoints need no key; adapters load from any path or hub.
DEVELOPMENT_VARIABLES = ("VLLM_SERVER_DEV_MODE", "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "VLLM_TORCH_PROFILER_DIR")
# vLLM reads files of the pod that a prompt names; SGLang runs code from a request. Chat templates and tensors of a client are code
# (CVE-2025-61620, CVE-2025-62164). Triton's endpoints for Vertex AI and SageMaker do not check the key of its restricted APIs.
DEVELOPMENT_OPTIONS = re.compile(
    "--(allow-sagemaker|allow-vertex-ai|allowed-local-media-path|enable-custom-logit-processor|enable-prompt-embeds|profiler-config"
    "|trust-request-chat-template)"
)
ORIGINS, CREDENTIALS = "--allowed-origins", "--allow-credentials"


@resource_rule(CONTAINERS, Severity.CRITICAL, "inference", "vLLM: Security")
def model_disallow_development_switches(container: Container, _: Parameters) -> Violations:
    """Servers run without development features.

    Why: These switches let a client call any method of the workers, load weights from a hub or read files of the pod.
    Remedy: remove VLLM_SERVER_DEV_MODE, VLLM_ALLOW_RUNTIME_LORA_UPDATING, VLLM_TORCH_PROFILER_DIR and the named options; set
    --allowed-origins to your own origins.
    """
    for name, entry in container.environment().items():
        if name in DEVELOPMENT_VARIABLES and (not entry.at("valueFrom").absent or entry.at("value").text().lower() not in ("", *OFF)):
            yield violation(entry, "enables a development feature")
    for word in container.arguments:
        name, equals, value = word.text.partition("=")
        # --profiler-config.profiler sets a field of an option that is a map.
        if DEVELOPMENT_OPTIONS.fullmatch(name.replace("_", "-").partition(".")[0]) and not (equals and value.lower() in ("", *OFF)):
            yield violation(word.field, "enables a development feature")
        if name == CREDENTIALS and "*" in (container.option(ORIGINS) or "*"):
            yield violation(word.field, "lets every website send requests with the browser's credentials")


PICKLE_FORMATS = ("pt", "npcache", "pickle")
# KServe's server for sklearn loads only joblib and pickle files.
PICKLE_SERVERS = ("sklearn",)
PICKLE_FILE = re.compile(r"(\.(pkl|pickle|pt|pth|ckpt)|pytorch_model[\w.-]*\.bin)\Z", re.IGNORECASE)
# Variables that let torch or vLLM load pickle files.
PICKLE_VARIABLES = ("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "VLLM_ALLOW_INSECURE_SERIALIZATION")


@resource_rule(PODS, Severity.CRITICAL, "inference", "NSA-CISA: supply chain")
def model_disallow_pickle(pod: PodTemplate, _: Parameters) -> Violations:
    """Weights are not pickle files.

    Why: Loading a pickle file runs the code in it, with the pod's keys.
    Remedy: convert the weights to safetensors, and use --load-format safetensors, auto or runai_streamer.
    """
    for model in pod.models:
        kind = model if model.keys[-1] in PICKLE_SERVERS else model.at("modelFormat", "name")
        if kind is model or kind.text() in PICKLE_SERVERS:
            yield violation(kind, "is a format that loads pickle files")
    for container in engine_containers(pod):
        if container.option("--load-format") in PICKLE_FORMATS:
            yield violation(container.at("args"), "loads weights from pickle files")
        for word in container.arguments:
            if PICKLE_FILE.search(word.text):
                yield violation(word.field, "names a pickle file")
        for name, entry in container.environment().items():
            if name in PICKLE_VARIABLES and entry.at("value").text().lower() not in OFF:
                yield violation(entry, "loads pickle files")


# The first two are options of vLLM, the last one of SGLang. The variable of vLLM logs whole answers.
LOG_OPTIONS = ("--enable-log-requests", "--enable-log-outputs", "--log-requests")
LOG_VARIABLES = ("VLLM_DEBUG_LOG_API_SERVER_RESPONSE",)


@resource_rule(CONTAINERS, Severity.HIGH)
def model_disallow_request_logging(container: Container, _: Parameters) -> Violations:
    """Prompts and answers are not logged.

    Why: Logs are kept longer than requests and read by more people, and prompts contain names, contracts and keys.
    Remedy: remove --enable-log-requests, --enable-log-outputs (SGLang: --log-requests) and VLLM_DEBUG_LOG_API_SERVER_RESPONSE; use
    metrics to count requests.
    """
    for word in container.arguments:
        name, _equals, value = word.text.partition("=")
        if name.replace("_", "-") in LOG_OPTIONS and value.lower() not in OFF:
            yield violation(word.field, "logs prompts")
    for name, entry in container.environment().items():
        if name in LOG_VARIABLES and entry.at("value").text().lower() not in ("", *OFF):
            yield violation(entry, "logs answers")


TRUST_VARIABLE = re.compile(r"(?i)^(VLLM_|HF_|TRANSFORMERS_)?TRUST_REMOTE_CODE$")
# argparse accepts a unique prefix of an option (vLLM 0.32 also has --trust-request-chat-template).
SHORTEST, OPTION = "--trust-rem", "--trust-remote-code"
ON = ("", "1", "true", "yes", "on")
# Options of vLLM that import a class, a module or a file, or read options from a file (vLLM 0.22, `vllm serve --help`, read 2026-11-22).
IMPORTS = re.compile(
    "--(config|io-processor-plugin|logits-processor-pattern|logits-processors|middleware|reasoning-parser-plugin|scheduler-cls"
    "|tool-parser-plugin|worker-cls|worker-extension-cls)"
)
# Options of Triton that load libraries from a directory. Anyone who can write models could put libraries there.
FOLDERS = ("--backend-directory", "--repoagent-directory")
CONNECTOR_MODULE = re.compile(r"kv_connector_module_path")
LOAD_VARIABLES = re.compile(r"LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|PYTHONPATH|PYTHONSTARTUP|PYTHONHOME|VLLM_PLUGINS")
DOWNLOAD_COMMAND = re.compile(r"\b(pip3?|uv pip|conda|apt-get|apt) install\b|\b(curl|wget)\b[^|]*\|\s*(sudo )?(ba|z)?sh\b")


@resource_rule(CONTAINERS, Severity.CRITICAL, "inference", "NSA-CISA: supply chain")
def model_disallow_trust_remote_code(container: Container, _: Parameters) -> Violations:
    """Servers run only code from their image.

    Why: With trust_remote_code, files of the model are programs that run with the server's keys.
    Remedy: remove --trust-remote-code and options that import other code; put plugins into the image and list variables under env;
    or convert the model to a format without code, or use an image whose engine supports it.
    """
    for word in container.arguments:
        name, _equals, value = word.text.partition("=")
        option = name.replace("_", "-")
        if option.startswith(SHORTEST) and OPTION.startswith(option) and value.lower() in ON:
            yield violation(word.field, "lets the model's files run as code")
    for name, entry in container.environment().items():
        if TRUST_VARIABLE.match(name) and entry.at("value").text().lower() in ON:
            yield violation(entry, "lets the model's files run as code")
    for field in (*container.at("command").each(), *container.at("args").each()):
        if DOWNLOAD_COMMAND.search(field.text()):
            yield violation(field, "runs what it downloads")
    if is_vllm(container) or _is_triton(container):
        yield from _other_code(container)


def _is_triton(container: Container) -> bool:
    return any(word.rpartition("/")[2] == "tritonserver" for word in container.words)


def _other_code(container: Container) -> Violations:
    """Other sources of code than the model's repository."""
    models = (container.option("--model-repository", "--model-store") or "").rstrip("/")
    for word in container.arguments:
        name = word.text.partition("=")[0].replace("_", "-")
        if is_vllm(container) and IMPORTS.fullmatch(name):
            yield violation(word.field, "imports code, or reads options, from a place that no rule can read")
        if CONNECTOR_MODULE.search(word.text):
            yield violation(word.field, "imports a connector from a module path")
        if name in FOLDERS and models and (container.option(name) or "").startswith(f"{models}/"):
            yield violation(word.field, "loads libraries from the model repository")
    for name, entry in container.environment().items():
        if LOAD_VARIABLES.fullmatch(name) and (entry.at("value").text() or not entry.at("valueFrom").absent):
            yield violation(entry, "loads code before the server's own")
    for source in container.at("envFrom").each():
        yield violation(source, "sets variables that no rule can read")


COMMIT = re.compile(r"[0-9a-f]{40}\Z")


@resource_rule(PODS, Severity.HIGH, "inference", "CVE-2026-47155")
def model_require_revision(pod: PodTemplate, _: Parameters) -> Violations:
    """Models from a hub are pinned to a commit.

    Why: A branch can change, so the next restart could serve other weights and other code.
    Remedy: serve from a preheated path, or set --revision (and --tokenizer-revision) to a 40-digit commit; for KServe append it to
    the URI: hf://org/model:<commit>.
    """
    for store in pod.stores:
        address = store.text()
        if address.startswith("hf://") and not COMMIT.match(address.rpartition(":")[2]):
            yield violation(store, "downloads a model from a hub without a commit")
    for container in engine_containers(pod):
        model = model_of(container)
        if model and not model.startswith(("/", ".", "s3://", "gs://", "az://")):
            if not COMMIT.match(container.option("--revision", "--model-revision") or ""):
                yield violation(container.at("args"), "serves a model from a hub without a commit in --revision")
            code = container.option("--code-revision")
            if code is not None and not COMMIT.match(code):
                yield violation(container.at("args"), "downloads code with a --code-revision that is not a commit")


API = "model-repository"
PROTOCOLS = (("--allow-http", "--http-restricted-api"), ("--allow-grpc", "--grpc-restricted-protocol"))
TRITON_OFF = ("false", "0")
# Triton reads a bucket over HTTP if its URL says so. Inside the cluster, network policies protect the connection.
WITHOUT_TLS = re.compile(r"s3://http://(?![\w.-]+\.svc(\.cluster\.local)?[:/])")


@resource_rule(CONTAINERS, Severity.CRITICAL, "inference", "Triton: Secure Deployment Considerations")
def model_restrict_triton_repository(container: Container, _: Parameters) -> Violations:
    """Loading models into a running Triton requires a key.

    Why: A model of Triton's Python backend is a program. Anyone who can load one can run code with access to the weights and keys.
    Remedy: set --model-control-mode=none, or protect model-repository with --http-restricted-api and --grpc-restricted-protocol, or
    disable the protocol with --allow-http=false or --allow-grpc=false.
    """
    for server in _servers(container):
        yield from (
            violation(word.field, "downloads models over a connection without TLS")
            for word, value in _pairs(server)
            if WITHOUT_TLS.match(value)
        )
        mode = _last_value(server, "--model-control-mode")
        if mode is None or mode[1] == "none":
            continue
        if mode[1] == "poll":
            yield violation(mode[0].field, "loads every model that appears in the repository")
        for protocol, restriction in PROTOCOLS:
            allowed = _last_value(server, protocol)
            enabled = allowed is None or allowed[1].lower() not in TRITON_OFF
            if (
                mode[1] == "explicit"
                and enabled
                and not any(API in value.partition(":")[0].split(",") for value in _values(server, restriction))
            ):
                yield violation(mode[0].field, f"allows loading models without a key, past {restriction}")


def _servers(container: Container) -> Iterator[list[Word]]:
    """The words of each tritonserver that a command line starts; mpirun starts several."""
    words = list(container.arguments)
    starts = [place for place, word in enumerate(words) if word.text.rpartition("/")[2] == "tritonserver"]
    for place, start in enumerate(starts):
        yield words[start : starts[place + 1] if place + 1 < len(starts) else len(words)]


def _values(server: list[Word], option: str) -> list[str]:
    return [value for word, value in _pairs(server) if word.text.partition("=")[0] == option]


def _last_value(server: list[Word], option: str) -> tuple[Word, str] | None:
    """The last value of an option, with its word."""
    return next(((word, value) for word, value in reversed(_pairs(server)) if word.text.partition("=")[0] == option), None)


def _pairs(server: list[Word]) -> list[tuple[Word, str]]:
    next_words = [*(word.text for word in server[1:]), ""]
    return [
        (word, word.text.partition("=")[2] if "=" in word.text else following) for word, following in zip(server, next_words, strict=True)
    ]
