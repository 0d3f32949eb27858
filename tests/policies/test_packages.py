"""Commands of package managers, written from their own manuals."""

from __future__ import annotations

import copy
import time

import pytest

from inferplan.policies.subjects.packages import installs, runs
from tests.policies.unseen.unseen import load, violations

INSTALL = [
    "pip3 --no-cache-dir install -r /code/requirements.txt",
    "python -m pip install vllm",
    "pip \\\n  install x",
    "uv pip install --system fastapi",
    "uv sync --frozen",
    "/usr/bin/apt-get -o Dpkg::Use-Pty=0 install -y nvtop",
    "apk --no-cache add jq && exec /app/serve",
    "npm --prefix /tmp i a",
    "npm ci",
    "yarn global add pm2",
    "micromamba install -y -n base faiss-gpu",
    "conda env update -f env.yml",
    "microdnf install -y libgomp",
    "poetry install --no-root",
    "pdm install --prod",
    "gem install puma",
    "GOBIN=/tmp/bin go install github.com/acme/warm@v1.2.0",
    "cargo install --locked text-splitter",
    "cd /tmp/rank && python setup.py develop --user",
    "pacman -Sy git",
    "rpm -Uvh https://acme.example/a.rpm",
    "playwright install chromium",
]
RUN = [
    "npx -y a",
    "npx --yes @acme/agent@latest &",
    "uvx mcp-server-git",
    "pipx run black",
    "uv tool run a",
    "uv run --with httpx a.py",
    "deno run -A https://acme.example/mod.ts",
    "bun x a",
    "go run github.com/acme/a@latest",
]
CALM = [
    "pip list --format=freeze",
    "pip check",
    "pip install --no-index --find-links /wheels x",
    "npm start --offline",
    "npx next start",
    "npm run install-hooks",
    "uv run --offline --no-sync /app/serve.py",
    "conda run -n serve python /app/serve.py",
    "cargo run --bin install",
    "go build ./...",
    "deno run --cached-only /app/mod.ts",
    "exec serve  # pip install happens in the image",
    "echo 'to add a package, run pip install in the Dockerfile'; exec /app/serve",
    "my-pip install",
]


@pytest.mark.parametrize("text", INSTALL)
def test_a_command_that_installs_is_found(text):
    assert installs(text)
    assert not runs(text)


@pytest.mark.parametrize("text", RUN)
def test_a_command_that_runs_a_package_is_found(text):
    assert runs(text)
    assert not installs(text)


@pytest.mark.parametrize("text", CALM)
def test_other_commands_are_calm(text):
    assert not installs(text)
    assert not runs(text)


def test_an_offline_command_hides_no_other():
    assert installs("pip install --no-index a\npip install b")


@pytest.mark.parametrize("text", ["npm -a b ", "uv run a ", "pip ", "echo a ", "-"])
def test_long_texts_take_time_in_proportion(text):
    def cpu(times: int) -> float:
        start = time.process_time()
        installs(text * times)
        runs(text * times)
        return time.process_time() - start

    assert cpu(16_000) < 16 * max(cpu(2_000), 0.01)


@pytest.mark.parametrize(
    ("place", "value", "rule"),
    [
        ("lifecycle", ["pip", "install", "nvitop"], "model-disallow-trust-remote-code"),
        ("lifecycle", ["npx", "-y", "@acme/agent"], "pod-disallow-piped-programs"),
        ("command", ["uv", "tool", "run", "mcp-server-git"], "pod-disallow-piped-programs"),
        ("command", ["apk", "add", "jq"], "model-disallow-trust-remote-code"),
    ],
)
def test_a_list_of_words_is_one_command(place, value, rule):
    base = copy.deepcopy(load("plain-4")["base"])
    container = base["chat"]["props"]["spec"]["template"]["spec"]["containers"][0]
    if place == "lifecycle":
        container["lifecycle"]["postStart"] = {"exec": {"command": value}}
    else:
        container["command"], container["args"] = value, []
    assert rule in {name for name, *_ in violations(base)}
