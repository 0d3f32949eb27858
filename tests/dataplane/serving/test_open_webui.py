"""Open WebUI with a base URL, a key and the models that the gateway lists. It is too large to
install in a test: skipped without `open-webui` on PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.dataplane.gateway.stand import wait_for
from tests.dataplane.serving.test_clients import AUDIO, SAID, variables  # noqa: F401 - the fixture
from tests.ports import free_port

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture
def webui(variables, tmp_path: Path):  # noqa: F811 - the fixture
    """Requests to an Open WebUI that has the three values, for chats, embeddings and speech."""
    program = shutil.which("open-webui")
    if program is None:
        pytest.skip(
            "there is no open-webui on PATH; install it in an environment of its own (pip install"
            " open-webui, 7 GB)"
        )
    port, url, key = free_port(), variables["OPENAI_BASE_URL"], variables["OPENAI_API_KEY"]
    settings = {
        "OPENAI_API_BASE_URL": url, "OPENAI_API_KEY": key, "ENABLE_OLLAMA_API": "false", "WEBUI_AUTH": "false", "WEBUI_SECRET_KEY": "test",
        "RAG_EMBEDDING_ENGINE": "openai", "RAG_EMBEDDING_MODEL": "chat-large", "RAG_OPENAI_API_BASE_URL": url, "RAG_OPENAI_API_KEY": key,
        "AUDIO_STT_ENGINE": "openai", "AUDIO_STT_MODEL": "chat-large", "AUDIO_STT_OPENAI_API_BASE_URL": url, "AUDIO_STT_OPENAI_API_KEY": key,
        "DATA_DIR": str(tmp_path / "data"), "HF_HUB_OFFLINE": "1", "OFFLINE_MODE": "true", "PATH": os.environ["PATH"], "HOME": str(tmp_path),
    }  # fmt: skip
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(
        [program, "serve", "--host", "127.0.0.1", "--port", str(port)],
        env=settings,
        cwd=tmp_path,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    pool = urllib3.PoolManager(retries=False, timeout=60)
    base = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, (tmp_path / "log").read_text()[-3000:]
        try:
            return pool.request("GET", f"{base}/health").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    try:
        wait_for(answers, "Open WebUI answers", seconds=400)
        token = pool.request(
            "POST", f"{base}/api/v1/auths/signin", json={"email": "", "password": ""}
        ).json()["token"]

        def ask(method: str, path: str, **sent: Any) -> urllib3.BaseHTTPResponse:
            return pool.request(
                method, f"{base}{path}", headers={"Authorization": f"Bearer {token}"}, **sent
            )

        yield ask
    finally:
        process.terminate()
        process.wait(60)
        log.close()


def test_open_webui_lists_the_route_and_chats_embeds_and_transcribes(webui):
    assert [each["id"] for each in webui("GET", "/api/models").json()["data"]] == ["chat-large"]
    chat = {"model": "chat-large", "messages": [{"role": "user", "content": "a b c"}]}
    assert (
        webui("POST", "/api/chat/completions", json={**chat, "stream": False}).json()["choices"][0][
            "message"
        ]["content"]
        == "c b a"
    )
    lines = (
        webui("POST", "/api/chat/completions", json={**chat, "stream": True})
        .data.decode()
        .splitlines()
    )
    events = [json.loads(each[6:]) for each in lines if each.startswith("data: {")]
    assert (
        "".join(choice["delta"].get("content", "") for each in events for choice in each["choices"])
        == "c b a"
    )
    file = webui(
        "POST", "/api/v1/audio/transcriptions", fields={"file": ("a.wav", AUDIO, "audio/wav")}
    )
    assert file.json()["text"] == SAID, file.data
    assert webui("POST", "/api/embeddings", json={"model": "chat-large", "input": "a b"}).json()[
        "data"
    ][0]["embedding"] == [2.0, 0.5]
