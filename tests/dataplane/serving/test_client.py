"""What `inferplan call` prints, and what the code of `inferplan snippet` prints when it is run:
through a real gateway, against real servers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from inferplan.commands.main import run
from inferplan.components.gateway import keys
from inferplan.components.serving.triton.service import key_args
from inferplan.workspace.contract import contract_of
from inferplan.workspace.workspace import open_workspace
from tests.dataplane.gateway.backend import Backend
from tests.dataplane.gateway.stand import Proxy, consumer, spec
from tests.dataplane.serving.openai_double import OpenAiDouble
from tests.dataplane.serving.triton_models import GENERATOR, TEXT
from tests.dataplane.serving.triton_stand import generated, running, spec_of
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[3]
STACK = (ROOT / "docs" / "engines" / "Pulumi.triton.yaml").read_text()
GENERATION = {"kind": "textGeneration", "maxBatchSize": 8, "generator": GENERATOR}
WEIGHTS = (
    "{store: weights, path: llama, revision: 8afb486c1db24fe5011ec46dfbe5b5dccdb575c2, size: 16Gi}"
)
FP32, INT64 = ({"dataType": f"TYPE_{kind}", "dims": [2, -1]} for kind in ("FP32", "INT64"))
ADD = """
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x, n, label, on = (pb_utils.get_input_tensor_by_name(request, each).as_numpy() for each in ("x", "n", "label", "on"))
            total = pb_utils.Tensor("sum", (x + n + on.astype(np.float32)).astype(np.float32))
            answers.append(pb_utils.InferenceResponse([total, pb_utils.Tensor("said", np.char.upper(label.astype(bytes)).astype(np.object_))]))
        return answers
"""
VISION: dict[str, Any] = {
    "add": {
        "kind": "python", "maxBatchSize": 4, "code": ADD,
        "input": {"x": FP32, "n": INT64, "label": TEXT, "on": {"dataType": "TYPE_BOOL", "dims": [1]}, "more": {**INT64, "optional": True}},
        "output": {"sum": FP32, "said": TEXT},
    },
}  # fmt: skip
MODELS = f"""  inferplan:models:
    chatty: {{engine: vllm, weights: {WEIGHTS}, pool: l40s, consumers: [chat]}}
    writer: {{engine: triton, weights: {WEIGHTS}, preheat: {{into: shared}}, pool: l40s, accelerators: 2, consumers: [chat],
             repository: {{pieces: {json.dumps({**GENERATION, "streaming": True})}}}}}
    whole: {{engine: triton, weights: {WEIGHTS}, preheat: {{into: shared}}, pool: l40s, consumers: [chat, other],
            repository: {{whole: {json.dumps(GENERATION)}}}}}
    app: {{engine: ray-serve, image: "docker.io/acme/app:1", rayVersion: 2.56.0, weights: {WEIGHTS}, preheat: {{into: shared}}, pool: l40s,
          consumers: [chat], applications: {{rag: {{kind: custom, importPath: "app:build", routePrefix: /rag}}}}}}
    vision: {{engine: triton, weights: {WEIGHTS}, preheat: {{into: shared}}, pool: l40s, consumers: [chat],
             repository: {json.dumps(VISION)}}}
    locked: {{engine: vllm, weights: {WEIGHTS}, pool: l40s}}
"""
ENVIRONMENT = {"PULUMI_CONFIG_PASSPHRASE": "inferplan-example", "COLUMNS": "1000"}
PROMPT = 'it\'s a "test" $HOME'
BACKWARDS = '$HOME "test" a it\'s'
# One word less, so that a limit which goes astray is seen.
SHORTENED = '$HOME "test" a'


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Stand:
    """A stack file, the gateway in front of its models, and what tells the code where the gateway
    is.
    """

    stack: Path
    proxy: Proxy
    chat: OpenAiDouble
    app: Backend
    python: Path

    def run(self, *arguments: str, **variables: str) -> Done:
        """The command in this process: a process of its own would import everything again for each
        case.
        """
        out, err = StringIO(), StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(ROOT)
            for name, value in {**ENVIRONMENT, **variables}.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                run([*arguments, "--stack", str(self.stack)])
        return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())

    def where(self, protocol: str = "") -> list[str]:
        return [
            "--gateway",
            (
                f"127.0.0.1:{self.proxy.grpc_port}"
                if "grpc" in protocol
                else f"http://127.0.0.1:{self.proxy.port}"
            ),
        ]


@pytest.fixture(scope="module")
def stand(tritonserver, client_environment, tmp_path_factory):
    directory = tmp_path_factory.mktemp("client")
    start, end = STACK.index("  inferplan:models:"), STACK.index("  inferplan:gateway:")
    stack = directory / "Pulumi.client.yaml"
    stack.write_text(
        STACK[:start]
        + MODELS
        + STACK[end:].replace(
            "chat: {keys: [1]}",
            "chat: {keys: [2, 1]}\n    other: {keys: [1]}\n  inferplan:keyHistory: {chat:"
            " {issued: 2}}",
        )
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
        workspace = open_workspace(str(stack))
        seed = workspace.secrets.values["inferplan:apiKeySeed"]
        exported = contract_of(workspace.settings).endpoints
    repository = {"pieces": {**GENERATION, "streaming": True}, "whole": GENERATION, **VISION}
    served = spec_of(repository, accelerators=2)
    guard = key_args(keys.server_key(seed, "writer"))
    chat, app, proxy = OpenAiDouble(), Backend().start(), Proxy(directory, seed=seed)
    with running(
        tritonserver, served, generated(served, directory), directory / "repository", *guard
    ):
        ports = {"openai": chat.port, "ray-serve": app.port, "kserve-v2-grpc": served.ports.grpc}
        here = [
            replace(
                each,
                host="127.0.0.1",
                protocols=tuple(
                    replace(one, port=ports.get(one.kind, served.ports.http))
                    for one in each.protocols
                ),
            )
            for each in exported.values()
        ]
        try:
            proxy.run(spec(), here, {"chat": consumer(keys=[2, 1]), "other": consumer(keys=[1])})
            # One server stands for all Triton models here, so the gateway has to present one key
            # for all.
            text = (directory / "keys.conf").read_text()
            for model in ("whole", "vision"):
                text = text.replace(keys.server_key(seed, model), keys.server_key(seed, "writer"))
            (directory / "keys.conf").write_text(text)
            proxy.stop()
            proxy.start()
            yield Stand(stack, proxy, chat, app, client_environment.python)
        finally:
            proxy.stop()
            chat.stop()
            app.stop()


@pytest.mark.parametrize("model", ["chatty", "writer"])
def test_a_call_prints_the_answer_by_the_best_protocol_of_the_model(stand, model):
    done = stand.run("call", model, PROMPT, *stand.where())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.replace(" ", "") == BACKWARDS.replace(" ", "") + "\n"


@pytest.mark.parametrize(
    ("model", "protocol"),
    [
        ("chatty", "openai"),
        ("writer", "kserve-v2-grpc"),
        ("whole", "kserve-v2-http"),
        ("whole", "triton-generate"),
    ],
)
def test_a_call_prints_the_answer_by_any_protocol_as_long_as_it_may_be(stand, model, protocol):
    done = stand.run(
        "call", model, PROMPT, "--protocol", protocol, "--max-tokens", "3", *stand.where(protocol)
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.replace(" ", "") == SHORTENED.replace(" ", "") + "\n"


def test_a_call_of_an_application_goes_to_its_route_or_the_path_that_is_named(stand):
    stand.app.seen.clear()
    for path in ([], ["--path", "/rag/words"]):
        assert stand.run("call", "app", "hi", *path, *stand.where()).returncode == 0
    assert [each.target for each in stand.app.seen] == ["/rag", "/rag/words"]


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (
            ["call", "chaty", "x"],
            {},
            "Did you mean 'chatty'? Models in client: app, chatty, locked, vision, whole, writer.",
        ),
        (
            ["call", "locked", "x"],
            {},
            "no consumer may call locked. Add one to models.locked.consumers",
        ),
        (["call", "writer", "x", "--consumer", "other"], {}, "other may not call writer; chat may"),
        (
            ["call", "chatty", "x", "--protocol", "kserve-v2-grpc"],
            {},
            "chatty (vllm) does not speak kserve-v2-grpc. It speaks openai",
        ),
        (["call", "chatty", "x", "--protocol", "soap"], {}, "--protocol: unknown protocol 'soap'"),
        (["call", "writer", "x", "--protocol", "kserve-v2-http"], {}, "streams its answer"),
        (
            ["call", "chatty", "x"],
            {"INFERPLAN_API_KEY": "ipk_nobody_1_x"},
            "chatty answers 401: the API key is missing or not valid",
        ),
        (["call", "chatty", "fail"], {}, "chatty the engine died"),
        (["call", "whole", "fail", "--protocol", "triton-generate"], {}, "the generator failed"),
        (
            ["snippet", "chatty", "--language", "cobol"],
            {},
            "no code in 'cobol' for openai. Languages: curl, python, javascript",
        ),
    ],
)
def test_what_cannot_be_is_said_with_what_to_do(stand, arguments, variables, said):
    done = stand.run(
        *arguments, *stand.where("grpc" if "kserve-v2-grpc" in arguments else ""), **variables
    )
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "ipk_" not in done.stderr


def test_a_grpc_call_with_a_key_that_is_refused_says_so(stand):
    done = stand.run(
        "call",
        "writer",
        "x",
        "--protocol",
        "kserve-v2-grpc",
        *stand.where("grpc"),
        INFERPLAN_API_KEY="ipk_nobody_1_x",
    )
    assert done.returncode == 1
    assert "writer answers 401: the API key is missing or not valid" in done.stderr


def test_on_a_simulated_cluster_and_without_a_listener_a_call_says_what_to_do_next(stand):
    done = stand.run("call", "chatty", "x")
    assert done.returncode == 1
    assert "the simulated cluster of client is absent. Start it with: inferplan up" in done.stderr
    done = stand.run("call", "chatty", "x", "--gateway", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert "no answer from http://127.0.0.1:1/v1/chat/completions" in done.stderr


SNIPPETS = [
    ("chatty", "openai"),
    ("writer", "triton-generate"),
    ("writer", "kserve-v2-grpc"),
    ("whole", "kserve-v2-http"),
    ("app", "ray-serve"),
]
HTTP = ("curl", "python", "javascript")
CASES = [
    (*each, language)
    for each in SNIPPETS
    for language in (("python",) if each[1] == "kserve-v2-grpc" else HTTP)
]
NODE = shutil.which("node")
COMMANDS = {"curl": ["bash"], "javascript": [NODE or "node"]}


def case(model: str, protocol: str, language: str) -> Any:
    marks = [
        pytest.mark.skipif(language == "javascript" and NODE is None, reason="no node on PATH")
    ]
    # One template makes the JavaScript of every protocol.
    marks += [pytest.mark.full] if language == "javascript" and protocol != "openai" else []
    return pytest.param(model, protocol, language, marks=marks)


def code_of(stand: Stand, directory: Path, *options: str) -> tuple[list[str], str]:
    """The command that runs the printed code, and the code."""
    made = stand.run("snippet", *options)
    assert (made.returncode, made.stderr) == (0, "")
    assert "ipk_" not in made.stdout
    code = directory / "code.mjs"
    code.write_text(made.stdout)
    return [
        *COMMANDS.get(options[options.index("--language") + 1], [str(stand.python)]),
        str(code),
    ], made.stdout


@pytest.mark.parametrize(("model", "protocol", "language"), [case(*each) for each in CASES])
def test_the_code_that_is_printed_works(stand, tmp_path, model, protocol, language):
    options = [
        "--protocol",
        protocol,
        "--language",
        language,
        "--prompt",
        PROMPT,
        "--max-tokens",
        "3",
    ]
    command, _ = code_of(stand, tmp_path, model, *options, *stand.where(protocol))
    environment = {"PATH": os.environ["PATH"], "INFERPLAN_API_KEY": stand.proxy.key("chat", 2)}
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert text_in(done.stdout, protocol, language) == SHORTENED.replace(" ", "")
    refused = subprocess.run(
        command,
        env={**environment, "INFERPLAN_API_KEY": "ipk_x"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert refused.returncode != 0
    if protocol == "kserve-v2-grpc":
        assert refused.stderr == "the API key is missing or not valid\n"


def text_in(printed: str, protocol: str, language: str) -> str:
    """The answer without its spaces: as Python prints it, and out of the JSON that curl prints."""
    if protocol == "ray-serve":
        # The double echoes the request's line; that it arrived at the application's route is the
        # answer.
        return SHORTENED.replace(" ", "") if json.loads(printed)["target"] == "/rag" else printed
    if language != "python":
        strings = {
            "openai": r'"content": "((?:[^"\\]|\\.)*)"',
            "triton-generate": r'"text_output":"((?:[^"\\]|\\.)*)"',
        }
        pattern = strings.get(protocol, r'"data":\["((?:[^"\\]|\\.)*)"')
        printed = "".join(json.loads(f'"{piece}"') for piece in re.findall(pattern, printed))
    return "".join(printed.split())


@pytest.mark.parametrize(
    "language", [pytest.param(each, marks=case("", "openai", each).marks) for each in HTTP]
)
def test_code_for_any_tensors_is_answered_by_the_real_server(stand, tmp_path, language):
    options = ["vision", "--language", language, "--prompt", PROMPT, *stand.where()]
    command, code = code_of(stand, tmp_path, *options)
    assert "more (INT64 [1, 2, 1])" in code
    environment = {"PATH": os.environ["PATH"], "INFERPLAN_API_KEY": stand.proxy.key("chat", 2)}
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # 0.5 of x, 1 of n and 1 for true, in both rows; the text comes back in capitals.
    assert len(re.findall(r"2\.5", done.stdout)) == 2
    assert "TEST" in done.stdout
    assert "$HOME" in done.stdout
    environment["INFERPLAN_API_KEY"] = "ipk_x"
    denied = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert denied.returncode != 0


def test_the_key_is_shown_where_that_is_asked_for_and_only_there(stand):
    key = stand.proxy.key("chat", 2)
    assert key in stand.run("snippet", "chatty", "--show-key").stdout
    assert key not in stand.run("snippet", "chatty").stdout
