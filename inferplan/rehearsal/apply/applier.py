"""Apply registrations to a cluster as they arrive: each object is awaited, and dependents of a
failed one are skipped.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from inferplan.errors import ObjectFailed, RegistrationRefused
from inferplan.kube.api import ApiError
from inferplan.kube.names import PRETEND
from inferplan.kube.objects import annotation
from inferplan.pulumi_engine.plan.change import compare
from inferplan.pulumi_engine.plan.states import ResourceState, state_of
from inferplan.pulumi_engine.program.monitor import Realized
from inferplan.pulumi_engine.providers import aws
from inferplan.pulumi_engine.providers.kubernetes import (
    fresh_name,
    is_autonamed,
    is_object,
    is_on,
    metadata_of,
    renamed,
)
from inferplan.pulumi_engine.recording import Registration
from inferplan.pulumi_engine.values import (
    Secret,
    has_secret,
    has_unknown,
    mark_secrets,
    reveal,
    with_unknown_from,
    without_secrets,
)
from inferplan.rehearsal.apply import claims
from inferplan.rehearsal.apply.fields import Object
from inferplan.rehearsal.apply.inventory import Inventory, is_applied
from inferplan.rehearsal.apply.journal import ADOPTED, Entry, Journal
from inferplan.rehearsal.apply.objects import Manner, Objects, Result
from inferplan.rehearsal.apply.operators import reconcile
from inferplan.rehearsal.cluster.volumes import make_directory
from inferplan.rehearsal.wait.object_events import Applied, Failed, Key, Ready, Skipped, Target
from inferplan.rehearsal.wait.readiness import TIMEOUT_SECONDS
from inferplan.rehearsal.wait.reasons import rejection
from inferplan.rehearsal.wait.timeouts import limit_of
from inferplan.rehearsal.wait.waiter import Interrupted

_NOT_AWAITED: Final = {
    "Ingress": "did not wait for its address: a simulated cluster has no ingress controller",
    "LoadBalancer": "did not wait for its address: a simulated cluster has no load balancer",
}


@dataclass(kw_only=True)
class Applier:
    """The realizer of one run. Many threads call it."""

    objects: Objects
    journal: Journal
    digest_key: bytes
    volumes: Path
    """The folder of volumes of a real node."""
    secrets_known: bool = True
    """False if the program got placeholders: secrets in the cluster stay as they are."""
    cordons: Callable[[Mapping[str, Any]], bool] = lambda _node: False
    """True for a fake node on which no pod starts, because a real node stands for it."""
    failures: list[Failed] = field(default_factory=list)
    skipped: list[Target] = field(default_factory=list)
    changes: dict[str, list[Target]] = field(default_factory=lambda: defaultdict(list))
    declared: set[Key] = field(default_factory=set)
    _blocked: dict[str, str] = field(default_factory=dict)
    _states: dict[str, ResourceState] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _inventory: Inventory = field(init=False)

    def __post_init__(self) -> None:
        self._inventory = Inventory(self.journal)

    def register(self, registration: Registration) -> Realized:
        registration, state = self._named(registration)
        with self._lock:
            self._states[registration.urn] = state
        if not registration.custom:
            return Realized()
        target = self._target(registration)
        if cause := self._cause(registration):
            return self._skip(target, cause)
        try:
            if is_object(registration.type, registration.inputs):
                return self._object(registration, state, target)
            if registration.type.startswith("kubernetes:"):
                raise ObjectFailed(
                    f"the rehearsal cannot install a {registration.type}",
                    "declare its objects instead",
                )
        except ObjectFailed as failed:
            return self._fail(target, failed, registration)
        except Interrupted:
            return Realized(failed=True)
        id_, outputs = aws.realize(registration)
        return Realized(id=id_, outputs=outputs)

    def read(self, registration: Registration) -> Realized:
        """Look up an existing object. Raises RegistrationRefused."""
        _, module, kind = registration.type.split(":")
        api_version = module.removeprefix("core/")
        namespace, _, name = registration.id.rpartition("/")
        key = Key(kind, namespace, name)
        try:
            live = self.objects.get(self.objects.resource(api_version, kind), key)
        except ObjectFailed as failed:
            raise RegistrationRefused(failed.message) from failed
        if live is None:
            raise RegistrationRefused(
                f"{kind} {registration.id} does not exist in the simulated cluster"
            )
        return Realized(id=registration.id, outputs=_outputs(live, {}))

    def invoke(self, token: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = aws.answer(token, arguments)
        if answer is None:
            raise RegistrationRefused(
                f"the function {token} needs a provider, and a rehearsal runs none"
            )
        return answer

    def _object(self, registration: Registration, state: ResourceState, target: Target) -> Realized:
        if (existing := self._existing(registration, target)) is not None:
            return existing
        with self.objects.waiter.watching.idle.busy():
            key, result = self._apply(registration, state, target)
        live = self._await(registration, target, result)
        name = f"{key.namespace}/{key.name}" if key.namespace else key.name
        return Realized(id=name, outputs=_outputs(live, registration.inputs))

    def _existing(self, registration: Registration, target: Target) -> Realized | None:
        """The object that a rehearsal would add, if another program created it: it is used as it
        is, and never changed or deleted.
        """
        if not registration.name.startswith(PRETEND):
            return None
        key = Key(target.kind, target.namespace, target.name)
        live = self.objects.get(
            self.objects.resource(registration.inputs["apiVersion"], target.kind), key
        )
        if live is None or is_applied(live):
            return None
        return Realized(
            id=f"{key.namespace}/{key.name}".lstrip("/"),
            outputs=_outputs(live, registration.inputs),
        )

    def _apply(
        self, registration: Registration, state: ResourceState, target: Target
    ) -> tuple[Key, Result]:
        inputs = registration.inputs
        resource = self.objects.resource(inputs["apiVersion"], inputs["kind"])
        body = reveal(inputs)
        if inputs["kind"] == "Node" and self.cordons(body):
            body = {**body, "spec": {**body.get("spec", {}), "unschedulable": True}}
        elif inputs["kind"] == "PersistentVolume":
            make_directory(body, self.volumes)
        namespace = (
            (target.namespace or "default") if resource.namespaced else ""
        )  # the kind may be new
        key = Key(inputs["kind"], namespace, target.name)
        current = self._inventory.current(registration, key)
        earlier = current if current is not None and current.key == key else None
        if earlier is None and not registration.name.startswith(PRETEND):
            conflict = self._inventory.conflict(key, registration, self.objects.get(resource, key))
            if conflict is not None:
                raise conflict
        with self._lock:
            self.declared.add(key)
        if (
            earlier is not None
            and not self.secrets_known
            and (live := self.objects.get(resource, key)) is not None
        ):
            if key.kind == "Secret" and has_secret(inputs):
                self._note(
                    target, key, kept := Result(live=live, change="unchanged"), renamed=False
                )
                return key, kept
            inputs = mark_secrets(with_unknown_from(live, inputs, secrets=True), inputs)
            body, state = (
                reveal(inputs),
                state_of(replace(registration, inputs=inputs), self.digest_key),
            )
        intend = partial(self.journal.intend, key, inputs["apiVersion"], state)
        manner = Manner(
            intend=intend,
            limit=limit_of(registration.options.custom_timeouts.delete),
            replace=self._replacing(earlier, state),
            exists=earlier is not None,
            same=earlier is not None and earlier.done and earlier.state.inputs == state.inputs,
            ignore=registration.options.ignore_changes,
            force=is_on(self._provider(state), "enablePatchForce"),
        )
        try:
            result = self.objects.apply(body, key, resource, manner)
        except (ApiError, ObjectFailed) as error:
            if earlier is None:
                self.journal.gone(key)  # the resource still has its previous object
            raise (rejection(error) if isinstance(error, ApiError) else error) from error
        if earlier is not None and result.change == "unchanged" and earlier.state != state:
            intend()  # only the journal changes, such as the dependencies of the resource
        self._note(target, key, result, renamed=current is not None and earlier is None)
        return key, result

    def _named(self, registration: Registration) -> tuple[Registration, ResourceState]:
        """The registration with the name of its object, and its state. Automatic names differ from
        those of a plan.
        """
        if not is_object(registration.type, registration.inputs) or not is_autonamed(
            registration.inputs
        ):
            return registration, state_of(registration, self.digest_key)
        current = self._inventory.current(registration)
        if current is not None and is_autonamed(current.state.inputs):
            same_name = replace(registration, inputs=renamed(registration.inputs, current.key.name))
            state = state_of(same_name, self.digest_key)
            if not self._replacing(current, state):
                return same_name, state
        fresh = replace(
            registration, inputs=renamed(registration.inputs, fresh_name(registration.name))
        )
        return fresh, state_of(fresh, self.digest_key)

    def _await(self, registration: Registration, target: Target, result: Result) -> Object:
        began = time.monotonic()
        timeouts, is_new = (
            registration.options.custom_timeouts,
            result.change in ("created", "replaced"),
        )
        limit = limit_of(
            timeouts.create if is_new else timeouts.update, annotation(result.live, TIMEOUT_SECONDS)
        )
        volume = claims.provision(self.objects.api, result.live, self.volumes)
        live, stub = reconcile.ready(
            self.objects.waiter.api, self.objects.waiter, target, result.live, limit
        )
        spec = live.get("spec") or {}
        note = _NOT_AWAITED.get(
            live["kind"],
            _NOT_AWAITED.get(str(spec.get("type")), "") if live["kind"] == "Service" else "",
        )
        self.objects.waiter.listener(
            Ready(target=target, seconds=time.monotonic() - began, note=volume or stub or note)
        )
        return live

    def _note(self, target: Target, key: Key, result: Result, *, renamed: bool) -> None:
        self.journal.applied(key)
        change = "replaced" if result.change == "created" and renamed else result.change
        with self._lock:
            self.changes[change].append(target)
        self.objects.waiter.listener(Applied(target=target, change=change, note=result.note))

    def _provider(self, state: ResourceState) -> Mapping[str, Any]:
        with self._lock:
            provider = self._states.get(state.provider)
        return provider.inputs if provider else {}

    def _replacing(self, entry: Entry | None, state: ResourceState) -> str:
        if (
            entry is None
            or not entry.done
            or entry.urn == ADOPTED
            or entry.state.inputs == state.inputs
        ):
            return ""
        change = compare(entry.state, state, provider=self._provider(state))
        paths = [each.text for each in change.differences if each.replacing]
        return (
            f"the Kubernetes provider replaces it when {', '.join(paths)} changes"
            if change.op == "replace"
            else ""
        )

    def _cause(self, registration: Registration) -> str:
        with self._lock:
            for urn in (*registration.dependencies, registration.provider):
                if urn in self._blocked:
                    return self._blocked[urn]
            if has_unknown(registration.inputs):
                return next(iter(self._blocked.values()), "an unknown value")
        return ""

    def _skip(self, target: Target, cause: str) -> Realized:
        with self._lock:
            self._blocked[target.urn] = cause
            self.skipped.append(target)
        self.objects.waiter.listener(Skipped(target=target, because=cause))
        return Realized(failed=True)

    def _fail(self, target: Target, failed: ObjectFailed, registration: Registration) -> Realized:
        message = without_secrets(failed.message, registration.inputs)
        event = Failed(target=target, message=message, remedy=failed.remedy)
        with self._lock:
            self._blocked[target.urn] = str(target)
            self.failures.append(event)
        self.objects.waiter.listener(event)
        return Realized(failed=True)

    def _target(self, registration: Registration) -> Target:
        inputs = registration.inputs
        metadata = metadata_of(inputs)
        kind = str(inputs.get("kind") or registration.type.rpartition(":")[2])
        # Unknown while the namespace itself is not applied.
        written = metadata.get("namespace")
        namespace = written if isinstance(written, str) else ""
        if is_object(registration.type, inputs):
            try:
                namespaced = self.objects.waiter.api.resource(inputs["apiVersion"], kind).namespaced
            except (LookupError, ApiError):
                namespaced = bool(namespace)  # applying it reports the error
            namespace = (namespace or ("" if written else "default")) if namespaced else ""
        return Target(
            kind, namespace, str(metadata.get("name") or registration.name), registration.urn
        )


def _outputs(live: Object, inputs: Mapping[str, Any]) -> Object:
    metadata = {name: value for name, value in live["metadata"].items() if name != "managedFields"}
    outputs = mark_secrets({**live, "metadata": metadata}, dict(inputs))
    if live["kind"] == "Secret":
        outputs |= {
            name: Secret(reveal(outputs[name]))
            for name in ("data", "stringData")
            if name in outputs
        }
    return outputs
