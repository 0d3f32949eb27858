from __future__ import annotations

import re
from pathlib import Path

import pytest

from inferplan.documents.errors import InvalidStack
from inferplan.planning.plan import notes_before
from inferplan.workspace.workspace import Workspace, open_workspace

ROOT = Path(__file__).resolve().parents[3]
LOCAL = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
WITHOUT_SEED = re.sub(
    r"  inferplan:apiKeySeed:\n.*\n|^encryptionsalt.*\n", "", LOCAL, flags=re.MULTILINE
)
INLINE = """environment:
  imports: [acme/platform]
  values:
    pulumiConfig:
      inferplan:apiKeySeed: {fn::secret: hunter2-hunter2}
      inferplan:namespace: ${platform.cluster.namespace}
"""


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("PULUMI_CONFIG_PASSPHRASE", raising=False)

    def opened(text: str) -> Workspace:
        path = tmp_path / "Pulumi.local.yaml"
        path.write_text(text)
        return open_workspace(str(path))

    return opened


def test_without_environment_the_seed_is_missing(workspace):
    with pytest.raises(InvalidStack) as invalid:
        workspace(WITHOUT_SEED)
    assert "apiKeySeed" in str(invalid.value)


def test_the_seed_may_be_in_an_imported_environment(workspace):
    opened = workspace("environment:\n  - acme/inference-prod\n" + WITHOUT_SEED)
    [note] = [each for each in notes_before(opened) if "placeholders" in each]
    assert (
        note == "this plan has placeholders for secrets: apiKeySeed comes from the Pulumi ESC"
        " environment acme/inference-prod, which only the Pulumi CLI opens"
    )
    kinds = {each.type for each in opened.record()}
    assert {"kubernetes:apps/v1:Deployment", "kubernetes:core/v1:Secret"} <= kinds


def test_a_plan_prints_the_expressions_of_an_environment_and_never_a_secret(workspace):
    opened = workspace(INLINE + WITHOUT_SEED)
    notes = list(notes_before(opened))
    assert (
        "namespace is ${platform.cluster.namespace}, which the Pulumi CLI reads from Pulumi ESC;"
        " this plan does not know it" in notes
    )
    assert (
        "apiKeySeed is fn::secret, which the Pulumi CLI reads from Pulumi ESC; this plan does not"
        " know it" in notes
    )
    assert "hunter2" not in repr(notes) + repr(opened.record()) + repr(opened.file.environment)


def test_the_seed_in_the_file_comes_first(workspace, monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "inferplan-example")
    assert not workspace("environment: [acme/platform]\n" + LOCAL).secrets.placeholders


def test_a_plain_value_in_the_environment_is_an_error_at_its_line(workspace):
    text = "environment:\n  values:\n    pulumiConfig:\n      inferplan:namespace: chat\n" + LOCAL
    with pytest.raises(InvalidStack) as invalid:
        workspace(text)
    message = (
        "Pulumi.local.yaml:4:7: environment.values.pulumiConfig.inferplan:namespace:"
        " inferplan:namespace has a plain value"
    )
    assert f"{message}, which no plan would check. Write it below config." in str(invalid.value)


@pytest.mark.parametrize("value", ["acme/platform", "3"])
def test_an_environment_is_a_list_or_a_mapping(workspace, value):
    with pytest.raises(InvalidStack) as invalid:
        workspace(f"environment: {value}\n" + LOCAL)
    assert "is not a list of environments" in str(invalid.value)
