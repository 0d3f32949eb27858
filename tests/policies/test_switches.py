"""Options, variables and commands that open a program, log prompts or print keys, each with a
harmless form.
"""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from tests.policies.test_scripts import rules

SWITCHES, LOGS = "model-disallow-development-switches", "model-disallow-request-logging"
REVISION = "model-require-revision"
PRINTS = "pod-disallow-literal-secrets"
KEY = {
    "name": "VLLM_API_KEY",
    "valueFrom": {"secretKeyRef": {"name": "chat-key", "key": "api-key"}},
}


def broken(line: str) -> set[str]:
    """The rules that a container breaks: words like A=b before the command are its variables."""
    words = shlex.split(line)
    command = next(each for each in words if "=" not in each)
    at = words.index(command)
    variables: list[dict[str, Any]] = [
        {"name": name, "value": value}
        for name, _, value in (each.partition("=") for each in words[:at])
    ]
    return rules(None, [command], args=words[at + 1 :], env=[*variables, KEY])


@pytest.mark.parametrize(
    ("rule", "wrong", "right"),
    [
        (SWITCHES, "ENABLE_SIGNUP=True chat serve", "ENABLE_SIGNUP=True open-webui serve"),
        (SWITCHES, "ENABLE_SIGNUP=True chat serve", "ENABLE_OAUTH_SIGNUP=true chat serve"),
        (
            SWITCHES,
            "LESSON_ALLOW_SIGNUP=true chat serve",
            "GF_AUTH_GENERIC_OAUTH_ALLOW_SIGN_UP=true grafana server",
        ),
        (
            SWITCHES,
            "ENABLE_SIGNUP=true DEFAULT_USER_ROLE=user open-webui serve",
            "ENABLE_SIGNUP=true DEFAULT_USER_ROLE=pending open-webui serve",
        ),
        (
            SWITCHES,
            "GF_USERS_ALLOW_SIGN_UP=true grafana server",
            "GF_USERS_ALLOW_SIGN_UP=false grafana",
        ),
        (
            SWITCHES,
            "GF_AUTH_ANONYMOUS_ENABLED=true grafana server",
            "GF_AUTH_DISABLE_GRAVATAR=true grafana",
        ),
        (
            SWITCHES,
            "POSTGRES_HOST_AUTH_METHOD=trust postgres",
            "POSTGRES_HOST_AUTH_METHOD=scram-sha-256 postgres",
        ),
        (SWITCHES, "ALLOW_EMPTY_PASSWORD=yes redis", "ALLOW_EMPTY_PASSWORD=no redis"),
        (
            SWITCHES,
            "elasticsearch -Expack.security.enabled=false",
            "elasticsearch -Expack.security.enabled=true",
        ),
        (SWITCHES, "redis-server --protected-mode no", "redis-server --protected-mode yes"),
        (SWITCHES, "argo server --auth-mode=server", "argo server --auth-mode=sso"),
        (SWITCHES, "oauth2-proxy --skip-auth-route=.*", "oauth2-proxy --skip-auth-route=^/health$"),
        (
            SWITCHES,
            "jupyter lab --ServerApp.allow_origin=*",
            "jupyter lab --ServerApp.allow_origin=https://a.acme.example",
        ),
        (
            SWITCHES,
            "jupyter lab --ServerApp.disable_check_xsrf=True",
            "jupyter lab --ServerApp.disable_check_xsrf=False",
        ),
        (
            SWITCHES,
            "app --server.enableXsrfProtection=false",
            "app --server.enableXsrfProtection=true",
        ),
        (
            SWITCHES,
            "mlflow server --disable-security-middleware",
            "mlflow server --allowed-hosts a.acme.example",
        ),
        (SWITCHES, "FLASK_DEBUG=1 flask run", "FLASK_DEBUG=0 flask run"),
        (SWITCHES, "node --inspect=0.0.0.0:9229 a.js", "node --inspect=127.0.0.1:9229 a.js"),
        (SWITCHES, "uvicorn a:app --reload", "uvicorn a:app --workers 2"),
        (SWITCHES, "traefik --api.insecure=true", "traefik --api.insecure=false"),
        (SWITCHES, "prometheus --web.enable-admin-api", "prometheus --web.enable-lifecycle=false"),
        (SWITCHES, "llama-server -m /m/a.gguf --props", "llama-server -m /m/a.gguf --metrics"),
        (
            SWITCHES,
            "TS_ALLOWED_URLS=https://.* torchserve --start",
            "TS_ALLOWED_URLS=https://models.acme.example torchserve --start",
        ),
        (
            SWITCHES,
            "lmdeploy serve api_server /m --allow-terminate-by-client",
            "lmdeploy serve api_server /m --tp 2",
        ),
        (SWITCHES, "LOCALAI_P2P=true local-ai run", "LOCALAI_P2P=false local-ai run"),
        (
            SWITCHES,
            "BYPASS_MODEL_ACCESS_CONTROL=True open-webui serve",
            "DEFAULT_USER_ROLE=user open-webui serve",
        ),
        (SWITCHES, "/usr/sbin/sshd -D -p 2222", "ssh-keyscan git.acme.example"),
        (REVISION, "ollama pull llama3.3", "ollama list"),
        (
            REVISION,
            "python3 -c \"snapshot_download('BAAI/bge-m3')\"",
            "python3 -c \"snapshot_download('BAAI/bge-m3', revision='0c5f2b1d')\"",
        ),
        (
            REVISION,
            "python3 -c \"snapshot_download(os.getenv('REPO')); f(revision='0c5f2b1d')\"",
            "python3 -c \"snapshot_download(os.getenv('REPO'), revision='0c5f2b1d')\"",
        ),
        (
            LOGS,
            "tritonserver --trace-config=level=TENSORS",
            "tritonserver --trace-config=level=TIMESTAMPS",
        ),
        (LOGS, "llama-server -m /m/a.gguf -v", "llama-server -m /m/a.gguf -lv 1"),
        (LOGS, "LITELLM_LOG=DEBUG litellm --port 4000", "LITELLM_LOG=INFO litellm --port 4000"),
        (
            LOGS,
            "AUDIT_LOG_LEVEL=REQUEST_RESPONSE open-webui serve",
            "AUDIT_LOG_LEVEL=METADATA open-webui serve",
        ),
        (
            LOGS,
            "lmdeploy serve api_server /m --log-level INFO",
            "lmdeploy serve api_server /m --log-level WARNING",
        ),
        (LOGS, "LOCALAI_LOG_LEVEL=debug local-ai run", "LOCALAI_LOG_LEVEL=warn local-ai run"),
        (LOGS, "xinference-local --log-level debug", "xinference-local --log-level warning"),
        (LOGS, "ovms --log_level TRACE", "ovms --log_level ERROR"),
        (LOGS, "sglang serve --crash-dump-folder /dumps", "sglang serve --watchdog-timeout 300"),
    ],
)
def test_a_switch_is_told_from_its_harmless_form(rule, wrong, right):
    assert rule in broken(wrong)
    assert rule not in broken(right)


RUN = "exec vllm serve /models/m --api-key $VLLM_API_KEY"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (f"printenv | sort; {RUN}", f"env A=1 true; {RUN}"),
        (f"env; {RUN}", f"/usr/bin/env python3 /app/check.py; {RUN}"),
        (f"set -x\n{RUN}", f"set -eu\n{RUN}"),
        (f"set -o xtrace\n{RUN}", "set -x\nexec vllm serve /models/m"),
        (
            f"echo $VLLM_API_KEY; {RUN}",
            f"echo $VLLM_API_KEY | docker login --password-stdin; {RUN}",
        ),
        (f"echo key ${{HF_TOKEN}}; {RUN}", f"echo ready $HOSTNAME $TOKENIZER; {RUN}"),
        (f"set -euxo pipefail\n{RUN}", f"set -x\ncp a b\nset +x\n{RUN}"),
        (f"set -e -xu\n{RUN}", f"set -x; cp a b; {{ set +x; }} 2>/dev/null; {RUN}"),
        (f"set +x; set -x; {RUN}", f"unset -x; {RUN}"),
        (f"set -x; set -e; {RUN}", f"set -euo pipefail; {RUN}"),
        (f"(env); (env | sort); {RUN}", f"NAMES=$(env | cut -d= -f1); {RUN}"),
        (f"if true; then env; fi; {RUN}", f"serve --mode env; {RUN}"),
        (f"/usr/bin/env\n{RUN}", f"serve --provider=env; {RUN}"),
        (f"echo $VLLM_API_KEY; {RUN}", f"export A=$(echo -n $VLLM_API_KEY); {RUN}"),
        (f"(echo ${{HF_TOKEN}}); {RUN}", f'echo "${{HF_TOKEN:+set}}"; {RUN}'),
        (f'echo "${{HF_TOKEN:0:4}}"; {RUN}', f'echo "${{HF_TOKEN+set}}"; {RUN}'),
        (
            f"echo $VLLM_API_KEY \\\n  ready; {RUN}",
            f"echo $VLLM_API_KEY \\\n  > /keys/key; {RUN}",
        ),
        (f"cat /proc/self/environ; {RUN}", f"cat /proc/self/status; {RUN}"),
        (
            "python3 -c 'import os; print(os.environ)'",
            "python3 -c 'import os; print(os.environ[\"PORT\"])'",
        ),
    ],
)
def test_a_command_that_prints_keys_is_told_from_its_harmless_form(wrong, right):
    assert PRINTS in rules(None, ["bash", "-c", wrong], env=[KEY])
    assert PRINTS not in rules(None, ["bash", "-c", right], env=[KEY])


@pytest.mark.parametrize(
    ("command", "prints"),
    [
        (["litellm", "--mode", "env"], False),
        (["litellm", "--provider=env"], False),
        (["litellm", "set"], False),
        (["env"], True),
        (["sh", "-c", "env"], True),
        (["bash", "-e", "-c", "printenv"], True),
    ],
)
def test_a_word_is_told_from_a_command(command, prints):
    for at in (1, len(command)):
        found = rules(None, command[:at], args=command[at:], env=[KEY])
        assert (PRINTS in found) is prints


def test_the_environment_may_be_printed_if_it_has_no_key():
    command = ["bash", "-c", "printenv | sort; exec serve"]
    assert PRINTS not in rules(None, command, env=[{"name": "MODE", "value": "fast"}])
