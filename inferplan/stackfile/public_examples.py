"""Finds parts of this project's public examples in other stacks: keys that anyone can derive, and reserved names, networks and ids.

`inferplan new` copies names and ids, and every deployment to a real cluster would fail on them, some after the cluster exists.
Examples are known by hashes that cannot be reversed. The caller decides whether their keys matter.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from inferplan.stackfile.errors import InvalidStack, LocatedError, shown
from inferplan.stackfile.reader import user_path
from inferplan.stackfile.yaml_tree import MapNode, ScalarNode, walk

if TYPE_CHECKING:
    from inferplan.stackfile.reader import StackFile
    from inferplan.stackfile.stack import StackSettings

# The mark of the passphrase of the examples.
_OPENER = "41cddffc75a4911d"
# The marks of the seeds and the encryptionsalts of every example in stacks/ and docs/; a test holds this list and the examples together.
EXAMPLES = frozenset(
    (
        *("0e24f2b26821c164", "25203ad6676b768f", "2f7665b8fde3f61c", "4112fe1575dc0aea", "75af087cf01938ba"),
        *("77a972d3af77bd04", "a650e1db842fe2da", "e1077b18729322bd", "ead96c9d2c69f8be", "f32bb81303ef800a"),
    )
)

_ACCOUNT = "111122223333"
_ID = r"0123456789abcdef[01]"
_SCHEME = r"[A-Za-z0-9+.-]+://([^/@]*@)?|[^/@\s]+@"
# Only a whole name counts: `example` alone may be a directory, a tag or a repository.
_HOST = r"\.?([\w*-]+\.)*([\w*-]+\.example|example\.(com|net|org))"
# What the whole value looks like, what it is, and what to write instead. 111122223333 is the account of AWS's documentation, domains
# below `example` are reserved by RFC 2606, these networks by RFC 5737. The first row that matches counts.
_RESERVED = tuple(
    (re.compile(pattern), cause, remedy)
    for pattern, cause, remedy in (
        (rf"arn:aws:iam::{_ACCOUNT}:.+", "is in AWS's example account", "Write a role or user of yours (aws sts get-caller-identity)"),
        (rf"arn:aws:acm:.*:{_ACCOUNT}:.+", "is in AWS's example account", "Write a certificate of yours (aws acm list-certificates)"),
        (rf"arn:aws:kms:.*:{_ACCOUNT}:.+", "is in AWS's example account", "Write a key of yours (aws kms list-keys)"),
        (rf"(arn:.*:)?{_ACCOUNT}(:.*)?", "is AWS's example account", "Write your account (aws sts get-caller-identity)"),
        (rf"cr-{_ID}", "is an example", "Write the id of your reservation (aws ec2 describe-capacity-reservations)"),
        (rf"subnet-{_ID}", "is an example", "Write the id of your subnet (aws ec2 describe-subnets)"),
        (rf"ami-{_ID}", "is an example", "Write the id of your image (aws ec2 describe-images --owners self)"),
        (rf"(fs|fsap)-{_ID}", "is an example", "Write the id of yours (aws efs describe-file-systems, describe-access-points)"),
        (
            r"(192\.0\.2|198\.51\.100|203\.0\.113)\.[0-9]+(/[0-9]+)?",
            "is a network for documentation",
            "Write the network of your users and runners",
        ),
        (rf"(.*[,\s=])?({_SCHEME})?{_HOST}([:/,\s].*)?", "is a domain for documentation", "Write a name of a domain that you own"),
        (r"acme-((inference-.+-)?weights|access-logs)", "is an example", "Write a bucket of yours; names are unique worldwide"),
    )
)


def placeholders(file: StackFile, settings: StackSettings) -> list[LocatedError]:
    """Return an error for each value of an example in `file`; none in the examples themselves, and none on the simulated cluster."""
    is_example = file.encryption_salt is not None and mark(file.encryption_salt) in EXAMPLES
    if is_example or settings.cluster.is_simulated or not isinstance(file.root, MapNode) or "config" not in file.root.items:
        return []
    errors = []
    for node, path, _ in walk(file.root.items["config"], ("config",), file.root.position):
        if isinstance(node, ScalarNode):
            row = next(((cause, remedy) for pattern, cause, remedy in _RESERVED if pattern.fullmatch(node.text)), None)
            if row is not None:
                errors.append(LocatedError(user_path(path), f"{shown(node.text)} {row[0]}. {row[1]}.", node.position))
    return errors


def lines(file: StackFile, settings: StackSettings) -> tuple[str, ...]:
    """Return the errors as lines of text."""
    return InvalidStack(file.shown_path, placeholders(file, settings)).lines


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
