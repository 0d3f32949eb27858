"""Objects that have a hash of their content in their names, so that a change makes a new one."""

import re

from inferplan.kube.paths import mapping
from inferplan.pulumi_engine.reading.events import Step, type_of

_KINDS = re.compile(r"kubernetes:core/v1:(ConfigMap|Secret)")
_DIGEST = re.compile(r"-(?=[0-9a-f]*[0-9])[0-9a-f]{8,}$")


def is_named_by_content(step: Step) -> bool:
    """True if a ConfigMap or Secret of a component of ours, whose content facts state, gets a new
    name because of its content: the old one stays until the new one exists.
    """
    own = type_of(step.parent).startswith("inferplan:")
    if not own or not _KINDS.fullmatch(step.type) or not step.old or not step.new:
        return False
    names = [
        _DIGEST.sub("", str(mapping(inputs, "metadata").get("name")))
        for inputs in (step.old_inputs, step.new_inputs)
        if _DIGEST.search(str(mapping(inputs, "metadata").get("name")))
    ]
    return len(names) == 2 and len(set(names)) == 1 and not step.new.delete_before_replace
