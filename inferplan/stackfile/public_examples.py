"""Finds parts of this project's public examples in other stacks: keys that anyone can derive, and
reserved names and ids.
"""

import hashlib
import re

from inferplan.documents.errors import InvalidStack, LocatedError, shown
from inferplan.documents.yaml_tree import MapNode, ScalarNode, walk
from inferplan.stackfile.reader import StackFile, user_path
from inferplan.stackfile.stack import StackSettings
from inferplan.tables import table

# The mark of the passphrase of the examples.
_OPENER = "41cddffc75a4911d"
# The marks of the seeds and the encryptionsalts of every example in stacks/ and docs/; a test holds
# this list and the examples together.
EXAMPLES = frozenset(
    (
        *(
            "0e24f2b26821c164",
            "25203ad6676b768f",
            "2f7665b8fde3f61c",
            "4112fe1575dc0aea",
            "75af087cf01938ba",
        ),
        *(
            "77a972d3af77bd04",
            "a650e1db842fe2da",
            "e1077b18729322bd",
            "ead96c9d2c69f8be",
            "f32bb81303ef800a",
        ),
    )
)


def placeholders(file: StackFile, settings: StackSettings) -> list[LocatedError]:
    """Return an error for each value of an example in `file`; none in the examples themselves, and
    none on the simulated cluster.
    """
    is_example = file.encryption_salt is not None and mark(file.encryption_salt) in EXAMPLES
    if (
        is_example
        or settings.cluster.is_simulated
        or not isinstance(file.root, MapNode)
        or "config" not in file.root.items
    ):
        return []
    errors = []
    for node, path, _ in walk(file.root.items["config"], ("config",), file.root.position):
        if isinstance(node, ScalarNode):
            row = next(
                (
                    each
                    for each in table("stackfile/reserved.toml")["value"]
                    if re.fullmatch(each["pattern"], node.text)
                ),
                None,
            )
            if row is not None:
                errors.append(
                    LocatedError(
                        user_path(path),
                        f"{shown(node.text)} {row['cause']}. {row['remedy']}.",
                        node.position,
                    )
                )
    return errors


def lines(file: StackFile, settings: StackSettings) -> tuple[str, ...]:
    """Return the errors as lines of text."""
    return InvalidStack(file.shown_path, placeholders(file, settings)).lines


def mark(text: str) -> str:
    """Hash `text`: the hash does not reveal 256 random bits, and 64 bits of it tell the examples
    apart.
    """
    return hashlib.sha256(f"inferplan/example\x00{text.strip()}".encode()).hexdigest()[:16]


def publicity(seed: str, salt: str | None, passphrase: str | None) -> str | None:
    """The reason why anyone can derive keys from `seed` or decrypt it with the file's `salt`, to
    end a sentence; None if no one can.
    """
    if mark(seed) in EXAMPLES:
        return "is that of a public example, so anyone can derive the keys of this stack"
    if salt and (mark(salt) in EXAMPLES or mark(passphrase or "") == _OPENER):
        return "is encrypted with the passphrase of the examples, which is public"
    return None


def warning(why: str, stack: str, key: str) -> str:
    """The warning for plans and rehearsals of such a stack."""
    return (
        f"{key} {why}. Plans and rehearsals work, but up on a real cluster is rejected. Next:"
        f" inferplan new NAME --from {stack}"
    )


def rejection(why: str, stack: str, key: str) -> str:
    """The error of such a stack on a real cluster."""
    return (
        f"The seed {why}. Make your own stack: inferplan new NAME --from {stack}. Or keep this one"
        " and change both secrets: "
        f"pulumi stack change-secrets-provider passphrase, then pulumi config set --secret {key}"
        ' "$(openssl rand -hex 32)"'
    )
