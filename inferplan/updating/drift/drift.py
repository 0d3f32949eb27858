"""The differences between the live objects of a stack and what its program registers, by a
server-side dry run of each declaration.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from inferplan.kube.differences import Difference
from inferplan.kube.field_owners import (
    NODE_TAINTS,
    Owner,
    Writer,
    additions,
    entries,
    is_queued,
    is_taken_over,
    manager_of,
    owner_of,
    undeclared,
    writers,
)
from inferplan.kube.names import SECRET_DIGESTS
from inferplan.kube.paths import MISSING, Path, mapping, text_of, value_at, with_values_of
from inferplan.pulumi_engine.recording import PROVIDER_PREFIX, Recording, Registration
from inferplan.pulumi_engine.values import reveal, with_unknown_from
from inferplan.updating.drift.appeared import appeared
from inferplan.updating.drift.cluster import ComparedCluster, DryRunRejected
from inferplan.updating.drift.compare import compare, declared_differences, declared_only
from inferplan.updating.drift.finding import Drift, Finding, action_of, setting_of
from inferplan.updating.drift.visible import variable_at, visible
from inferplan.workspace.declared import registered_objects
from inferplan.workspace.live import ObjectKey, scalerless

_FORBIDDEN: Final = 403
_MANAGER: Final = "inferplan-rehearsal"
"""Our field manager where the object records none of ours."""


@dataclass(kw_only=True)
class _Comparison:
    cluster: ComparedCluster
    secrets_known: bool
    scalerless: Callable[[ObjectKey], tuple[str, ...]]
    forbidden: Counter[str] = field(default_factory=Counter)
    rejected: dict[tuple[int, str], list[ObjectKey]] = field(default_factory=dict)

    def findings(self, registration: Registration, key: ObjectKey) -> Iterator[Finding]:
        findings = list(self._findings(registration, key))
        # A rehearsal always removes what kubectl added; the provider does with the next change of
        # the object.
        updates = self.cluster.simulated or any(
            each.action not in ("leave", "rescale") for each in findings
        )
        for each in findings:
            taken = (
                updates
                and each.action == "leave"
                and each.writer is not None
                and is_taken_over(each.writer)
            )
            yield replace(each, action="remove") if taken else each

    def _findings(self, registration: Registration, key: ObjectKey) -> Iterator[Finding]:
        live = self.cluster.live.find(key)
        inputs = registration.inputs
        if live is None:
            if not (
                key.kind == "Job"
                and mapping(inputs, "spec").get("ttlSecondsAfterFinished") is not None
            ):
                yield Finding(key=key, action="create")
            return
        live = {"apiVersion": key.api_version, "kind": key.kind, **live}
        body = reveal(with_unknown_from(live, inputs, secrets=not self.secrets_known))
        body["metadata"] = {
            **body.get("metadata", {}),
            "name": key.name,
            **({"namespace": key.namespace} if key.namespace else {}),
        }
        unscaled = self.scalerless(key)
        body = with_values_of(
            live,
            body,
            [each for each in registration.options.ignore_changes if each not in unscaled],
        )
        labels = {
            **mapping(body, "metadata", "labels"),
            **mapping(body, "spec", "template", "metadata", "labels"),
        }
        queued = is_queued(body)

        def finding(path: Path, **fields: Any) -> Finding:
            return Finding(
                key=key,
                inputs=inputs,
                path=path,
                setting=setting_of(labels, path),
                variable=variable_at(live, path),
                **fields,
            )

        added = {path: (writer, live_value) for writer, path, live_value in additions(live, body)}
        for path, live_value, wanted in self._differences(key, body, live):
            ours = owner_of(key.kind, path, queued=queued) is Owner.STACK and path not in added
            if ours and (self.secrets_known or path[-1] not in SECRET_DIGESTS):
                writer = _writer(live, path, live_value)
                action = (
                    "rescale"
                    if text_of(path) in unscaled
                    else action_of(writer, live_value, wanted)
                )
                yield finding(path=path, live=live_value, ours=wanted, writer=writer, action=action)
        for path, (writer, live_value) in added.items():
            yield finding(path=path, live=live_value, writer=writer, action="leave")

    def _differences(
        self, key: ObjectKey, body: dict[str, Any], live: dict[str, Any]
    ) -> Iterator[Difference]:
        if _is_as_declared(live, body):
            return
        applied = self._applied(key, body, live)
        if applied is None:
            # Without the server's answer, only declared fields can be compared.
            declared = {
                name: value for name, value in body.items() if name not in ("stringData", "status")
            }
            yield from declared_differences(key.kind, live, declared)
            return
        for path, live_value, wanted in compare(live, applied):
            if key.kind == "Node" and path[:2] == ("spec", "taints"):
                (
                    live_value,  # noqa: PLW2901 - the same difference, without taints of controllers
                    wanted,  # noqa: PLW2901 - the same difference, without taints of controllers
                ) = (_our_taints(value_at(each, path[:2])) for each in (live, applied))
                if live_value == wanted:
                    continue
            yield path, live_value, wanted

    def _applied(
        self, key: ObjectKey, body: Mapping[str, Any], live: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """The object as an update would leave it; None if the server gives no answer."""
        if self.cluster.dry_run is None:
            return None
        if key.kind in self.forbidden:
            self.forbidden[key.kind] += 1
            return None
        manager = next(
            (each.manager for each, _ in entries(live) if manager_of(each.manager) is Owner.STACK),
            _MANAGER,
        )
        try:
            return self.cluster.dry_run(self.cluster.live.path(key), body, manager)
        except DryRunRejected as rejection:
            if rejection.status == _FORBIDDEN:
                self.forbidden[key.kind] += 1
            else:
                self.rejected.setdefault((rejection.status, _message(rejection)), []).append(key)
            return None

    def failures(self) -> Iterator[str]:
        for (status, message), keys in self.rejected.items():
            more = f" and {len(keys) - 1} more objects" if len(keys) > 1 else ""
            yield (
                f"{keys[0]}{more}: only declared fields were compared, because the API server"
                f" rejected the dry run (HTTP {status}: {message})"
            )

    def uncovered(self) -> Iterator[str]:
        if self.forbidden:
            kinds = ", ".join(sorted(self.forbidden))
            yield (
                f"{self.forbidden.total()} objects ({kinds}): your account may not patch them, so"
                " only declared fields were compared. A dry run needs the right to patch and"
                " changes nothing"
            )
        if not self.secrets_known:
            yield "values of secrets: they could not be decrypted. Set PULUMI_CONFIG_PASSPHRASE"


def drift(
    recording: Recording, namespace: str, cluster: ComparedCluster, *, secrets_known: bool
) -> Drift:
    """Compare what `recording` registers with `cluster`; it changes nothing. `namespace` replaces
    names that only a cluster knows.
    """
    objects = list(registered_objects(recording, namespace))
    gone = scalerless([(key, registration.inputs) for registration, key in objects], cluster.live)
    comparison = _Comparison(cluster=cluster, secrets_known=secrets_known, scalerless=gone)
    findings = [
        finding
        for registration, key in objects
        for finding in comparison.findings(registration, key)
    ]
    findings += appeared(cluster.live, namespace, [key for _, key in objects])
    return Drift(
        stack=recording.stack,
        findings=tuple(findings),
        compared=len(objects),
        uncovered=(*comparison.uncovered(), *_clouds(recording)),
        failures=tuple(comparison.failures()),
    )


def _message(rejection: DryRunRejected) -> str:
    """The server's message without rejected values, which may be whole pods with their variables."""
    return (
        visible(
            re.split(r": [A-Z]\w* value:", str(rejection).strip())[0][:200].rstrip("."),
            ("message",),
        )
        or "no message"
    )


def _clouds(recording: Recording) -> Iterator[str]:
    others = Counter(
        each.type.partition(":")[0]
        for each in recording
        if each.custom
        and not each.read
        and not each.type.startswith(("kubernetes:", PROVIDER_PREFIX))
    )
    for provider, count in sorted(others.items()):
        name = {"aws": "AWS"}.get(provider, provider)
        yield (
            f"{count} {name} resources. Compare them with: pulumi refresh --preview-only --stack"
            f" {recording.stack}"
        )


def _writer(live: Mapping[str, Any], path: tuple[str | int, ...], live_value: Any) -> Writer | None:
    """The writer of the value at `path`, people before the stack; None for a value that was
    removed.
    """
    if live_value is MISSING:
        return None
    matches = writers(live, path)
    return next(
        (each for each in matches if manager_of(each.manager, each.subresource) is not Owner.STACK),
        next(iter(matches), None),
    )


def _is_as_declared(live: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """True if no dry run is needed: declared fields have their values, we applied nothing else, and
    no person wrote anything.
    """
    for writer, fields in entries(live):
        owner = manager_of(writer.manager, writer.subresource)
        applied = owner is Owner.STACK and writer.operation == "Apply"
        if owner is Owner.PEOPLE or (applied and next(undeclared(live, fields, body), None)):
            return False
    return not any(compare(declared_only(live, body), body))


def _our_taints(taints: Any) -> Any:
    return (
        [each for each in taints if not each["key"].startswith(NODE_TAINTS)]
        if isinstance(taints, list)
        else []
    )
