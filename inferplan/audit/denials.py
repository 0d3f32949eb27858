"""Objects that the cluster holds, and that a changed admission policy would reject if they were
applied again.
"""

import re
from collections.abc import Iterator
from typing import Final

from inferplan.audit.blame import named_field
from inferplan.audit.deployed import Change
from inferplan.audit.findings import finding
from inferplan.audit.manifest import Manifest
from inferplan.kube.api import ApiError
from inferplan.kube.paths import mapping
from inferplan.rehearsal.wait.object_events import Key
from inferplan.review.findings import Finding

_POLICY: Final = "ValidatingAdmissionPolicy"
_BINDING: Final = "ValidatingAdmissionPolicyBinding"
_DENIED: Final = re.compile(rf"{_POLICY} '([^']+)' with binding '([^']+)' denied")


def denied_updates(change: Change) -> Iterator[Finding]:
    """Findings on policies, bindings and parameters: what they deny runs on, and no later change
    of it is possible.
    """
    bindings = {key.name: manifest for key, manifest, _ in change.each(_BINDING)}
    concerned = {
        *(key for key, _, _ in change.each(_POLICY, _BINDING)),
        *(key for each in bindings.values() if (key := _parameters(each))),
    }
    if all(map(change.same, concerned & change.new.manifests.keys())):
        return
    for key, manifest, _ in change.each():
        try:
            change.session.apply(manifest, change.new.manager, dry_run=True)
        except ApiError as error:
            denied = _DENIED.search(error.message)
            if denied is None:
                continue
            policy, binding = Key(_POLICY, "", denied[1]), Key(_BINDING, "", denied[2])
            parameters = _parameters(bindings[denied[2]]) if denied[2] in bindings else None
            for other in (policy, binding, parameters):
                if other in change.new.manifests and not change.same(other):
                    yield _denial(change, other, f"{key} cannot be changed: {error.message}")


def _denial(change: Change, other: Key, reason: str) -> Finding:
    manifest, before = change.new.manifests[other], change.old.manifests.get(other)
    field = named_field(reason, manifest, before)
    if other.kind == _BINDING:
        field = "spec.paramRef.name" if "no params found" in reason else "spec.policyName"
    return finding("restricts", other, field, reason, manifest)


def _parameters(binding: Manifest) -> Key | None:
    """The ConfigMap with the parameters of `binding`; None for other kinds and selectors."""
    named = mapping(binding.spec, "paramRef")
    return (
        Key("ConfigMap", named["namespace"], named["name"])
        if {*named} >= {"name", "namespace"}
        else None
    )
