"""The cluster that an EKS stack made is found without a context of the user's kubeconfig."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from inferplan.commands.down import down
from inferplan.components.platforms.aws.access import _kubeconfig
from inferplan.errors import OperationError
from inferplan.updating import pulumi_cli
from inferplan.updating.update import UpdateOptions, created_cluster

CONFIG = json.dumps(
    _kubeconfig(name="prod", region="us-east-1", endpoint="https://acme.test", authority="Q0E=")
)


def state(*resources):
    return json.dumps({"version": 3, "deployment": {"resources": list(resources)}})


def provider(kubeconfig):
    return {"urn": "u", "type": "pulumi:providers:kubernetes", "inputs": {"kubeconfig": kubeconfig}}


def test_kubectl_is_asked_with_the_kubeconfig_of_the_state(monkeypatch, tmp_path):
    monkeypatch.setattr(
        pulumi_cli,
        "answer",
        lambda *_: state({"urn": "s", "type": "pulumi:pulumi:Stack"}, provider(CONFIG)),
    )
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\n[ "$1 $3 $4" = "--kubeconfig --context prod" ] && cat "$2"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    kubectl = created_cluster("prod")
    assert kubectl is not None
    assert kubectl.get("/version") == json.loads(CONFIG)


@pytest.mark.parametrize(
    "resources",
    [(), (provider({"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}),)],
)
def test_before_the_first_update_there_is_no_cluster_to_query(monkeypatch, resources):
    monkeypatch.setattr(pulumi_cli, "answer", lambda *_: state(*resources))
    assert created_cluster("prod") is None


def test_a_cluster_that_does_not_answer_is_not_asked(monkeypatch, tmp_path):
    monkeypatch.setattr(pulumi_cli, "answer", lambda *_: state(provider(CONFIG)))
    (tmp_path / "kubectl").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert created_cluster("prod") is None


def test_without_the_pulumi_cli_there_is_no_cluster_to_query(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert created_cluster("prod") is None
    with pytest.raises(OperationError, match=r"pulumi is not on PATH .*Install it"):
        pulumi_cli.answer(["whoami"], {})


def test_a_stack_that_does_not_exist_yet_has_no_cluster(monkeypatch):
    def answer(*_):
        raise OperationError("no stack named 'prod' found")

    monkeypatch.setattr(pulumi_cli, "answer", answer)
    assert created_cluster("prod") is None


def test_down_names_what_blocks_it_on_the_cluster_of_the_state(monkeypatch, tmp_path):
    """Without --context, as `up` and `recover` do."""
    stack = tmp_path / "Pulumi.acme.yaml"
    stack.write_text(
        "config:\n  inferplan:cluster: {provider: eks}\n  inferplan:namespace: models\n"
    )
    (tmp_path / "kubectl").write_text(
        '#!/bin/sh\n[ "$1 $3 $4" = "--kubeconfig --context prod" ] && cat "$2"\n'
    )
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PULUMI_BACKEND_URL", tmp_path.as_uri())
    monkeypatch.setattr(pulumi_cli, "answer", lambda *_: state(provider(CONFIG)))
    monkeypatch.setattr(pulumi_cli, "run", lambda *_, **__: None)
    watched = []

    @contextmanager
    def naming_blockers(live, namespace, _say):
        watched.append((live.get("/version"), namespace))
        yield

    monkeypatch.setattr(down, "naming_blockers", naming_blockers)
    down.destroy(down.existing_stack(str(stack)), UpdateOptions(yes=True), say=lambda _text: None)
    assert watched == [(json.loads(CONFIG), "models")]
