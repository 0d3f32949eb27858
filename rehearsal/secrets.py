"""Opens the secrets of a stack file as Pulumi's passphrase provider does, and seals new ones.

Where no passphrase is set, or where the secrets belong to another provider, the ciphertext stands in for the value, so
that whoever holds no credentials can rehearse. It asks nobody for a passphrase and shows no plain text.

The notation, seen in Pulumi's own tests (pkg/secrets/passphrase, 2026-08): a sealed value is `v1:<nonce>:<ciphertext>`, both
in base64, by AES-256-GCM without associated data; its key is PBKDF2-HMAC-SHA256 of the passphrase, 1,000,000 rounds. The
stack's `encryptionsalt` is `v1:<salt>:` followed by the sealed word `pulumi`, which proves a passphrase.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rehearsal.errors import RehearsalError

EXAMPLE_PASSPHRASE = "inferplan-example"  # noqa: S105 - documented and thrown away: it guards nothing but the example stacks
_VARIABLE = "PULUMI_CONFIG_PASSPHRASE"
_PROOF = "pulumi"
_VERSION = "v1"
_SALT = "encryptionsalt"
_ROUNDS = 1_000_000
_KEY_BYTES = 32
_NONCE_BYTES = 12
_SALT_BYTES = 8


class SecretsError(RehearsalError):
    """The secrets of a stack cannot be opened; the message names variables and keys, never a value."""

    key: str | None = None
    """The full key of the value that is damaged, None if it is not one value."""
    of_salt: bool = False
    """Whether the stack's `encryptionsalt` may be the cause."""


@dataclass(frozen=True)
class OpenedSecrets:
    """Secrets by full key (`inferplan:apiKeySeed`).

    `stand_in` says that the values are the ciphertexts themselves, `reason` why, in words for the person who rehearses.
    """

    values: Mapping[str, str] = field(repr=False)
    stand_in: bool = False
    reason: str = ""


def open_secrets(
    secrets: Mapping[str, str], *, salt: str | None, provider: str | None, environment: Mapping[str, str] = os.environ
) -> OpenedSecrets:
    """The plain values of `secrets`, or stand-ins where nobody gave a way to open them.

    `salt` and `provider` are the stack file's `encryptionsalt` and `secretsprovider`. Deriving the key takes 0.2 s, once.
    Raises SecretsError when the passphrase is wrong or a value is damaged.
    """
    if not secrets:
        return OpenedSecrets({})
    if salt is None or not belongs_to_passphrase(salt, provider):
        kind = (provider or "").partition(":")[0] or "Pulumi's service"
        return OpenedSecrets(dict(secrets), stand_in=True, reason=f"the stack's secrets belong to {kind}, which a rehearsal never asks")
    found = given_passphrase(environment)
    if found is None:
        reason = f"neither {_VARIABLE} nor {_VARIABLE}_FILE is set"
        return OpenedSecrets(dict(secrets), stand_in=True, reason=reason)
    passphrase, source = found
    box = unlock(passphrase, salt, source=source)
    return OpenedSecrets({key: _opened(box, key, sealed) for key, sealed in secrets.items()})


def belongs_to_passphrase(salt: str | None, provider: str | None) -> bool:
    """Whether the secrets of a stack file with this `encryptionsalt` and `secretsprovider` are sealed under a passphrase."""
    return bool(salt) and provider in (None, "", "passphrase")


def given_passphrase(environment: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """The passphrase and the variable that it came from, by the CLI's own order; None where neither variable is set.

    Raises SecretsError when the file that PULUMI_CONFIG_PASSPHRASE_FILE names cannot be read.
    """
    if _VARIABLE in environment:
        return environment[_VARIABLE], _VARIABLE
    named = environment.get(f"{_VARIABLE}_FILE")
    if not named:
        return None
    try:
        return Path(named).read_text(encoding="utf-8").strip(), f"{_VARIABLE}_FILE"
    except (OSError, UnicodeDecodeError, ValueError) as error:
        what = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise SecretsError(
            f"cannot read {named}, which {_VARIABLE}_FILE names: {what}",
            "correct the path, or unset the variable to rehearse with stand-ins",
        ) from None


def _opened(box: SecretBox, key: str, sealed: str) -> str:
    try:
        return box.open(sealed)
    except ValueError as error:
        name = key.partition(":")[2]
        spelled = f"--path '{name}'" if "." in name else name
        damaged = SecretsError(f"{key} cannot be decrypted: {error}", f"set it again: pulumi config set --secret {spelled}")
        damaged.key = key
        raise damaged from None


@dataclass(frozen=True)
class SecretBox:
    """Seals and opens values under one key."""

    key: bytes = field(repr=False)

    def open(self, sealed: str) -> str:
        """The plain text of `sealed`. Raises ValueError, which repeats neither."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        parts = sealed.split(":")
        if len(parts) != 3 or parts[0] != _VERSION:
            raise ValueError("it is not of the form v1:<nonce>:<ciphertext>")
        nonce, ciphertext = _decoded(parts[1]), _decoded(parts[2])
        if len(nonce) != _NONCE_BYTES:
            raise ValueError(f"its nonce has {len(nonce)} bytes instead of {_NONCE_BYTES}")
        try:
            return AESGCM(self.key).decrypt(nonce, ciphertext, None).decode("utf-8")
        except InvalidTag:
            raise ValueError("it was sealed under another key, or it was damaged") from None
        except UnicodeDecodeError:
            raise ValueError("it holds no UTF-8 text") from None

    def seal(self, plain: str) -> str:
        """`plain`, sealed under a fresh nonce."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE_BYTES)
        ciphertext = AESGCM(self.key).encrypt(nonce, plain.encode("utf-8"), None)
        return f"{_VERSION}:{_encoded(nonce)}:{_encoded(ciphertext)}"


def unlock(passphrase: str, salt: str, *, source: str = _VARIABLE) -> SecretBox:
    """The box that `passphrase` opens under the stack's `encryptionsalt`.

    Raises SecretsError when the salt is malformed or the passphrase, which came from `source`, is not the stack's.
    """
    version, _, rest = salt.partition(":")
    encoded, _, proof = rest.partition(":")
    try:
        if version != _VERSION or not proof:
            raise ValueError("it is not of the form v1:<salt>:v1:<nonce>:<ciphertext>")
        box = SecretBox(_key(passphrase, _decoded(encoded)))
    except ValueError as error:
        remedy = "restore that line from version control; the secrets need it"
        raise _salt_error(f"the stack file's {_SALT} cannot be read: {error}", remedy) from None
    try:
        known = box.open(proof)
    except ValueError:
        known = ""
    if known != _PROOF:
        hint = f"the example stacks use {EXAMPLE_PASSPHRASE!r}; unset {_VARIABLE} and {_VARIABLE}_FILE to rehearse with placeholders"
        raise _salt_error(
            f"the passphrase in {source} is not this stack's, or the {_SALT} was altered",
            f"set the passphrase that the stack was made with ({hint}), or restore the {_SALT} from version control",
        )
    return box


def _salt_error(problem: str, remedy: str) -> SecretsError:
    error = SecretsError(problem, remedy)
    error.of_salt = True
    return error


def new_salt(passphrase: str) -> tuple[str, SecretBox]:
    """An `encryptionsalt` for a new stack, and the box that goes with it."""
    salt = os.urandom(_SALT_BYTES)
    box = SecretBox(_key(passphrase, salt))
    return f"{_VERSION}:{_encoded(salt)}:{box.seal(_PROOF)}", box


def encrypt(plain: str, *, passphrase: str, salt: str) -> str:
    """`plain` as a stack file holds it below `secure`. Raises SecretsError as `unlock` does."""
    return unlock(passphrase, salt).seal(plain)


def _key(passphrase: str, salt: bytes) -> bytes:
    from hashlib import pbkdf2_hmac

    return pbkdf2_hmac("sha256", passphrase.encode("utf-8", "surrogateescape"), salt, _ROUNDS, _KEY_BYTES)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a part of it is no base64") from None


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
