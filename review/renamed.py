"""Puts together what is deleted under one name and created under another: an object whose name holds a digest of its content.

To the engine these are a deletion and a creation; to a reader the object is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from review.preview import Step

_DIGEST = re.compile(r"-(?=[0-9a-f]*[0-9])[0-9a-f]{8,}$")


def as_replacements(steps: Iterable[Step]) -> Iterator[Step]:
    """`steps`, each deletion with the one creation that takes its place as a replacement of the new resource."""
    steps = list(steps)
    gone, come = ({}, {})
    for step in steps:
        sides = {"delete": gone, "create": come}.get(step.op)
        if sides is not None and _DIGEST.search(step.name):
            sides.setdefault(_key(step), []).append(step)
    pairs = {gone[key][0].urn: come[key][0] for key in gone if len(gone[key]) == 1 and len(come.get(key, ())) == 1}
    taken = {each.urn for each in pairs.values()}
    for step in steps:
        if step.urn in pairs and step.op == "delete":
            new = pairs[step.urn]
            yield replace(new, op="replace", old=step.old, keys=("metadata.name",))
        elif not (step.urn in taken and step.op == "create"):
            yield step


def _key(step: Step) -> tuple[str, str, str]:
    return step.type, step.parent, _DIGEST.sub("", step.name)
