"""Finds values of the examples that no real stack can have: reserved names, networks and ids, in a stack that is not an example itself.

`inferplan new` copies them, and every deployment to a real cluster would fail on them, some after the cluster exists.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stackfile.errors import InvalidStack, LocatedError, shown
from stackfile.public_keys import EXAMPLES, mark
from stackfile.reader import user_path
from stackfile.yaml_tree import MapNode, ScalarNode, walk

if TYPE_CHECKING:
    from stackfile.reader import StackFile
    from stackfile.stack import StackSettings

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
