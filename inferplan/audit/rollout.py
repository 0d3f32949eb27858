"""Deploys one side of an audit the way a deployer would: wave by wave, with hooks, pruning and its reaction to rejections."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from inferplan.audit.deployed import Deployed, Rejection
from inferplan.audit.deployers import Deployer, Wave
from inferplan.audit.manifest import Manifest, Object
from inferplan.audit.merge import unkept
from inferplan.audit.rejections import rejection
from inferplan.audit.session import Session
from inferplan.kube.paths import MISSING, text_of
from inferplan.rehearsal.cluster.api import ApiError
from inferplan.rehearsal.cluster.definitions import await_served
from inferplan.rehearsal.engine.wait.object_events import Key
from inferplan.rehearsal.engine.wait.reasons import is_immutable
from inferplan.rehearsal.errors import ClusterError, ObjectFailed

_RELEASE: Final = "meta.helm.sh/release-name"
_DEFINITION: Final = "CustomResourceDefinition"


@dataclass(kw_only=True)
class Rollout:
    """One deployment of `manifests`; `before` is the result of the one before it."""

    session: Session
    deployer: Deployer
    manifests: tuple[Manifest, ...]
    limit: float
    before: Deployed | None = None
    adopts: bool = False
    """True for a state that runs already, whose objects are the deployer's own."""
    result: Deployed = field(default_factory=Deployed)

    def run(self) -> Deployed:
        self.result.manager = self.deployer.manager
        waves = self.deployer.waves(self.manifests, upgrade=self.before is not None)
        if not (self._refused_by_helm(waves) or (self.deployer.checks_first and self._rejected_by_check(waves))):
            for index, wave in enumerate(waves):
                if not self._wave(wave):
                    self.result.skipped += [each for later in waves[index + 1 :] for each in later.manifests]
                    break
            self._prune()
        keys = ((each.api_version, key) for key, each in self.result.manifests.items())
        self.result.unready = self.session.settle(list(keys), self.limit) | self.result.surplus
        daemons = [(key, self.session.watching.get(key)) for key in self.result.manifests if key.kind == "DaemonSet"]
        self.result.pods = {key for key, live in daemons if ((live or {}).get("status") or {}).get("desiredNumberScheduled")}
        return self.result

    def _rejected_by_check(self, waves: Iterable[Wave]) -> bool:
        defined = {(each.body.get("spec") or {}).get("group") for each in self.manifests if each.kind == _DEFINITION}
        spaces = {each.name for each in self.manifests if each.kind == "Namespace"}
        everything = [each for wave in waves for each in wave.manifests]
        for each in everything:
            # What is created in the same run cannot be checked before it exists.
            if each.group not in defined and each.namespace not in spaces and not self.deployer.is_hook(each):
                self._apply(each, dry_run=True)
        return self._held_back(everything)

    def _refused_by_helm(self, waves: Iterable[Wave]) -> bool:
        """Reject everything if a kind is not served, or a new object exists and is not of a release: Helm checks both first."""
        if self.deployer.name != "helm":
            return False
        defined = {(each.body.get("spec") or {}).get("group") for each in self.manifests if each.kind == _DEFINITION}
        everything = [each for wave in waves for each in wave.manifests]
        for each in everything:
            try:
                if each.group in defined:
                    continue
                resource = self.session.resource(each)
                key = self.session.key(each, resource)
                known = self.adopts or self.deployer.is_hook(each) or (self.before is not None and key in self.before.declared)
                if not known and (live := self.session.get(key, resource)) and not _is_helms(live):
                    words = f"{key} exists and cannot be imported into the current release: invalid ownership metadata; missing {_RELEASE}"
                    self.result.rejections.append(Rejection(manifest=each, code="owned", field="metadata.annotations", message=words))
            except (ObjectFailed, ClusterError) as error:
                self.result.rejections.append(self._rejection(each, error))
        return self._held_back(everything)

    def _held_back(self, everything: list[Manifest]) -> bool:
        """True if something is rejected before anything is applied: the old objects stay."""
        refused = {id(each.manifest) for each in self.result.rejections}
        if refused:
            self.result.skipped = [each for each in everything if id(each) not in refused]
        if refused and self.before is not None:
            self.result.manifests |= self.before.manifests
            self.result.resources |= self.before.resources
        return bool(refused)

    def _wave(self, wave: Wave) -> bool:
        """Apply `wave`. Returns False if the deployer stops there."""
        rejected = len(self.result.rejections)
        for index, each in enumerate(wave.manifests):
            new = self._apply(each)
            if len(self.result.rejections) > rejected and self.deployer.stops == "create" and new:
                self.result.skipped += wave.manifests[index + 1 :]
                return False
        if len(self.result.rejections) > rejected and self.deployer.stops == "wave":
            return False
        if wave.waits:
            waiting = self.session.settle([(each.api_version, self._key(each)) for each in wave.manifests], self.limit)
            self.result.surplus |= waiting
            if waiting:
                return False
        for each in wave.manifests if wave.is_hook else ():
            if "hook-succeeded" in self.deployer.deletion_of(each):
                self._delete(self._key(each))
                self.result.manifests.pop(self._key(each), None)
        return True

    def _key(self, manifest: Manifest) -> Key:
        return self.session.key(manifest, self.session.resource(manifest))

    def _apply(self, manifest: Manifest, *, dry_run: bool = False) -> bool:
        """Apply `manifest` and record the result. Returns True if the object did not exist."""
        session, existed, key = self.session, False, None
        try:
            resource = session.resource(manifest)
            key = session.key(manifest, resource)
            if not dry_run:
                self.result.declared[key] = manifest
                self.result.resources[key] = resource
                if self.deployer.is_hook(manifest) and "before-hook-creation" in self.deployer.deletion_of(manifest):
                    self._delete(key)
            existed = session.get(key, resource) is not None
            if existed and (several := session.contested(manifest, self.deployer.manager)):
                self.result.contested[key] = several
            live = self._sent(manifest, key, dry_run=dry_run, existed=existed)
            if not dry_run:
                self.result.manifests[key] = manifest
                self.result.dropped[key] = tuple(text_of(path) for path, value in unkept(manifest.body, live) if value is MISSING)
                if manifest.kind == _DEFINITION:
                    await_served(session.api, manifest.body)
        except (ApiError, ObjectFailed, ClusterError) as error:
            self.result.rejections.append(self._rejection(manifest, error))
            if existed and key is not None:
                self.result.manifests[key] = self.before.manifests.get(key, manifest) if self.before else manifest
        return not existed

    def _sent(self, manifest: Manifest, key: Key, *, dry_run: bool, existed: bool) -> Object:
        """The live object; it is deleted and created again if the deployer does that for immutable fields."""
        try:
            return self.session.apply(manifest, self.deployer.manager, dry_run=dry_run, old=self._declared_before(key))
        except ApiError as error:
            if not (is_immutable(error) and existed and self.deployer.is_recreated(manifest)):
                raise
            if dry_run:
                return {}
            self.result.recreated[key] = error.message
            self._delete(key)
            return self.session.apply(manifest, self.deployer.manager, old=self._declared_before(key))

    def _declared_before(self, key: Key) -> Object | None:
        """The earlier declaration of `key` for a three-way merge, {} if there is none; None if the deployer does not merge so."""
        if not self.deployer.merges:
            return None
        before = self.before.manifests.get(key) if self.before else None
        return before.body if before else {}

    def _rejection(self, manifest: Manifest, error: ApiError | ObjectFailed | ClusterError) -> Rejection:
        before = live = None
        with contextlib.suppress(ApiError, ObjectFailed):
            key = self._key(manifest)
            before, live = self.before.manifests.get(key) if self.before else None, self.session.get(key, self.session.resource(manifest))
        return rejection(self.session, manifest, error, before, live)

    def _delete(self, key: Key) -> None:
        resource = self.result.resources.get(key) or (self.before.resources.get(key) if self.before else None)
        if resource is not None and (reason := self.session.delete(key, resource)):
            self.result.stuck[key] = reason

    def _prune(self) -> None:
        """Delete what is no longer declared, in reverse order; nothing after a rejection."""
        if self.before is None:
            return
        declared = self.result.declared.keys()
        same = {
            (each.kind, each.namespace, each.name) for each in (*self.result.skipped, *(one.manifest for one in self.result.rejections))
        }
        stale = {key: each for key, each in self.before.manifests.items() if key not in declared}
        stale = {key: each for key, each in stale.items() if (each.kind, each.namespace, each.name) not in same}
        failed = bool(self.result.rejections or self.result.surplus)
        for key, each in reversed(stale.items()):
            self.result.resources[key] = self.before.resources[key]
            if self.deployer.is_hook(each):
                continue
            if not self.deployer.prunes or failed or self.deployer.is_kept(each):
                self.result.left[key] = each
                continue
            self._delete(key)
            self.result.deleted[key] = each


def _is_helms(live: Object) -> bool:
    """True for an object of a Helm release, and for what the audit itself assumed."""
    metadata = live["metadata"]
    ours = any(str(each.get("manager")).startswith("inferplan-") for each in metadata.get("managedFields") or ())
    return ours or _RELEASE in (metadata.get("annotations") or {})
