"""Deploys one side of an audit the way a deployer would: wave by wave, with hooks, pruning and its
reaction to rejections.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from inferplan.audit.deployed import Deployed
from inferplan.audit.deployers import Deployer, Wave
from inferplan.audit.findings import finding
from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.merge import unkept
from inferplan.audit.rejections import rejections
from inferplan.audit.removals import dropped
from inferplan.audit.session import Session
from inferplan.audit.templates import references, select, templates
from inferplan.errors import ClusterError, ObjectFailed
from inferplan.kube.api import ApiError
from inferplan.kube.field_owners import entries
from inferplan.kube.paths import MISSING, mapping, text_of
from inferplan.rehearsal.cluster.definitions import await_served
from inferplan.rehearsal.wait.object_events import Key

_RELEASE: Final = "meta.helm.sh/release-name"
_NAMESPACE: Final = "meta.helm.sh/release-namespace"
_DEFINITION: Final = "CustomResourceDefinition"
_CLAIMS: Final = "spec.volumes.*.persistentVolumeClaim.claimName"


@dataclass(kw_only=True)
class Rollout:
    """One deployment of `manifests` over `before`, which is empty unless the deployer `upgrades`
    it.
    """

    session: Session
    deployer: Deployer
    manifests: tuple[Manifest, ...]
    limit: float
    before: Deployed = field(default_factory=Deployed)
    upgrades: bool = False
    adopts: bool = False
    """True for a state that runs already, whose objects are the deployer's own."""
    result: Deployed = field(default_factory=Deployed)

    def run(self) -> Deployed:
        if self.adopts:
            self.deployer = self.deployer.adopting()
        result, waves = self.result, self.deployer.waves(self.manifests, upgrade=self.upgrades)
        result.manager = self.deployer.manager
        if not self._held_back([each for wave in waves for each in wave.manifests]):
            for index, wave in enumerate(waves):
                later = [each for following in waves[index + 1 :] for each in following.manifests]
                if not self._wave(wave, later) and not self.adopts:
                    result.skipped += later
                    break
            self._prune()
        result.unready = self.session.settle(result.versioned, self.limit) | result.surplus
        daemons = [key for key in result.manifests if key.kind == "DaemonSet"]
        result.pods = {
            key
            for key in daemons
            if mapping(self.session.watching.get(key), "status").get("desiredNumberScheduled")
        }
        return result

    def _held_back(self, everything: list[Manifest]) -> bool:
        """True if the deployer's own check rejects something before anything is applied: the old
        objects stay.
        """
        defined = {each.spec.get("group") for each in self.manifests if each.kind == _DEFINITION}
        spaces = {
            key.name
            for key in map(self.session.key, self.manifests)
            if key.kind == "Namespace" and not self.session.get(key, "v1")
        }
        # What is created in the same run cannot be checked before it exists.
        for each in (each for each in everything if each.group not in defined):
            if (
                self.deployer.checks_first == "objects"
                and each.namespace not in spaces
                and not self.deployer.is_hook(each)
            ):
                self._apply(each, dry_run=True)
            elif (
                self.deployer.checks_first == "kinds"
                and self._is_served(each)
                and self.deployer.name == "helm"
            ):
                self._check_owner(each)
        if rejected := {each.object for each in self.result.rejections}:
            self.result.skipped = [
                each for each in everything if str(self.session.key(each)) not in rejected
            ]
            self.result.manifests |= self.before.manifests
        return bool(rejected)

    def _is_served(self, manifest: Manifest) -> bool:
        """True if the kind of `manifest` is served; it is rejected otherwise."""
        try:
            self.session.resource(manifest)
        except (ObjectFailed, ClusterError) as error:
            self.result.rejections += rejections(
                self.session, manifest, error, self.before.manifests
            )
            return False
        return True

    def _check_owner(self, manifest: Manifest) -> None:
        """Reject `manifest` if it is new, exists and is not of a release, as Helm does."""
        key = self.session.key(manifest)
        known = self.adopts or self.deployer.is_hook(manifest) or key in self.before.declared
        live = None if known else self.session.get(key, manifest.api_version)
        # Objects that the audit assumed may belong to the release.
        assumed = any(
            each.manager.startswith("inferplan-") for each, _ in entries(live or {"metadata": {}})
        )
        notes, spaces = (
            mapping(live, "metadata", "annotations"),
            {self.session.namespace, *(each.namespace for each in self.manifests)},
        )
        problem = f"missing {_RELEASE}" if _RELEASE not in notes else ""
        if not problem and notes.get(_NAMESPACE, self.session.namespace) not in spaces:
            problem = f"{_RELEASE} is {notes[_RELEASE]}, of namespace {notes[_NAMESPACE]}"
        if live is not None and not assumed and problem:
            words = (
                f"{key} exists and cannot be imported into the current release: invalid ownership"
                f" metadata; {problem}"
            )
            self.result.rejections.append(
                finding("owned", key, "metadata.annotations", words, manifest)
            )

    def _wave(self, wave: Wave, later: list[Manifest]) -> bool:
        """Apply `wave`. Returns False if the deployer stops there, before the manifests `later`."""
        result, rejected = self.result, len(self.result.rejections)
        for index, each in enumerate(wave.manifests):
            if (
                self._apply(each)
                and len(result.rejections) > rejected
                and self.deployer.stops == "create"
            ):
                result.skipped += wave.manifests[index + 1 :]
                return False
        if len(result.rejections) > rejected and self.deployer.stops == "wave":
            return False
        if wave.waits:
            waiting = self.session.settle(
                [(each.api_version, self.session.key(each)) for each in wave.manifests], self.limit
            )
            waiting |= dict(self._too_early(wave, later))
            result.surplus |= waiting
            if waiting:
                return False
        for each in wave.manifests if wave.is_hook else ():
            if "hook-succeeded" in self.deployer.deletion_of(each):
                self._delete(each)
                result.manifests.pop(self.session.key(each), None)
        return True

    def _too_early(self, wave: Wave, later: list[Manifest]) -> Iterator[tuple[Key, str]]:
        """The objects of `wave` that need one of `later` to be ready; none in a state that runs
        already.
        """
        names = {self.session.key(each) for each in later if each.kind in ("Secret", "ConfigMap")}
        for key, each in (
            (self.session.key(manifest), each)
            for manifest in wave.manifests
            for each in references(manifest.body)
        ):
            target = each.target(key)
            early = each.is_of_pods and target in names and not self.adopts
            if early and self.session.get(target, "v1") is None:
                yield (
                    key,
                    (
                        f"{each.kind} {each.name} does not exist yet: {self.deployer.name} applies"
                        " it when this object is ready"
                    ),
                )
        # Argo CD takes a claim without a volume for Progressing.
        lazy = {
            each.name
            for each in self.manifests
            if each.body.get("volumeBindingMode") == "WaitForFirstConsumer"
        }
        for each in (
            wave.manifests if lazy and self.deployer.name == "argocd" and not self.adopts else ()
        ):
            key, present = (
                self.session.key(each),
                (*self.before.manifests.values(), *self.result.manifests.values()),
            )
            mounted = {
                name
                for other in present
                for _, pod in templates(other.body)
                for _, name in select(pod, _CLAIMS)
            }
            if (
                each.kind == "PersistentVolumeClaim"
                and each.spec.get("storageClassName") in lazy
                and each.name not in mounted
            ):
                yield (
                    key,
                    (
                        "it is bound when its first pod is scheduled, and Argo CD applies no later"
                        f" {self.deployer.wave} before"
                    ),
                )

    def _apply(self, manifest: Manifest, *, dry_run: bool = False) -> bool:
        """Apply `manifest` and record the result. Returns True if the object did not exist."""
        session, result, existed = self.session, self.result, False
        key = session.key(manifest)
        try:
            session.resource(manifest)
            self._check_length(manifest)
            if not dry_run:
                result.declared[key] = manifest
                self._let_pods_start(key, manifest)
                if self.deployer.is_hook(
                    manifest
                ) and "before-hook-creation" in self.deployer.deletion_of(manifest):
                    self._delete(manifest)
            old = session.get(key, manifest.api_version)
            existed = old is not None
            if old is not None and (
                several := session.contested(manifest, old, self.deployer.manager)
            ):
                result.contested[key] = several
            live = self._sent(manifest, key, dry_run=dry_run, existed=existed)
            if not dry_run:
                result.manifests[key] = manifest
                kept_not = (
                    text_of(path) for path, value in unkept(manifest.body, live) if value is MISSING
                )
                early = dropped(manifest, self.session.version)
                result.dropped[key] = tuple(dict.fromkeys((*kept_not, *early)))
                if manifest.kind == _DEFINITION:
                    await_served(session.api, manifest.body)
        except (ApiError, ObjectFailed, ClusterError) as error:
            result.rejections += rejections(session, manifest, error, self.before.manifests)
            if existed:
                result.manifests[key] = self.before.manifests.get(key, manifest)
        return not existed

    def _check_length(self, manifest: Manifest) -> None:
        """Raise ApiError if the deployer's annotation is too long; an object that was too long before
        is applied in another way.
        """
        before = self.before.manifests.get(self.session.key(manifest))
        was = before is not None and self.deployer.is_too_long(before)
        if self.deployer.is_too_long(manifest) and not (was or self.adopts):
            words = (
                f"Too long: may not be more than 262144 bytes, and {self.deployer.name} writes the"
                " whole object into an annotation, unless it uses server-side apply"
            )
            causes = [{"field": "metadata.annotations", "message": words}]
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", words, {"causes": causes})

    def _let_pods_start(self, key: Key, manifest: Manifest) -> None:
        """Wait for what was applied before a changed RuntimeClass: else the time that a controller
        takes decides which pods are older than the change.
        """
        before = self.before.manifests.get(key)
        if key.kind == "RuntimeClass" and before is not None and before.body != manifest.body:
            self.session.settle(self.result.versioned, self.limit)

    def _sent(self, manifest: Manifest, key: Key, *, dry_run: bool, existed: bool) -> Object:
        """The live object; it is deleted and created again if the deployer does that for a rejected
        update, or for a field.
        """
        before = self.before.manifests.get(key)
        # A three-way merge needs the earlier declaration: {} for a new object.
        old = (before.body if before else {}) if self.deployer.merges else None
        field = self.deployer.replaced_field(before, manifest) if existed else ""
        reason = f"the provider replaces it for a change of {field}" if field else ""
        if not reason:
            try:
                return self.session.apply(manifest, self.deployer.manager, dry_run=dry_run, old=old)
            except ApiError as error:
                rejected = error.status in (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.CONFLICT)
                if not (rejected and existed and self.deployer.is_forced(manifest)):
                    raise
                reason = error.message
        if dry_run:
            return {}
        self.result.recreated[key] = reason
        self._delete(manifest)
        return self.session.apply(manifest, self.deployer.manager, old=old)

    def _delete(self, manifest: Manifest) -> None:
        with contextlib.suppress(
            ObjectFailed, ClusterError
        ):  # its definition is deleted, and it was deleted with it
            if reason := self.session.delete(manifest):
                self.result.stuck[self.session.key(manifest)] = reason

    def _prune(self) -> None:
        """Delete what is no longer declared, in reverse order; nothing after a rejection."""
        result = self.result
        kept = {str(self.session.key(each)) for each in result.skipped} | {
            each.object for each in result.rejections
        }
        keeps_all = not self.deployer.prunes or bool(result.rejections or result.surplus)
        for key, each in reversed(self.before.manifests.items()):
            if key in result.declared or str(key) in kept or self.deployer.is_hook(each):
                continue
            if keeps_all or self.deployer.is_kept(each):
                result.left[key] = each
            else:
                self._delete(each)
                result.deleted[key] = each
