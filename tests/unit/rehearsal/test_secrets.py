"""Secrets of a stack file: decrypted as Pulumi does, replaced by placeholders without a passphrase."""

import hashlib
from pathlib import Path

import pytest

from inferplan.errors import RehearsalError
from inferplan.pulumi_engine.secrets import (
    EXAMPLE_PASSPHRASE,
    SecretBox,
    SecretsError,
    new_salt,
    open_secrets,
    unlock,
)
from tests.examples import example_stacks

# From pkg/secrets/passphrase/manager_test.go of pulumi/pulumi: the salt of a state whose passphrase
# is "password".
UPSTREAM_SALT = "v1:fozI5u6B030=:v1:F+6ZduKKd8G0/V7L:PGMFeIzwobWRKmEAzUdaQHqC5mMRIQ=="
PHRASE = "correct horse"  # of a salt made for this run
STACKS = example_stacks(Path(__file__).parents[3])


@pytest.fixture(scope="module")
def made():
    return new_salt(PHRASE)


def test_salt_of_pulumi_accepts_its_passphrase_only():
    assert isinstance(unlock("password", UPSTREAM_SALT), SecretBox)
    with pytest.raises(
        SecretsError, match="the passphrase in PULUMI_CONFIG_PASSPHRASE is not this stack's"
    ):
        unlock("password123", UPSTREAM_SALT)


def test_encrypted_text_is_decrypted_and_differs_each_time(made):
    salt, box = made
    sealed = unlock(PHRASE, salt).encrypt("sehr geheim ✓")
    assert box.decrypt(sealed) == "sehr geheim ✓"
    assert box.encrypt("x") != box.encrypt("x")
    opened = open_secrets(
        {"inferplan:k": sealed},
        salt=salt,
        provider=None,
        environment={"PULUMI_CONFIG_PASSPHRASE": PHRASE},
    )
    assert opened.values == {"inferplan:k": "sehr geheim ✓"}
    assert not opened.placeholders


def test_passphrase_file_is_read_if_the_variable_is_unset(made, tmp_path):
    salt, box = made
    (tmp_path / "phrase").write_text(f"{PHRASE}\n")
    there = {"PULUMI_CONFIG_PASSPHRASE_FILE": str(tmp_path / "phrase")}
    assert open_secrets(
        {"a:b": box.encrypt("v")}, salt=salt, provider=None, environment=there
    ).values == {"a:b": "v"}
    with pytest.raises(SecretsError, match=r"PULUMI_CONFIG_PASSPHRASE_FILE\): No such file"):
        open_secrets(
            {"a:b": "v1:x:y"},
            salt=salt,
            provider=None,
            environment={"PULUMI_CONFIG_PASSPHRASE_FILE": str(tmp_path / "none")},
        )


def test_a_wrong_passphrase_names_its_variable_the_remedy_and_never_a_value(made):
    salt, box = made
    with pytest.raises(SecretsError) as caught:
        open_secrets(
            {"a:b": box.encrypt("v")},
            salt=salt,
            provider=None,
            environment={"PULUMI_CONFIG_PASSPHRASE": "my-own-phrase"},
        )
    said = str(caught.value)
    assert "PULUMI_CONFIG_PASSPHRASE" in said
    assert EXAMPLE_PASSPHRASE in said
    assert "my-own-phrase" not in said
    assert isinstance(caught.value, RehearsalError)


@pytest.mark.parametrize(
    ("salt", "provider", "why"),
    [
        ("v1:a:v1:b:c", None, "neither PULUMI_CONFIG_PASSPHRASE nor"),
        (None, "awskms://alias/stacks?region=eu-central-1", "belong to awskms"),
        (None, None, "belong to Pulumi's service"),
    ],
)
def test_without_a_passphrase_digests_of_the_ciphertexts_are_the_placeholders(salt, provider, why):
    opened = open_secrets({"a:b": "v1:n:c"}, salt=salt, provider=provider, environment={})
    assert opened.placeholders
    assert why in opened.reason
    assert opened.values == {"a:b": hashlib.sha256(b"v1:n:c").hexdigest()}


def test_no_key_is_derived_without_secrets():
    assert (
        open_secrets(
            {}, salt="broken", provider=None, environment={"PULUMI_CONFIG_PASSPHRASE": "x"}
        ).values
        == {}
    )


@pytest.mark.parametrize(
    "sealed", ["", "v1", "v2:AAAA:AAAA", "v1:!:!", "v1:AAAA:AAAA", "v1:AAAAAAAAAAAAAAAA:AAAA"]
)
def test_a_damaged_value_is_rejected(made, sealed):
    _, box = made
    with pytest.raises(ValueError, match=r"base64|of the form|nonce has|another key"):
        box.decrypt(sealed)


def test_a_damaged_value_in_a_stack_names_the_key_and_what_to_type(made):
    salt, _ = made
    with pytest.raises(
        SecretsError,
        match=r"inferplan:apiKeySeed cannot be decrypted.*pulumi config set --secret apiKeySeed",
    ):
        open_secrets(
            {"inferplan:apiKeySeed": "v1:x"},
            salt=salt,
            provider="passphrase",
            environment={"PULUMI_CONFIG_PASSPHRASE": PHRASE},
        )


@pytest.mark.parametrize("salt", ["v1", "v1:AAAA", "v2:AAAA:v1:b:c", "v1:?:v1:b:c"])
def test_a_damaged_salt_is_an_error(salt):
    with pytest.raises(SecretsError, match="encryptionsalt cannot be read"):
        unlock("x", salt)


def test_repr_shows_no_key_and_no_value(made):
    _, box = made
    opened = open_secrets({"a:b": "v1:hidden:hidden"}, salt=None, provider=None, environment={})
    assert "hidden" not in repr(opened)
    assert repr(box) == "SecretBox()"


@pytest.mark.parametrize("stack", sorted(STACKS.values()), ids=lambda path: path.name)
def test_the_example_stacks_open_with_the_documented_passphrase(stack):
    from inferplan.stackfile.reader import read_stack

    file = read_stack(stack)
    opened = open_secrets(
        file.secrets,
        salt=file.encryption_salt,
        provider=file.secrets_provider,
        environment={"PULUMI_CONFIG_PASSPHRASE": EXAMPLE_PASSPHRASE},
    )
    assert not opened.placeholders
    assert len(opened.values["inferplan:apiKeySeed"]) >= 32
