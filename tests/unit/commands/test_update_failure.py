"""A failed update under Pulumi's engine reads as one paragraph: what, why, what next. The engine's
own text stands below.
"""

from __future__ import annotations

import json
import shlex

import pytest

from inferplan.errors import OperationError
from inferplan.updating.pulumi_cli import answer, explain, failures_of, run

URN = "urn:pulumi:chat::inferplan::inferplan:gateway:Gateway$kubernetes:core/v1:ConfigMap::gateway-config"


def error(message: str, urn: str = URN) -> dict:
    return {
        "diagnosticEvent": {
            "urn": urn,
            "message": f"<{{%reset%}}>{message}<{{%reset%}}>\n",
            "severity": "error",
        }
    }


# The engine's words, of runs on a real API server (Pulumi 3.260, Kubernetes provider 4.32,
# 2026-11), and what a reader must find.
SAID = [
    ('configmaps "gateway-config-df3c75ef10" already exists', "inferplan recover chat"),
    (
        "the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end",
        "inferplan recover chat",
    ),
    ('no matches for kind "HTTPRoute" in version "gateway.networking.k8s.io/v1"', "install it"),
    (
        'deployments.apps is forbidden: User "ci" cannot create resource "deployments"',
        "ask for the right",
    ),
    (
        'pods "x" is forbidden: exceeded quota: accelerators, requested: nvidia.com/gpu=4',
        "make the pool larger",
    ),
    (
        'Apply failed with 1 conflict: conflict with "kubectl" with subresource "scale"',
        "inferplan recover chat takes the field back",
    ),
    (
        'Apply failed with 1 conflict: conflict with "kubectl" using apps/v1',
        "because another program (kubectl, an autoscaler) owns",
    ),
    (
        'Apply failed with 1 conflict: conflict with "pulumi-kubernetes-9c41e0a7" using v1',
        "because an earlier run of inferplan or Pulumi owns",
    ),
    (
        'Apply failed with 2 conflicts: conflicts with "inferplan-rehearsal" using v1: .data.a',
        "because an earlier run of inferplan or Pulumi",
    ),
    (
        (
            '2 conflicts: conflicts with "pulumi-kubernetes-9c" using v1: .a, conflicts with'
            ' "helm": .b'
        ),
        "because another program",
    ),
    (
        (
            "resource inference/x was successfully created, but the Kubernetes API server reported"
            " that it failed to fully initialize or become live: timed out waiting to be Ready"
        ),
        "inferplan status chat",
    ),
    ("configured Kubernetes cluster is unreachable: connection refused", "check the kubeconfig"),
    ("something that no table foresees", "inferplan up chat"),
]


@pytest.mark.parametrize(("message", "remedy"), SAID)
def test_the_next_command_is_named_and_the_engines_text_quoted(message, remedy):
    told = explain(failures_of([error(message)]), verb="up", stack="chat")
    paragraph, _, below = told.partition("\n\n")
    assert "\n" not in paragraph
    assert paragraph.startswith("up of chat: ConfigMap gateway-config failed")
    assert remedy in paragraph
    assert message in below


def test_tracebacks_and_what_follows_from_the_cause_are_left_out():
    trace = (
        "Program failed with an unhandled exception:\nTraceback (most recent call last):\n  File x,"
        " line 3"
    )
    stack = "urn:pulumi:chat::inferplan::pulumi:pulumi:Stack::inferplan-chat"
    events = [
        error(trace, stack),
        error("update failed", ""),
        error('services "a" already exists'),
        error('services "a" already exists'),
    ]
    told = explain(failures_of(events), verb="up", stack="chat")
    assert "Traceback" not in told
    assert told.count('services "a" already exists') == 1
    assert "more below" not in told


def test_several_failures_are_all_quoted_and_counted():
    told = explain(
        failures_of([error("first"), error("second", f"{URN}-2")]), verb="down", stack="chat"
    )
    assert "(1 more below)" in told
    assert "second" in told


def test_an_engine_that_names_nothing_still_leads_on():
    assert "inferplan recover chat" in explain(failures_of([]), verb="up", stack="chat")


WARNING = "warning: using pulumi-language-python from $PATH at /opt/bin/pulumi-language-python\n"
LANGUAGE = "failed to load language plugin python: "
# What the CLI 3.276 prints before the first resource (2026-11), the events that it logs until then,
# and what a reader must find in the last line.
REFUSALS = {
    "no language host": (
        (
            f"error: {LANGUAGE}no language plugin 'pulumi-language-python' found in the workspace or on"
            " your $PATH\n"
        ),
        [{"cancelEvent": {}}],
        "install the whole Pulumi CLI",
    ),
    "a broken language host": (
        (
            f"{WARNING}error: {LANGUAGE}could not read plugin [/opt/bin/pulumi-language-python]: exit"
            " status 3\n"
        ),
        [{"diagnosticEvent": {"severity": "warning", "message": "x"}}, {"cancelEvent": {}}],
        "install the whole Pulumi CLI",
    ),
    "an old CLI": (
        'error: Pulumi CLI version 3.200.0 does not satisfy the version range ">=3.230.0"\n',
        [],
        "install a Pulumi CLI of that range",
    ),
    "a wrong passphrase": (
        (
            f"{WARNING}error: getting stack configuration: get stack secrets manager: incorrect"
            " passphrase\n"
        ),
        [],
        "set PULUMI_CONFIG_PASSPHRASE",
    ),
    "no passphrase": (
        (
            "error: getting stack configuration: get stack secrets manager: passphrase must be set with"
            " PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE environment variables\n"
        ),
        [],
        "set PULUMI_CONFIG_PASSPHRASE and repeat",
    ),
    "no token, a warning after the error": (
        "error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions\n"
        + WARNING,
        [],
        "set PULUMI_BACKEND_URL",
    ),
    "a folder that is missing": (
        (
            'error: unable to open state directory "file:///nonexistent/x": stat /nonexistent/x: no'
            " such file or directory\n"
        ),
        [],
        "set PULUMI_BACKEND_URL",
    ),
    "a bucket that does not answer": (
        (
            'error: read ".pulumi/meta.yaml": blob (key ".pulumi/meta.yaml") (code=Unknown): operation'
            " error S3: GetObject, dial tcp: no such host\n"
        ),
        [],
        "set PULUMI_BACKEND_URL",
    ),
    "an invalid Pulumi.yaml": (
        (
            "error: could not unmarshal '/p/Pulumi.yaml': invalid YAML file: yaml: line 4: did not find"
            " expected ',' or ']'\n"
        ),
        [],
        "correct the file",
    ),
    "no word error at all": ("panic: assertion failed\n", [], "Correct that, then run"),
}


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("verb", ["up", "destroy"])
def test_a_refusal_before_the_first_resource_states_its_cause_and_what_to_do(
    tmp_path, monkeypatch, name, verb
):
    said, events, remedy = REFUSALS[name]
    logged = "".join(f"{json.dumps(each)}\n" for each in events)
    program = tmp_path / "pulumi"
    write = f"printf %s {shlex.quote(logged)} > $log"
    program.write_text(
        f"#!/bin/sh\nfor log; do :; done\ncase $log in */events.ndjson) {write};; esac\n"
        f"printf %s {shlex.quote(said)} >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("INFERPLAN_STATE_DIR", str(tmp_path))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    monkeypatch.setenv("PATH", environment["PATH"])
    with pytest.raises(OperationError) as caught:
        run([verb, "--stack", "chat", "--yes"], environment)
    told = str(caught.value)
    assert told.startswith(f"{'down' if verb == 'destroy' else verb} of chat did not start: ")
    assert remedy in told
    assert "Nothing was changed." in told
    assert "\n" not in told
    assert "warning:" not in told
    with pytest.raises(OperationError) as caught:
        answer(["stack", "export", "--stack", "chat"], environment)
    assert "warning:" not in str(caught.value)
    assert remedy.startswith("Correct that") or remedy in str(caught.value)
