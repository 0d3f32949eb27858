"""Clients of the OpenAI API with three values, base URL, key and model, through the real gateway to
a server that speaks the protocol.

The SDKs for Python and JavaScript, LangChain and LiteLLM are installed from their registries in
environments of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from inferplan.components.gateway.route_spec import RouteSpec
from tests.dataplane.gateway.stand import Proxy, consumer, endpoint, spec
from tests.dataplane.serving.conftest import _environment

CURL = """
curl --silent --fail-with-body "$OPENAI_BASE_URL/models" -H "Authorization: Bearer $OPENAI_API_KEY"; echo
curl --silent --no-buffer --fail-with-body "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" \\
     -H "Content-Type: application/json" -d '{"model": "chat-large", "messages": [{"role": "user", "content": "a b c"}], "stream": true}'
curl --silent --fail-with-body "$OPENAI_BASE_URL/audio/transcriptions" -H "Authorization: Bearer $OPENAI_API_KEY" \\
     -F model=chat-large -F file=@"$AUDIO"; echo
"""
PYTHON = """
import os
from openai import OpenAI, NotFoundError
client = OpenAI(max_retries=0)
print([each.id for each in client.models.list()])
print(client.models.retrieve("chat-large").id)
messages = [{"role": "user", "content": "a b c"}]
print(client.chat.completions.create(model="chat-large", messages=messages).choices[0].message.content)
print("".join(part.choices[0].delta.content or "" for part in client.chat.completions.create(model="chat-large", messages=messages, stream=True)))
print(client.embeddings.create(model="chat-large", input="a b").data[0].embedding)
print(client.audio.transcriptions.create(model="chat-large", file=open(os.environ["AUDIO"], "rb")).text)
try:
    client.chat.completions.create(model="other", messages=messages)
except NotFoundError as error:
    print(error.code)
"""
LANGCHAIN = """
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
chat = ChatOpenAI(model="chat-large", max_retries=0)
print(chat.invoke("a b c").content)
print("".join(each.content for each in chat.stream("a b c")))
print(OpenAIEmbeddings(model="chat-large", check_embedding_ctx_length=False).embed_query("a b"))
"""
LITELLM = """
import os, litellm
options = {"api_base": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"], "messages": [{"role": "user", "content": "a b c"}]}
print(litellm.completion(model="openai/chat-large", **options).choices[0].message.content)
print("".join(part.choices[0].delta.content or "" for part in litellm.completion(model="openai/chat-large", stream=True, **options)))
"""
JAVASCRIPT = """
import OpenAI, { toFile } from 'openai';
import { readFileSync } from 'node:fs';
const client = new OpenAI({ maxRetries: 0 });
const names = []; for await (const model of client.models.list()) names.push(model.id);
console.log(names.join(' '));
const messages = [{ role: 'user', content: 'a b c' }];
console.log((await client.chat.completions.create({ model: 'chat-large', messages })).choices[0].message.content);
let text = '';
for await (const part of await client.chat.completions.create({ model: 'chat-large', messages, stream: true })) text += part.choices[0].delta.content ?? '';
console.log(text);
const file = await toFile(readFileSync(process.env.AUDIO), 'a.wav');
console.log((await client.audio.transcriptions.create({ model: 'chat-large', file })).text);
await client.chat.completions.create({ model: 'other', messages }).catch((error) => console.log(error.code));
"""
AUDIO = b"RIFF\r\n--\x00\xff" * 20_000


class _Engine(BaseHTTPRequestHandler):
    """Answers chats with the prompt's words backwards, embeddings with their number, and audio with
    its size.
    """

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/audio/transcriptions":
            head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            parts = {
                part.get_param("name", header="content-disposition"): part
                for part in (
                    BytesParser(EmailMessage, policy=HTTP).parsebytes(head + body).iter_parts()
                )
            }
            audio, model = (
                parts["file"].get_payload(decode=True),
                parts["model"].get_content().strip(),
            )
            self._send(
                "application/json",
                json.dumps(
                    {"text": f"{model} {len(audio) if isinstance(audio, bytes) else audio}"}
                ),
            )
            return
        asked = json.loads(body)
        if self.path == "/v1/embeddings":
            text = asked["input"] if isinstance(asked["input"], str) else asked["input"][0]
            values = [float(len(text.split())), 0.5]
            document = {"object": "list", "model": asked["model"], "data": [{"object": "embedding", "index": 0, "embedding": values}], "usage": {"prompt_tokens": 1, "total_tokens": 1}}  # fmt: skip
            self._send("application/json", json.dumps(document))
            return
        words = asked["messages"][-1]["content"].split()[::-1]
        common = {"id": "c", "created": 0, "model": asked["model"]}
        if not asked.get("stream"):
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": " ".join(words)},
                "finish_reason": "stop",
            }
            usage = {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}
            self._send(
                "application/json",
                json.dumps(
                    {**common, "object": "chat.completion", "choices": [choice], "usage": usage}
                ),
            )
            return
        deltas: list[dict[str, Any]] = [
            {"role": "assistant", "content": word if number == 0 else f" {word}"}
            for number, word in enumerate(words)
        ]
        chunk = {**common, "object": "chat.completion.chunk"}
        events = [
            json.dumps({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            for delta in deltas
        ]
        events += [
            json.dumps({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
            "[DONE]",
        ]
        self._send("text/event-stream", "".join(f"data: {event}\n\n" for event in events))

    def _send(self, media_type: str, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class gives it
        """Says nothing: a test's output is its own."""


@pytest.fixture(scope="module")
def variables(tmp_path_factory):
    """The three values of a client, in the variables that OpenAI's SDKs read: the consumer may call
    the route alone.
    """
    directory = tmp_path_factory.mktemp("clients")
    (directory / "a.wav").write_bytes(AUDIO)
    engine = ThreadingHTTPServer(("127.0.0.1", 0), _Engine)
    threading.Thread(target=engine.serve_forever, daemon=True).start()
    route = RouteSpec.model_validate({"backends": {"llama": 1}, "consumers": ["chat"]})
    proxy = Proxy(directory, public_routes={"chat-large": route})
    try:
        proxy.run(
            spec(),
            [
                endpoint("llama", engine.server_address[1], ()),
                endpoint("other", engine.server_address[1], ()),
            ],
            {"chat": consumer(keys=[1])},
        )
        url = f"http://127.0.0.1:{proxy.port}/v1"
        yield {
            "OPENAI_BASE_URL": url,
            "OPENAI_API_BASE": url,
            "OPENAI_API_KEY": proxy.key("chat"),
            "AUDIO": str(directory / "a.wav"),
        }
    finally:
        proxy.stop()
        engine.shutdown()
        engine.server_close()


def _run(command: list[str], variables: dict[str, str], **options: Any) -> list[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={**kept, **variables, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


SAID = f"chat-large {len(AUDIO)}"


def test_curl_lists_streams_and_sends_a_form(variables):
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on PATH")
    listed, *events, audio = (line for line in _run(["sh", "-ec", CURL], variables) if line)
    assert [each["id"] for each in json.loads(listed)["data"]] == ["chat-large"]
    assert (
        "".join(
            json.loads(each[6:])["choices"][0]["delta"].get("content", "") for each in events[:-1]
        )
        == "c b a"
    )
    assert json.loads(audio) == {"text": SAID}


def test_the_sdk_for_python_works_with_three_values(variables, client_environment):
    lines = _run([str(client_environment.python), "-c", PYTHON], variables)
    assert lines == [
        "['chat-large']",
        "chat-large",
        "c b a",
        "c b a",
        "[2.0, 0.5]",
        SAID,
        "model_not_found",
    ]


@pytest.mark.full
def test_langchain_works_with_three_values(variables):
    assert _run([str(_environment("full/clients").python), "-c", LANGCHAIN], variables) == [
        "c b a",
        "c b a",
        "[2.0, 0.5]",
    ]


@pytest.mark.full
def test_litellm_works_with_three_values(variables):
    assert _run([str(_environment("full/clients").python), "-c", LITELLM], variables)[-2:] == [
        "c b a",
        "c b a",
    ]


@pytest.mark.full
def test_the_sdk_for_javascript_works_with_three_values(variables, tmp_path: Path):
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm on PATH")
    install = [
        npm,
        "install",
        "--no-save",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "openai@7.57.0",
    ]
    done = subprocess.run(
        install, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        pytest.skip(f"npm cannot install the SDK: {done.stderr.strip().splitlines()[-1:]}")
    (tmp_path / "client.mjs").write_text(JAVASCRIPT)
    assert _run(["node", "client.mjs"], variables, cwd=tmp_path) == [
        "chat-large",
        "c b a",
        "c b a",
        SAID,
        "model_not_found",
    ]
