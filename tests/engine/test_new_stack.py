"""What `inferplan new` writes, under Pulumi's own engine: it opens the secrets, keeps the file and
runs the program.
"""

from __future__ import annotations

import os

import pytest

from inferplan.pulumi_engine.secrets import EXAMPLE_PASSPHRASE, open_secrets
from inferplan.stackfile.reader import read_stack
from tests.engine.own_project import own_project
from tests.engine.requirement import needs_pulumi
from tests.engine.test_real_engine import run

pytestmark = [pytest.mark.engine, needs_pulumi]

PHRASE = "an owner's own phrase, with spaces"  # made for this test


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return own_project(tmp_path_factory.mktemp("new"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    backend = tmp_path_factory.mktemp("backend")
    values = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("PULUMI_CONFIG_PASSPHRASE")
    }
    more = {
        "PULUMI_BACKEND_URL": backend.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": PHRASE,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    return {**values, **more, "INFERPLAN_STATE_DIR": str(backend / "state")}


def test_pulumi_opens_a_new_stack_keeps_its_file_and_previews_it(project, environment):
    run(environment, "inferplan", "new", "acme", "--from", "onprem", cwd=project)
    path = project / "stacks" / "Pulumi.acme.yaml"
    written = path.read_bytes()
    run(environment, "pulumi", "stack", "init", "acme", "--non-interactive", cwd=project)
    told = run(
        environment, "pulumi", "config", "get", "apiKeySeed", "--stack", "acme", cwd=project
    ).stdout.strip()
    file = read_stack(path)
    ours = open_secrets(
        file.secrets,
        salt=file.encryption_salt,
        provider=None,
        environment={"PULUMI_CONFIG_PASSPHRASE": PHRASE},
    )
    assert told == ours.values["inferplan:apiKeySeed"]
    shown = run(
        environment, "pulumi", "preview", "--stack", "acme", "--non-interactive", cwd=project
    )
    # The engine warns of a provider on PATH, and of one that is older than the SDK.
    of_the_provider = ("from $PATH", "resource plugin kubernetes")
    warnings = [line for line in shown.stdout.splitlines() if "warning: " in line]
    assert [line for line in warnings if not any(each in line for each in of_the_provider)] == []
    assert told not in shown.stdout + shown.stderr
    assert path.read_bytes() == written
    wrong = {**environment, "PULUMI_CONFIG_PASSPHRASE": f"{PHRASE}x"}
    refused = run(
        wrong, "pulumi", "config", "get", "apiKeySeed", "--stack", "acme", cwd=project, check=False
    )
    assert refused.returncode != 0


@pytest.mark.full
def test_an_example_is_previewed_with_a_warning_and_never_brought_up(project, environment):
    public = {**environment, "PULUMI_CONFIG_PASSPHRASE": EXAMPLE_PASSPHRASE}
    run(public, "pulumi", "stack", "init", "onprem", "--non-interactive", cwd=project)
    shown = run(public, "pulumi", "preview", "--stack", "onprem", "--non-interactive", cwd=project)
    assert "apiKeySeed is that of a public example" in shown.stdout
    arguments = ("up", "--stack", "onprem", "--yes", "--skip-preview", "--non-interactive")
    refused = run(public, "pulumi", *arguments, cwd=project, check=False)
    said = refused.stdout + refused.stderr
    assert refused.returncode != 0
    lines = (project / "stacks" / "Pulumi.onprem.yaml").read_text().splitlines()
    line = 1 + next(index for index, text in enumerate(lines) if "apiKeySeed" in text)
    assert (
        f"stacks/Pulumi.onprem.yaml:{line}:3: apiKeySeed: The seed is that of a public example"
        in said
    )
    assert "Traceback" not in said
