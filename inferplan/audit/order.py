"""Remedies of what is missing only because the deployer applies it later."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from inferplan.audit.deployed import Change
from inferplan.audit.deployers import Deployer
from inferplan.audit.manifest import Manifest
from inferplan.kube.paths import mapping
from inferplan.rehearsal.wait.object_events import Key
from inferplan.review.findings import Finding

_MISSING: Final = re.compile(
    r"not found|does not exist|no PriorityClass|resource mapping not found"
)


def with_order(change: Change, how: Deployer, findings: Iterable[Finding]) -> Iterator[Finding]:
    """`findings`; the remedy of one that misses an object which NEW declares is its place in the
    order of `how`.
    """
    session, new = change.session, change.new
    declared = new.declared | {session.key(each): each for each in new.skipped}
    by_name = {str(key): manifest for key, manifest in declared.items()}
    rejected = {each.object for each in new.rejections}
    for each in findings:
        subject = by_name.get(each.object)
        is_missing = each.code == "undefined" or _MISSING.search(each.reason)
        later = (
            _named(each, session.key(subject), subject, declared)
            if subject and is_missing and each.weight == "blocked"
            else None
        )
        if subject is None or later is None or str(later) in rejected:
            yield each
        else:
            way = how.earlier_hook if how.is_hook(subject) and how.earlier_hook else how.earlier
            yield replace(each, remedy=way.replace("{}", str(later)))


def _named(
    found: Finding, key: Key, subject: Manifest, declared: dict[Key, Manifest]
) -> Key | None:
    """The object of `declared` that the reason of `found`, on `subject`, calls missing."""
    for other, manifest in declared.items():
        defined = mapping(manifest.spec, "names").get("kind"), manifest.spec.get("group")
        name = rf"\b{other.kind}s?[\w.]*(?: with name)? \"?(?:[\w-]+/)?{re.escape(other.name)}(?![\w.-])"
        if (
            other.kind == "CustomResourceDefinition" and defined == (subject.kind, subject.group)
            if found.code == "undefined"
            else other != key
            and other.namespace in ("", key.namespace)
            and re.search(name, found.reason, re.IGNORECASE)
        ):
            return other
    return None
