"""The passphrase of a stack that is being made: from the variables that the Pulumi CLI reads, else asked for on the terminal.

It keeps and prints none, and takes none that guards nothing.
"""

from __future__ import annotations

import sys

from operations.errors import RequestError

_VARIABLE = "PULUMI_CONFIG_PASSPHRASE"


def new_passphrase(stack: str) -> tuple[str, bool]:
    """The passphrase for `stack`, and whether a person typed it just now.

    Raises OperationError where there is none, or one that everybody knows; SecretsError where its file cannot be read.
    """
    from rehearsal.secrets import EXAMPLE_PASSPHRASE, passphrase_of

    given = passphrase_of()
    passphrase, source = given if given is not None else (_asked(stack), "what was typed")
    other = f"set another, or unset {_VARIABLE} and {_VARIABLE}_FILE to be asked for one" if given is not None else "run it again"
    if not passphrase:
        raise RequestError(f"{source} is an empty passphrase, which seals nothing; {other}")
    if passphrase == EXAMPLE_PASSPHRASE:
        raise RequestError(f"{source} is the passphrase of the examples, which everybody can read: {stack} needs one of its own; {other}")
    return passphrase, given is None


def _asked(stack: str) -> str:
    from getpass import getpass

    if not sys.stdin.isatty():
        raise RequestError(
            f"{stack} needs a passphrase, and there is no terminal to ask for it; "
            f"set {_VARIABLE}, or {_VARIABLE}_FILE to the path of a file that holds it"
        )
    try:
        first = getpass(f"passphrase for {stack}, to seal its secrets with: ")
        again = getpass("the same once more: ") if first else ""
    except EOFError:
        raise RequestError("no passphrase was typed and nothing was written; run it again") from None
    if first != again:
        raise RequestError("the two passphrases differ and nothing was written; run it again")
    return first
