"""Waits until the API server enforces the admission policies that it has."""

import contextlib
import time
from collections.abc import Callable
from typing import Final

from inferplan.audit.manifest import Object
from inferplan.kube.api import Api, ApiError

_PAUSE_SECONDS: Final = 0.15
_VERSION: Final = "admissionregistration.k8s.io/v1"


def await_policies(
    api: Api, put: Callable[[Object], Object], version: str, deadline: float
) -> None:
    """Wait until every policy up to the resource version `version` is enforced, at most until
    `deadline` (`time.monotonic`).

    The API server loads all of them at once, so a policy of the audit's own shows when.
    """
    name = f"inferplan-audit-{version}"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    validation = {"expression": f"object.metadata.name != '{name}'"}
    specs = {
        "ValidatingAdmissionPolicy": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [validation],
        },
        "ValidatingAdmissionPolicyBinding": {"policyName": name, "validationActions": ["Deny"]},
    }
    for kind, spec in specs.items():
        put({"apiVersion": _VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec})
    with contextlib.suppress(ApiError):
        while time.monotonic() < deadline:
            api.request(
                "POST",
                api.resource("v1", "ConfigMap").path("default"),
                body,
                query={"dryRun": "All"},
            )
            time.sleep(_PAUSE_SECONDS)  # nothing reports when a policy is loaded
    for kind in specs:
        api.request("DELETE", api.resource(_VERSION, kind).path("", name))
