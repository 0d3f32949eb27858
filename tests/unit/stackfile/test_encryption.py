"""Damage of a salt or an encrypted value is an error with its line, and needs no passphrase to be
seen.
"""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from inferplan.documents.errors import InvalidStack
from inferplan.pulumi_engine.secrets import EXAMPLE_PASSPHRASE, SecretsError
from inferplan.stackfile.reader import read_stack
from inferplan.workspace.workspace import Workspace

# The salt of the example stacks, and a value that no key opens.
SALT = "v1:2Gs9GzCRTTU=:v1:Qco23wBlmkobc2Z8:fmgBhuZXLMzMdVtZ/O12DAy/+lZfcA=="
SEED = "v1:GbgPclWuz7EGyNeb:s4Nll5BhiR7iw0ZNX+EPYiwrXM+ujpeXnbi+z4dH6hQ5nOQwq3oz"
SALT_ERROR = (
    "s.yaml:1:1: encryptionsalt: The salt is damaged. Expected v1:<8 bytes>:v1:<12 bytes>:<22"
    " bytes>, each in base64. "
)
SEED_ERROR = (
    "s.yaml:3:3: apiKeySeed: The encrypted value is damaged. Expected v1:<12 bytes>:<at least 16"
    " bytes>, each in base64. "
)


def errors(tmp_path, salt, seed, more=""):
    path = tmp_path / "s.yaml"
    path.write_text(
        f"encryptionsalt: {salt}\nconfig:\n  inferplan:apiKeySeed: {{secure: {seed}}}\n{more}"
    )
    file = read_stack(path, shown_path="s.yaml")
    return list(InvalidStack(file.shown_path, file.errors).lines)


@pytest.mark.parametrize(
    "salt",
    [
        SALT[:-2],
        SALT[:-4],
        SALT.replace("v1:", "v2:", 1),
        SALT.rpartition(":")[0],
        "v1:abc",
        f"{SALT}AAAA",
    ],
)
def test_the_error_of_a_damaged_salt_has_its_form_and_the_remedy(tmp_path, salt):
    assert errors(tmp_path, salt, SEED) == [
        SALT_ERROR + "Restore this line from version control: the secrets need it."
    ]


@pytest.mark.parametrize(
    "seed",
    [
        SEED[:-1],
        SEED[3:],
        SEED.replace("Gbg", "G"),
        "v1:GbgPclWuz7EGyNeb:c2hvcnQ=",
        f"{SEED}:x",
        "v1:é:b",
    ],
)
def test_the_error_of_a_damaged_seed_has_its_form_and_the_remedy(tmp_path, seed):
    remedy = (
        "Restore it from version control, or set a new one: pulumi config set --secret apiKeySeed"
    )
    assert errors(tmp_path, SALT, seed) == [SEED_ERROR + remedy]


def test_imported_keys_and_secrets_of_providers_are_checked_too(tmp_path):
    more = (
        "  inferplan:consumers: {chat: {importedKeys: {'1': {secure: v1:x:y}}}}\n  aws:secretKey:"
        " {secure: v1:x:y}\n"
    )
    imported, provider = errors(tmp_path, SALT, SEED, more)
    assert imported.startswith("s.yaml:4:")
    assert "pulumi config set --secret --path 'consumers.chat.importedKeys[\"1\"]'" in imported
    assert provider.startswith("s.yaml:5:3: aws:secretKey: ")
    assert provider.endswith("pulumi config set --secret aws:secretKey")


@pytest.mark.parametrize("provider", ["awskms://alias/key", "gcpkms://a", "default"])
def test_other_secrets_providers_have_forms_of_their_own(tmp_path, provider):
    assert errors(tmp_path, SALT, "opaque", f"secretsprovider: {provider}\n") == []


def test_a_value_that_only_its_passphrase_can_judge_is_reported_with_its_line(
    tmp_path, monkeypatch
):
    path = tmp_path / "s.yaml"
    path.write_text(
        f"encryptionsalt: {SALT}\nconfig:\n  inferplan:apiKeySeed:\n    secure:"
        f" {SEED.replace('s4N', 's5N')}\n"
    )
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", EXAMPLE_PASSPHRASE)
    workspace = Workspace(
        tmp_path, "s", read_stack(path, shown_path="s.yaml"), settings=MagicMock()
    )
    with pytest.raises(
        SecretsError, match=r"^s\.yaml:3:3: inferplan:apiKeySeed cannot be decrypted"
    ):
        _ = workspace.secrets


def test_a_salt_that_was_altered_and_is_well_formed_is_reported_with_its_line_and_both_causes(
    tmp_path, monkeypatch
):
    altered = SALT.replace(SALT[3:6], "abc", 1)
    assert errors(tmp_path, altered, SEED) == []
    path = tmp_path / "s.yaml"
    path.write_text(
        f"# a stack\nencryptionsalt: {altered}\nconfig:\n  inferplan:apiKeySeed: {{secure:"
        f" {SEED}}}\n"
    )
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", EXAMPLE_PASSPHRASE)
    workspace = Workspace(
        tmp_path, "s", read_stack(path, shown_path="s.yaml"), settings=MagicMock()
    )
    with pytest.raises(
        SecretsError,
        match=(
            r"^s\.yaml:2:1: the passphrase in \S+ is not this stack's, or the encryptionsalt was"
            r" altered"
        ),
    ):
        _ = workspace.secrets
