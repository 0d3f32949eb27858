"""Realizes registrations on a cluster as they come: the part of the monitor that acts.

Every Kubernetes object is applied and awaited before its registration is answered, so that the SDK's own order is the
order of the cluster. A resource that fails makes its dependents skipped and leaves everything else going. What is not
a Kubernetes object gets stand-in outputs and is sent nowhere.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from rehearsal.cluster.api import ApiError
from rehearsal.engine.apply.identity import Holdings, fresh_name
from rehearsal.engine.apply.objects import Manner, Objects, Result
from rehearsal.engine.apply.operators import stub
from rehearsal.engine.apply.prune import PATCH_SUFFIX
from rehearsal.engine.apply.timeouts import delete_limit, ready_limit
from rehearsal.engine.plan.change import compare
from rehearsal.engine.plan.states import ResourceState, state_of
from rehearsal.engine.program.errors import RegistrationRefused
from rehearsal.engine.program.monitor import Realized
from rehearsal.engine.providers import stubs
from rehearsal.engine.providers.kubernetes import is_autonamed, is_object, is_patch, renamed
from rehearsal.engine.wait.errors import Failure, ObjectFailed
from rehearsal.engine.wait.object_events import Applied, Failed, Listener, Ready, Skipped, Target
from rehearsal.engine.wait.refusals import refusal
from rehearsal.engine.wait.waiter import Interrupted, Waiter
from rehearsal.engine.wait.watching import Key
from rehearsal.engine.wire.redaction import without_secrets
from rehearsal.engine.wire.values import Secret, has_unknown, mark_secrets, reveal
from rehearsal.errors import DiskFullError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rehearsal.engine.apply.journal import Entry, Journal
    from rehearsal.engine.wire.recording import Registration

Object = dict[str, Any]

_NOT_AWAITED: Final = {
    "Ingress": "its address was not awaited: no ingress controller runs in a simulated cluster",
    "LoadBalancer": "its address was not awaited: no load balancer is there in a simulated cluster",
}


@dataclass(kw_only=True)
class Applier:
    """Applies to the cluster of `objects`; one instance a run, called from many threads."""

    objects: Objects
    waiter: Waiter
    journal: Journal
    listener: Listener
    digest_key: bytes
    failures: list[Failure] = field(default_factory=list)
    skipped: list[Target] = field(default_factory=list)
    changes: dict[str, list[Target]] = field(default_factory=lambda: defaultdict(list))
    declared: set[Key] = field(default_factory=set)
    interrupted: bool = False
    _bad: dict[str, str] = field(default_factory=dict)
    _states: dict[str, ResourceState] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _holdings: Holdings = field(init=False)

    def __post_init__(self) -> None:
        self._holdings = Holdings(self.journal)

    def register(self, registration: Registration) -> Realized:
        """Apply and await the resource, and answer with its live state."""
        registration, state = self._named(registration)
        with self._lock:
            self._states[registration.urn] = state
        if not registration.custom:
            return Realized()
        target = self._target(registration)
        culprit = self._culprit(registration)
        if culprit:
            return self._skip(target, culprit)
        try:
            if is_object(registration.type, registration.inputs):
                return self._object(registration, state, target)
            if registration.type.startswith("kubernetes:"):
                raise ObjectFailed(f"the rehearsal cannot install a {registration.type}", "declare the objects that it would make")
        except ObjectFailed as failed:
            return self._fail(target, failed, registration)
        except Interrupted:
            self.interrupted = True
            return Realized(failed=True)
        except OSError as error:
            raise DiskFullError(f"the journal of objects cannot be written: {error.strerror}", "make room and run it again") from error
        id_, outputs = stubs.realize(registration)
        return Realized(id=id_, outputs=outputs)

    def read(self, registration: Registration) -> Realized:
        """Look up an object that exists already. Raises RegistrationRefused when it does not."""
        _, module, kind = registration.type.split(":")
        api_version = module.removeprefix("core/")
        namespace, _, name = registration.id.rpartition("/")
        key = Key(kind, namespace, name)
        try:
            live = self.objects.get(self.objects.resource(api_version, kind), key)
        except ObjectFailed as failed:
            raise RegistrationRefused(failed.message, urn=registration.urn) from failed
        if live is None:
            raise RegistrationRefused(f"{kind} {registration.id} does not exist in the simulated cluster", urn=registration.urn)
        return Realized(id=registration.id, outputs=_outputs(live, {}))

    def invoke(self, token: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """A stand-in for the few provider functions that have one."""
        answer = stubs.answer(token, arguments)
        if answer is None:
            raise RegistrationRefused(f"the function {token} needs a provider, and the rehearsal runs none", urn="")
        return answer

    def _object(self, registration: Registration, state: ResourceState, target: Target) -> Realized:
        with self.waiter.watching.standstill.at_work():
            key, result = self._apply(registration, state, target)
        live = self._await(registration, target, result)
        name = f"{key.namespace}/{key.name}" if key.namespace else key.name
        return Realized(id=name, outputs=_outputs(live, registration.inputs))

    def _apply(self, registration: Registration, state: ResourceState, target: Target) -> tuple[Key, Result]:
        inputs = registration.inputs
        resource = self.objects.resource(inputs["apiVersion"], inputs["kind"])
        body = reveal(inputs)
        namespace = (target.namespace or "default") if resource.namespaced else ""  # a kind may have been defined just now
        key = Key(inputs["kind"], namespace, target.name)
        patch = is_patch(registration.type)
        known = Key(key.kind + PATCH_SUFFIX, key.namespace, key.name) if patch else key
        held = self._holdings.current(registration, known)
        earlier = held if held is not None and held.key == known else None
        if not patch and earlier is None:
            objection = self._holdings.objection(known, registration, self.objects.get(resource, key))
            if objection is not None:
                raise objection
        same = earlier is not None and earlier.done and earlier.state.inputs == state.inputs
        self.journal.intend(known, inputs["apiVersion"], state)
        with self._lock:
            self.declared.add(known)
        try:
            if patch:
                result = self.objects.patch(body, key, resource, registration.urn)
            else:
                reason, ignore = self._replacing(earlier, state), registration.options.ignore_changes
                manner = Manner(limit=delete_limit(registration), ignore=ignore, force=self._forces(state))
                result = self.objects.apply(body, key, resource, replace=reason, known=earlier is not None, same=same, manner=manner)
        except (ApiError, ObjectFailed) as error:
            if earlier is None:
                self.journal.gone(known)  # what the resource had before, it still has
            raise (refusal(error) if isinstance(error, ApiError) else error) from error
        self._note(target, known, result, renamed=held is not None and earlier is None)
        return key, result

    def _named(self, registration: Registration) -> tuple[Registration, ResourceState]:
        """The registration under the name that its object has or gets, and its state. Automatic names differ from those of a plan."""
        if not is_object(registration.type, registration.inputs) or not is_autonamed(registration.inputs):
            return registration, state_of(registration, self.digest_key)
        held = self._holdings.current(registration)
        if held is not None and is_autonamed(held.state.inputs):
            adopted = replace(registration, inputs=renamed(registration.inputs, held.key.name))
            state = state_of(adopted, self.digest_key)
            if not self._replacing(held, state):
                return adopted, state
        fresh = replace(registration, inputs=renamed(registration.inputs, fresh_name(registration)))
        return fresh, state_of(fresh, self.digest_key)

    def _await(self, registration: Registration, target: Target, result: Result) -> Object:
        began = time.monotonic()
        live, instead = stub.ready(self.objects.api, self.objects.waiter, target, result.live, ready_limit(registration, result))
        spec = live.get("spec") or {}
        note = _NOT_AWAITED.get(live["kind"], _NOT_AWAITED.get(str(spec.get("type")), "") if live["kind"] == "Service" else "")
        self.listener(Ready(target=target, seconds=time.monotonic() - began, note=instead or note))
        return live

    def _note(self, target: Target, key: Key, result: Result, *, renamed: bool) -> None:
        self.journal.applied(key)
        change = "replaced" if result.change == "created" and renamed else result.change
        with self._lock:
            self.changes[change].append(target)
        self.listener(Applied(target=target, change=change, note=result.note))

    def _replacing(self, entry: Entry | None, state: ResourceState) -> str:
        if entry is None or not entry.done:
            return ""
        with self._lock:
            provider = self._states.get(state.provider)
        change = compare(entry.state, state, provider=provider.inputs if provider else {})
        paths = [each.text for each in change.differences if each.replacing]
        return f"the Kubernetes provider replaces it when {', '.join(paths)} changes" if change.op == "replace" else ""

    def _forces(self, state: ResourceState) -> bool:
        with self._lock:
            provider = self._states.get(state.provider)
        return provider is not None and provider.inputs.get("enablePatchForce") in (True, "true")

    def _culprit(self, registration: Registration) -> str:
        with self._lock:
            for urn in (*registration.dependencies, registration.provider):
                if urn in self._bad:
                    return self._bad[urn]
            if has_unknown(registration.inputs):
                return next(iter(self._bad.values()), "a value that is not known")
        return ""

    def _skip(self, target: Target, culprit: str) -> Realized:
        with self._lock:
            self._bad[target.urn] = culprit
            self.skipped.append(target)
        self.listener(Skipped(target=target, because=culprit))
        return Realized(failed=True)

    def _fail(self, target: Target, failed: ObjectFailed, registration: Registration) -> Realized:
        message = without_secrets(failed.message, registration.inputs)
        with self._lock:
            self._bad[target.urn] = str(target)
            self.failures.append(Failure(target=target, message=message, remedy=failed.remedy))
        self.listener(Failed(target=target, message=message, remedy=failed.remedy))
        return Realized(failed=True)

    def _target(self, registration: Registration) -> Target:
        inputs = registration.inputs
        metadata = inputs.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        kind = str(inputs.get("kind") or registration.type.rpartition(":")[2])
        namespace = str(metadata.get("namespace") or "")
        if is_object(registration.type, inputs):
            try:
                namespaced = self.objects.api.resource(inputs["apiVersion"], kind).namespaced
            except (LookupError, ApiError):
                namespaced = bool(namespace)  # applying it says what is wrong
            namespace = (namespace or "default") if namespaced else ""
        return Target(urn=registration.urn, kind=kind, name=str(metadata.get("name") or registration.name), namespace=namespace)


def _outputs(live: Object, inputs: Mapping[str, Any]) -> Object:
    metadata = {name: value for name, value in live["metadata"].items() if name != "managedFields"}
    outputs = mark_secrets({**live, "metadata": metadata}, dict(inputs))
    if live["kind"] == "Secret":
        outputs |= {name: Secret(reveal(outputs[name])) for name in ("data", "stringData") if name in outputs}
    return outputs
