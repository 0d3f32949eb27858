"""Finds stacks whose keys anyone can derive: those with the seed or the passphrase of an example of this project.

It knows the examples by hashes that cannot be reversed. The caller decides whether such keys matter.
"""

from __future__ import annotations

import hashlib

# The mark of the passphrase of the examples.
_OPENER = "41cddffc75a4911d"
# The marks of the seeds and the encryptionsalts of every example in stacks/ and docs/; a test holds this list and the examples together.
EXAMPLES = frozenset(
    {
        "0e24f2b26821c164",
        "25203ad6676b768f",
        "2f7665b8fde3f61c",
        "4112fe1575dc0aea",
        "75af087cf01938ba",
        "77a972d3af77bd04",
        "a650e1db842fe2da",
        "e1077b18729322bd",
        "ead96c9d2c69f8be",
        "f32bb81303ef800a",
    }
)


def mark(text: str) -> str:
    """Hash `text`: the hash does not reveal 256 random bits, and 64 bits of it tell the examples apart."""
    return hashlib.sha256(f"inferplan/example\x00{text.strip()}".encode()).hexdigest()[:16]


def publicity(seed: str, salt: str | None, passphrase: str | None) -> str | None:
    """Why anyone can derive keys from `seed` or decrypt it, as the end of a sentence that quotes no secret; None if no one can.

    `salt` is the `encryptionsalt` of the stack's file, None where it has none and the passphrase means nothing.
    """
    if mark(seed) in EXAMPLES:
        return "is that of a public example, so anyone can derive the keys of this stack"
    if salt and (mark(salt) in EXAMPLES or mark(passphrase or "") == _OPENER):
        return "is encrypted with the passphrase of the examples, which is public"
    return None


def warning(why: str, stack: str, key: str) -> str:
    """The warning for plans and rehearsals of such a stack."""
    return f"{key} {why}. Plans and rehearsals work, but up on a real cluster is rejected. Next: inferplan new NAME --from {stack}"


def rejection(why: str, stack: str, key: str) -> str:
    """The error of such a stack on a real cluster."""
    return (
        f"The seed {why}. Make your own stack: inferplan new NAME --from {stack}. Or keep this one and change both secrets: "
        f'pulumi stack change-secrets-provider passphrase, then pulumi config set --secret {key} "$(openssl rand -hex 32)"'
    )
