"""Which stacks have keys that everybody can derive: those with the seed or the passphrase of an example of this project.

It knows the examples by marks that lead back to nothing. Whether such keys matter, it leaves to whoever asks.
"""

from __future__ import annotations

import hashlib
from contextvars import ContextVar

rehearsed: ContextVar[bool] = ContextVar("rehearsed", default=False)
"""Whether a rehearsal runs the program: all that it makes is on this machine. Only the process that rehearses can say so."""

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
    """What `text` is known by: 256 random bits cannot be found again from it, and 64 bits of it are enough to tell examples apart."""
    return hashlib.sha256(f"inferplan/example\x00{text.strip()}".encode()).hexdigest()[:16]


def publicity(seed: str, salt: str | None, passphrase: str | None) -> str | None:
    """Why everybody can derive keys from `seed` or open it, in words that quote nothing; None where nobody can.

    `salt` is the `encryptionsalt` of the stack's file, None where it has none and the passphrase means nothing.
    """
    if mark(seed) in EXAMPLES:
        return "is that of an example, which everybody can read, so everybody can derive the keys of this stack"
    if salt and (mark(salt) in EXAMPLES or mark(passphrase or "") == _OPENER):
        return "is encrypted with the passphrase of the examples, which is public"
    return None


def caution(why: str, stack: str, key: str) -> str:
    """What to say of such a stack where nothing is harmed."""
    return f"{key} {why}; that does for plans and rehearsals, an up on a real cluster is refused; next: inferplan new NAME --from {stack}"


def refusal(why: str, stack: str, key: str) -> str:
    """What to say of such a stack before it comes to a real cluster."""
    return (
        f"{why}; take a stack of your own: inferplan new NAME --from {stack}, or keep this one and change both: "
        f'pulumi stack change-secrets-provider passphrase, then pulumi config set --secret {key} "$(openssl rand -hex 32)"'
    )
