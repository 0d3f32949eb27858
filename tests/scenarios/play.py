"""Plays one scenario with any engine and checks the cluster, the next update and the endpoints."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from inferplan.kube.api import Api, ApiError
from inferplan.rehearsal.cluster import Cluster
from tests.scenarios.declarations import announced, must_fail
from tests.scenarios.endpoints import Endpoints
from tests.scenarios.transitions import Config, Transition

_ADMISSION, _DENIAL = "admissionregistration.k8s.io/v1", "no-servers-today"
# What the cluster denies so that an update fails at once, or so that its servers never become
# ready.
DENIED = {"fails": ("apps", "deployments"), "times out": ("", "pods")}
_OURS = "app.kubernetes.io/managed-by=inferplan"
# Kinds that a stack declares; what controllers make of them carries other labels or an owner.
KINDS = (
    ("v1", "Namespace"),
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Service"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("v1", "ServiceAccount"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("networking.k8s.io/v1", "Ingress"),
    ("node.k8s.io/v1", "RuntimeClass"),
    ("policy/v1", "PodDisruptionBudget"),
)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How an update ended; `cut` says whether it was interrupted or killed, `text` is what it said,
    `changes` what it changed.
    """

    ok: bool
    cut: bool = False
    text: str = ""
    changes: tuple[str, ...] = ()


class Engine(Protocol):
    """What a scenario needs of an engine. `at` is the configuration that the stack is known to
    have, None where nobody knows.
    """

    cluster: Cluster
    at: Config | None

    def update(self, config: Config, ending: str = "succeeds") -> Ended:
        """Bring the stack to `config`, and let the update end as told."""
        ...

    def quiet(self, config: Config) -> str:
        """What an update to `config` would still change, "" for nothing."""
        ...

    def owned(self) -> set[tuple[str, str, str]]:
        """Kind, namespace and name of every object that the engine says the stack has; nothing may
        wait to be deleted.
        """
        ...


def play(engine: Engine, transition: Transition, ending: str, following: str) -> None:
    """A, then B that ends as `ending`, then what `following` says; raises AssertionError with what
    a user would complain about.
    """
    at, engine.at = engine.at, None
    if at != transition.before:
        done = engine.update(transition.before)
        assert done.ok, f"A does not come up: {done.text}"
    wanted = {
        "repeat": transition.after,
        "revert": transition.before,
        "elsewhere": transition.elsewhere,
    }[following]
    endpoints = Endpoints(engine.cluster)
    try:
        with denied(engine.cluster, *DENIED.get(ending, ())):
            middle = engine.update(transition.after, ending)
        if ending in DENIED:
            assert not (middle.ok and must_fail(transition, ending)), (
                f"B that {ending} succeeded: {middle.text}"
            )
        else:
            assert middle.ok or middle.cut, f"B is rejected: {middle.text}"
        last = engine.update(wanted)
        assert last.ok, f"after B that {ending}, {following} is refused: {last.text}"
        endpoints.catch_up()
    finally:
        endpoints.close()
    assert engine.quiet(wanted) == "", "the next update would change something"
    live, owned = objects(engine.cluster), engine.owned()
    orphans = {each for each, is_ours in live.items() if is_ours} - owned
    assert not orphans, f"objects that no engine knows stay behind: {orphans}"
    gone = {each for each in owned if each[0] in {kind for _, kind in KINDS}} - live.keys()
    assert not gone, f"the engine believes in objects that are gone: {gone}"
    assert missing_mounts(engine.cluster) == [], "pods mount what does not exist"
    kept = (
        transition.before["models"].keys()
        & transition.after["models"].keys()
        & wanted["models"].keys()
    )
    gaps = {
        name for name in kept if name in endpoints.lowest and endpoints.lowest[name] < 1
    } - transition.stops
    assert not gaps or gaps <= announced(transition, wanted), (
        f"without a ready endpoint for a while: {gaps}; lowest counts {endpoints.lowest}"
    )
    engine.at = wanted


def objects(cluster: Cluster) -> dict[tuple[str, str, str], bool]:
    """Every live object of the kinds that stacks declare, and whether a stack of ours made it."""
    found = {}
    with client(cluster) as api:
        for version, kind in KINDS:
            for each in api.request("GET", api.resource(version, kind).path())["items"]:
                meta = each["metadata"]
                made_by = (meta.get("labels") or {}).get("app.kubernetes.io/managed-by")
                found[kind, meta.get("namespace", ""), meta["name"]] = (
                    made_by == "inferplan" and not meta.get("ownerReferences")
                )
    return found


def missing_mounts(cluster: Cluster) -> list[str]:
    """ConfigMaps, Secrets, claims and accounts that Deployments of ours name and that do not exist;
    a stack's own only.
    """
    with client(cluster) as api:
        listed = {
            kind: {
                (each["metadata"]["namespace"], each["metadata"]["name"])
                for each in api.request("GET", api.resource("v1", kind).path())["items"]
            }
            for kind in ("ConfigMap", "Secret", "PersistentVolumeClaim", "ServiceAccount")
        }
        missing = []
        for each in api.request("GET", "/apis/apps/v1/deployments", query={"labelSelector": _OURS})[
            "items"
        ]:
            inside = each["metadata"]["namespace"]
            for kind, name in _mounted(each["spec"]["template"]["spec"]):
                if (inside, name) not in listed[kind]:
                    missing.append(f"{each['metadata']['name']}: {kind} {name}")
    return missing


def _mounted(pod: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for volume in pod.get("volumes", ()):
        for field, kind, key in (
            ("configMap", "ConfigMap", "name"),
            ("secret", "Secret", "secretName"),
            ("persistentVolumeClaim", "PersistentVolumeClaim", "claimName"),
        ):
            if field in volume and not volume[field].get("optional"):
                yield kind, volume[field][key]
    if pod.get("serviceAccountName"):
        yield "ServiceAccount", pod["serviceAccountName"]


@contextmanager
def denied(cluster: Cluster, *resource: str) -> Iterator[None]:
    """The cluster takes no new and no changed server of a model inside the block, as with an
    admission policy of its owner.

    `resource` is the group and plural of what it denies; none denies nothing.
    """
    if not resource:
        yield
        return
    group, plural = resource
    operations = ["CREATE", "UPDATE"] if group else ["CREATE"]
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["v1"],
            "operations": operations,
            "resources": [plural],
        }
    ]
    only_models = {"matchLabels": {"app.kubernetes.io/component": "model"}}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules, "objectSelector": only_models},
        "validations": [
            {"expression": "has(object.metadata.deletionTimestamp)", "message": "no servers today"}
        ],
    }
    bound = {"policyName": _DENIAL, "validationActions": ["Deny"]}
    with client(cluster) as api:
        for kind, body in (
            ("ValidatingAdmissionPolicy", spec),
            ("ValidatingAdmissionPolicyBinding", bound),
        ):
            about = {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": _DENIAL}}
            api.request("POST", api.resource(_ADMISSION, kind).path(), {**about, "spec": body})
        _await_denial(api, plural, denied=True)
        try:
            yield
        finally:
            for kind in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
                api.request("DELETE", api.resource(_ADMISSION, kind).path("", _DENIAL))
            _await_denial(api, plural, denied=False)
            _retry_now(api)


def _retry_now(api: Api) -> None:
    """Touch every ReplicaSet: its controller waits longer after each denied pod, up to a quarter of
    an hour.
    """
    for each in api.request("GET", "/apis/apps/v1/replicasets")["items"]:
        meta = each["metadata"]
        path = f"/apis/apps/v1/namespaces/{meta['namespace']}/replicasets/{meta['name']}"
        for _ in range(10):
            meta["annotations"] = {**(meta.get("annotations") or {}), "scenarios.test/retry": "now"}
            try:
                api.request("PUT", path, each)
                break
            except ApiError as error:
                if error.reason != "Conflict":
                    raise
                each = api.request("GET", path)  # noqa: PLW2901 - its controller wrote it in between
                meta = each["metadata"]
        else:
            raise AssertionError(f"ReplicaSet {meta['name']} changes all the time")


def _await_denial(api: Api, plural: str, *, denied: bool) -> None:
    """Return once the API server has taken up that it denies servers, or that it no longer does."""
    labels = {"app.kubernetes.io/component": "model"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "probe", "image": "probe:1"}]},
    }
    about = {"name": "probe", "namespace": "default", "labels": labels}
    if plural == "pods":
        path, probe = (
            "/api/v1/namespaces/default/pods",
            {**template, "apiVersion": "v1", "kind": "Pod", "metadata": about},
        )
    else:
        path, spec = (
            "/apis/apps/v1/namespaces/default/deployments",
            {"selector": {"matchLabels": labels}, "template": template},
        )
        probe = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": spec}
    for _ in range(300):
        try:
            api.request("POST", path, probe, query={"dryRun": "All"})
            answer = False
        except ApiError as error:
            answer = "no servers today" in error.message
        if answer is denied:
            return
        time.sleep(0.2)  # the API server tells nobody when it has read its policies
    raise AssertionError("the API server did not take up the policy")


@contextmanager
def client(cluster: Cluster) -> Iterator[Api]:
    """A client of the cluster that is closed behind the block."""
    api = cluster.api()
    try:
        yield api
    finally:
        api.close()
