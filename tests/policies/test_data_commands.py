"""Commands that delete data or make files writable by all, each with a harmless form."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from inferplan.policies.rules.engines import DOWNLOADERS, MOVING, OLLAMA
from inferplan.tables import table
from tests.policies.test_scripts import rules

DATA = "pod-restrict-data-commands"
WRONG = [
    "aws s3 sync /models s3://b/m --delete",
    "aws s3 sync --delete --region eu-central-1 ./m s3://b/m",
    "aws --profile a s3 sync /models $BUCKET --delete",
    "aws s3 sync s3://a/m s3://b/m --delete",
    "aws s3 rm s3://b/m --recursive",
    "aws --region eu-central-1 s3api delete-object --bucket b --key k",
    "aws ec2 terminate-instances --instance-ids i-1",
    "aws sqs purge-queue --queue-url q",
    "rclone purge r:weights",
    "rclone sync /models s3:models",
    "rclone sync --transfers 8 /models s3:models",
    "rclone sync --fast-list /models :s3:models",
    "kubectl delete pvc cache",
    "kubectl -n models delete -n other secrets a",
    "kubectl delete deploy,pvc a",
    "kubectl delete pods --all",
    "kubectl delete -f /a.yaml",
    "chmod a+w /models/f",
    "chmod 666 /models/f",
    "mkdir -m 777 /models/f",
    "install -d -m 777 /models/f",
    "import os; os.umask(0)",
    "import os; os.umask(0o000)",
    "import os; os.chmod(p, 0o777)",
    "import os; os.chmod(os.path.join(a, b), mode=0o666)",
    "import os; os.makedirs('/data/100', 0o777)",
    "python3 - <<E\nimport os; os.umask(0o000)\nE",
    "python3 - <<E\nimport os; os.chmod(os.path.join(a, b), 0o777)\nE",
]
RIGHT = [
    "aws s3 sync s3://b/m /models --delete",
    "aws s3 sync s3://b/m $MODELS --delete",
    "aws s3 sync --delete --region eu-central-1 s3://b/m /models",
    "aws sqs delete-message --queue-url q --receipt-handle r",
    "aws elbv2 deregister-targets --target-group-arn t",
    "aws s3 cp a b --profile delete ",
    "rclone sync s3:models /models",
    "rclone sync --transfers 8 s3:models /models",
    "rclone sync s3:models /models --transfers 8",
    "rclone copy /models s3:models",
    "kubectl delete pod x -n secrets ",
    "kubectl delete pods -l app=a --all-namespaces",
    "kubectl get pods -n delete secrets",
    "chmod +w /models/f",
    "chmod 640 /models/f",
    "pip install -m 123",
    "install -d -m 750 /models/f",
    "import os; os.umask(0o022)",
    "import os; os.umask(0o077)",
    "import os; os.chmod(p, 0o700)",
    "import os; os.chmod(k, 0o600)",
    "import os; os.makedirs('/data/100', exist_ok=True)",
    "python3 - <<E\nimport os; os.umask(0o022); os.chmod(k, 0o600)\nE",
    "python3 - <<E\nimport os; os.makedirs('/data/100', exist_ok=True)\nE",
]


@pytest.mark.parametrize("command", WRONG)
def test_a_command_that_deletes_or_opens_stored_data_is_found(command):
    assert DATA in rules(None, ["bash", "-c", command])


@pytest.mark.parametrize("command", RIGHT)
def test_a_command_that_keeps_stored_data_is_calm(command):
    assert DATA not in rules(None, ["bash", "-c", command])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


def _settings() -> set[str]:
    """Patterns of a whole variable or option."""
    serving = table("policies/subjects/serving.toml")
    rows = [each for each in serving.values() if isinstance(each, dict)]
    unsafe = {row[key] for row in rows for key in ("unsafe", "logs") if key in row}
    return {serving["logins"], *serving["features"].values(), *unsafe}


def _searched() -> set[str]:
    """Patterns of a part of a text."""
    texts = {
        each
        for name in ("data_commands", "secret_texts")
        for key, value in table(f"policies/rules/{name}.toml").items()
        for each in _texts(value if key != "needs" else ())
    }
    for name in ("aws_settings", "object_settings"):
        for row in table(f"policies/rules/{name}.toml")["row"]:
            texts |= {value for key, value in row.items() if key.endswith("Match")}
    return texts | {each.pattern for each in (DOWNLOADERS, MOVING, OLLAMA)}


@pytest.mark.parametrize(
    "text",
    ["_" * 5000, "a" * 5000, "--no-" + "_" * 5000, "echo $A " * 2000, "set -x\n" * 2000],
    ids=lambda each: each[:8].strip(),
)
def test_no_pattern_takes_long_on_a_long_text(text):
    """Processor time, of which each pattern needs a few milliseconds."""
    slow = {}
    matchers = {each: re.compile(each).search for each in _searched()}
    matchers |= {each: re.compile(each).fullmatch for each in _settings()}
    for pattern, matches in matchers.items():
        began = time.process_time()
        matches(text)
        if (took := time.process_time() - began) > 0.1:
            slow[pattern[:60]] = took
    assert slow == {}
