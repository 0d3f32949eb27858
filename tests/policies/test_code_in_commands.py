"""Code that a command fetches and runs, or that its own text loads, written from the user's side."""

from __future__ import annotations

import copy

import pytest

from inferplan.policies.rules.connections import is_piped
from tests.policies.unseen.unseen import load, violations

FETCHED = [
    "git clone https://github.com/acme/serve /tmp/s && exec python3 /tmp/s/main.py",
    "git clone --depth 1 -b main https://github.com/acme/serve /opt/s; cd /; sh /opt/s/run.sh",
    "aws s3 cp s3://acme-tools/boot.sh /tmp/b && sh /tmp/b",
    "gsutil cp gs://tools/boot.py /tmp/boot.py && python3 -u /tmp/boot.py",
    "curl -fsSL https://acme.example/x.sh -o /tmp/x.sh && bash /tmp/x.sh",
    "wget -qO /tmp/x https://acme.example/x; . /tmp/x",
    "curl -fsSL https://acme.example/app.tgz | tar xz -C /tmp && exec /tmp/app/run",
    "cd /tmp && wget -q https://acme.example/x.tgz && tar xf x.tgz && ./x/run",
    "cd /t; git clone https://github.com/acme/b; ./b/run.sh",
    "curl --output /tmp/a.py https://acme.example/a.py\npython3 /tmp/a.py",
]
KEPT = [
    "aws s3 cp s3://acme-models/llama /models/llama && vllm serve /models/llama",
    "git clone https://github.com/acme/prompts /data/prompts && vllm serve /models/a --port 8000",
    "until curl -sf http://127.0.0.1:8000/health; do sleep 1; done; python3 /app/warm.py",
    "curl -L https://acme.example/m.tar | tar x -C /models && vllm serve /models/a",
    "curl -fsS http://127.0.0.1:8000/health && ./serve",
    "curl -s -o /dev/null http://127.0.0.1:8000/health && ./serve",
    "wget -qO- http://127.0.0.1:8000/health && ./serve",
    "curl -fsSL https://acme.example/x -o /tmp/x && sha256sum -c /sums && sh /tmp/x",
    "wget -qO /tmp/health http://127.0.0.1:8000/health && cat /tmp/health",
    "curl -o /models/tokenizer.json https://huggingface.co/a; python3 /app/serve.py",
]


@pytest.mark.parametrize("text", FETCHED)
def test_a_command_that_runs_what_it_fetched_is_found(text):
    assert is_piped(text)


@pytest.mark.parametrize("text", KEPT)
def test_a_command_that_only_keeps_what_it_fetched_is_calm(text):
    assert not is_piped(text)


def rules_of(*arguments: str) -> set[str]:
    """The rules that a container with these arguments violates, beyond those of its platform."""
    base = copy.deepcopy(load("plain-4")["base"])
    container = base["chat"]["props"]["spec"]["template"]["spec"]["containers"][0]
    container["args"] += arguments
    return {rule for rule, *_ in violations(base)}


@pytest.mark.parametrize(
    ("argument", "rule"),
    [
        ("--IdentityProvider.token=", "model-disallow-development-switches"),
        ("--NotebookApp.token=''", "model-disallow-development-switches"),
        ("--ServerApp.password=", "model-disallow-development-switches"),
        (
            "AutoModel.from_pretrained('acme/x', trust_remote_code=True)",
            "model-disallow-trust-remote-code",
        ),
        ("import joblib; joblib.load('/models/m')", "model-disallow-pickle"),
        ("torch.load('/models/m', weights_only=False)", "model-disallow-pickle"),
    ],
)
def test_code_in_an_argument_is_judged(argument, rule):
    assert rule in rules_of(argument)


@pytest.mark.parametrize(
    "argument",
    [
        "--ServerApp.token=$(TOKEN)",
        "AutoModel.from_pretrained('/models/x', trust_remote_code=False)",
        "json.load(open('/etc/a'))",
        "torch.load('/models/m', weights_only=True)",
    ],
)
def test_harmless_code_in_an_argument_is_calm(argument):
    assert rules_of(argument) == set()
