"""Decrypt and encrypt the secrets of a stack file as Pulumi's passphrase provider does.

Without a passphrase, or if the secrets belong to another provider, the ciphertext is the
placeholder of the value, so that a rehearsal needs no credentials. This module never prompts and
never prints plain text.

The format (pkg/secrets/passphrase of Pulumi, 2026-08): an encrypted value is
`v1:<nonce>:<ciphertext>` in base64, by AES-256-GCM without associated data; the key is
PBKDF2-HMAC-SHA256 of the passphrase with 1,000,000 rounds. The stack's `encryptionsalt` is
`v1:<salt>:` and the encrypted word `pulumi`, which verifies a passphrase.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from inferplan.errors import RehearsalError

if TYPE_CHECKING:
    from concurrent.futures import Future

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
    """The secrets of a stack cannot be decrypted; `key` is that of a damaged value, `of_salt`
    blames the stack's `encryptionsalt`.
    """

    key: str | None = None
    of_salt: bool = False


@dataclass(frozen=True)
class OpenedSecrets:
    """Secrets by full key (`inferplan:apiKeySeed`); `placeholders` says that the values are
    digests of ciphertexts, `reason` why.
    """

    values: Mapping[str, str] = field(repr=False)
    placeholders: bool = False
    reason: str = ""


def open_secrets(
    secrets: Mapping[str, str],
    *,
    salt: str | None,
    provider: str | None,
    environment: Mapping[str, str] = os.environ,
) -> OpenedSecrets:
    """The plain values of `secrets`, or placeholders without a passphrase. Raises SecretsError if
    it is wrong or a value is damaged.
    """
    if not secrets:
        return OpenedSecrets({})
    if salt is None or not belongs_to_passphrase(salt, provider):
        kind = (provider or "").partition(":")[0] or "Pulumi's service"
        reason = f"the stack's secrets belong to {kind}, which a rehearsal never calls"
        return OpenedSecrets(_digests(secrets), placeholders=True, reason=reason)
    passphrase_and_source = passphrase_of(environment)
    if passphrase_and_source is None:
        reason = f"neither {_VARIABLE} nor {_VARIABLE}_FILE is set"
        return OpenedSecrets(_digests(secrets), placeholders=True, reason=reason)
    passphrase, source = passphrase_and_source
    try:
        box = unlock(passphrase, salt, source=source)
    except SecretsError:
        if source != str(PROJECT.path):
            raise
        # The user did not name this file for this stack, which may have another passphrase.
        reason = f"the passphrase in {source} is not this stack's"
        return OpenedSecrets(_digests(secrets), placeholders=True, reason=reason)
    return OpenedSecrets(
        {key: _decrypted(box, key, ciphertext) for key, ciphertext in secrets.items()}
    )


def _digests(ciphertexts: Mapping[str, str]) -> dict[str, str]:
    """Placeholders that look as random as the secrets, so that no judge of seeds looks for words."""
    return {key: hashlib.sha256(text.encode()).hexdigest() for key, text in ciphertexts.items()}


def with_placeholder(opened: OpenedSecrets, key: str, source: str) -> OpenedSecrets:
    """Return `opened` with a placeholder for the secret `key`, which `source` has and no rehearsal
    asks for.
    """
    placeholder = hashlib.sha256(f"{key} {source}".encode()).hexdigest()
    reason = f"{key.partition(':')[2]} comes from {source}, which only the Pulumi CLI opens"
    return OpenedSecrets({**opened.values, key: placeholder}, placeholders=True, reason=reason)


def belongs_to_passphrase(salt: str | None, provider: str | None) -> bool:
    return bool(salt) and provider in (None, "", "passphrase")


@dataclass
class ProjectPassphrase:
    """The passphrase file of the selected project, which `init` writes: it counts where the user
    sets no variable. `forgotten` is True once no secret may be opened.
    """

    path: Path | None = None
    forgotten: bool = False

    def variables(self) -> dict[str, str]:
        """The variable for programs that open the project's secrets; {} if the user's own count."""
        own = {_VARIABLE, f"{_VARIABLE}_FILE"} & {*os.environ}
        if self.path is None or self.forgotten or own:
            return {}
        return {f"{_VARIABLE}_FILE": str(self.path)}


PROJECT = ProjectPassphrase()


def passphrase_of(environment: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """The passphrase and its variable, in the CLI's order, else that of the project's file; None
    without either. Raises SecretsError.
    """
    if _VARIABLE in environment:
        return environment[_VARIABLE], _VARIABLE
    path = environment.get(f"{_VARIABLE}_FILE")
    source = f"{_VARIABLE}_FILE"
    if not path and environment is os.environ:
        path = source = PROJECT.variables().get(f"{_VARIABLE}_FILE", "")
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip(), source
    except (OSError, UnicodeDecodeError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SecretsError(
            f"cannot read {path}{f' (from {source})' if source != path else ''}: {problem}",
            "correct the path, or unset the variable to rehearse with placeholders",
        ) from None


def forget_passphrase() -> None:
    """Open no secret in this process from now on."""
    for name in (_VARIABLE, f"{_VARIABLE}_FILE"):
        os.environ.pop(name, None)
    PROJECT.forgotten = True


def _decrypted(box: SecretBox, key: str, ciphertext: str) -> str:
    try:
        return box.decrypt(ciphertext)
    except ValueError as error:
        name = key.partition(":")[2]
        option = f"--path '{name}'" if "." in name else name
        damaged = SecretsError(
            f"{key} cannot be decrypted: {error}",
            f"set it again: pulumi config set --secret {option}",
        )
        damaged.key = key
        raise damaged from None


@dataclass(frozen=True)
class SecretBox:
    """Encrypts and decrypts values with one key."""

    key: bytes = field(repr=False)

    def decrypt(self, encrypted: str) -> str:
        """The plain text of `encrypted`. Raises ValueError, without either text."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        parts = encrypted.split(":")
        if len(parts) != 3 or parts[0] != _VERSION:
            raise ValueError("it is not of the form v1:<nonce>:<ciphertext>")
        nonce, ciphertext = _decoded(parts[1]), _decoded(parts[2])
        if len(nonce) != _NONCE_BYTES:
            raise ValueError(f"its nonce has {len(nonce)} bytes instead of {_NONCE_BYTES}")
        try:
            return AESGCM(self.key).decrypt(nonce, ciphertext, None).decode("utf-8")
        except InvalidTag:
            raise ValueError("it was encrypted with another key, or it is damaged") from None
        except UnicodeDecodeError:
            raise ValueError("it is not UTF-8 text") from None

    def encrypt(self, plain: str) -> str:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE_BYTES)
        ciphertext = AESGCM(self.key).encrypt(nonce, plain.encode("utf-8"), None)
        return f"{_VERSION}:{_encoded(nonce)}:{_encoded(ciphertext)}"


def unlock(passphrase: str, salt: str, *, source: str = _VARIABLE) -> SecretBox:
    """The box of `passphrase`, from `source`, and `salt`. Raises SecretsError if the salt is
    malformed or the passphrase is wrong.
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
        word = box.decrypt(proof)
    except ValueError:
        word = ""
    if word != _PROOF:
        hint = (
            f"the example stacks use {EXAMPLE_PASSPHRASE!r}. Unset {_VARIABLE} and {_VARIABLE}_FILE"
            " to rehearse with placeholders."
        )
        raise _salt_error(
            f"the passphrase in {source} is not this stack's, or the {_SALT} was altered",
            f"set the passphrase that the stack was made with ({hint}), or restore the {_SALT} from"
            " version control",
        )
    return box


def _salt_error(problem: str, remedy: str) -> SecretsError:
    error = SecretsError(problem, remedy)
    error.of_salt = True
    return error


def new_salt(passphrase: str) -> tuple[str, SecretBox]:
    salt = os.urandom(_SALT_BYTES)
    box = SecretBox(_key(passphrase, salt))
    return f"{_VERSION}:{_encoded(salt)}:{box.encrypt(_PROOF)}", box


def prepare_key(salt: str | None, provider: str | None) -> None:
    """Derive the key of a stack in a thread, which takes a core and not Python's lock, for
    `open_secrets` to wait for. Whatever is wrong, `open_secrets` reports.
    """
    with suppress(SecretsError, ValueError, IndexError):
        passphrase = passphrase_of() if belongs_to_passphrase(salt, provider) else None
        if salt and passphrase:
            _derivation(passphrase[0], _decoded(salt.split(":", 2)[1]))


def _key(passphrase: str, salt: bytes) -> bytes:
    return _derivation(passphrase, salt).result()


# A derivation takes a second, and one process may open the same stack more than once.
@lru_cache(maxsize=16)
def _derivation(passphrase: str, salt: bytes) -> Future[bytes]:
    from concurrent.futures import ThreadPoolExecutor

    secret = passphrase.encode("utf-8", "surrogateescape")
    executor = ThreadPoolExecutor(1)
    try:
        return executor.submit(_derive, secret, salt)
    finally:
        executor.shutdown(wait=False)


def _derive(secret: bytes, salt: bytes) -> bytes:
    # The OpenSSL of this package takes 0.18 s, that of hashlib 0.26 to 0.33 s (2026-11).
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

    return PBKDF2HMAC(SHA256(), _KEY_BYTES, salt, _ROUNDS).derive(secret)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a part of it is not base64") from None


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
