"""Namespaces and definitions that a stack no longer has: Pulumi leaves them, and they are deleted
here if nothing of others is in them.
"""

import json
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inferplan.errors import OperationError, RehearsalError
from inferplan.kube.contents import CONTAINERS, Identity, foreign_contents
from inferplan.kube.names import MANAGED_BY_LABEL
from inferplan.kube.objects import label
from inferplan.pulumi_engine.providers.kubernetes import is_object
from inferplan.updating.pulumi_cli import answer, state_of
from inferplan.workspace.deployment import key_of
from inferplan.workspace.live import LiveCluster, ObjectKey

_PATIENCE_SECONDS: Final = 600.0
_POLL_SECONDS: Final = 1.0
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Containers:
    """The containers of a stack in Pulumi's state, the cluster they are in, and what the stack
    created.
    """

    stack: str
    environment: Mapping[str, str]
    live: LiveCluster | None
    delete: Callable[[str], None] | None
    exported: Mapping[str, Any]
    kept: bool = False

    @property
    def own(self) -> set[Identity]:
        return {key.identity for _, key in _objects(self.exported)}

    def leaving(self, declared: Collection[ObjectKey] = ()) -> list[ObjectKey]:
        """The containers in the state that are not `declared`."""
        identities = {each.identity for each in declared}
        return [
            key
            for _, key in _objects(self.exported)
            if key.kind in CONTAINERS and key.identity not in identities
        ]

    def check(self, leaving: Collection[ObjectKey], command: str) -> None:
        """Raise OperationError if objects of others are in a container of `leaving`, unless it is
        kept.
        """
        if problems := [] if self.kept else self._contents(leaving):
            remedy = (
                f"Move or delete these objects, or leave all of them where they are: {command}"
                " --keep-namespace"
            )
            raise OperationError("\n".join([*problems, f"Nothing was deleted. {remedy}"]))

    def protect(self, leaving: Collection[ObjectKey]) -> None:
        """Have Pulumi leave the containers of `leaving`, also those of a state that an earlier
        version of inferplan wrote.
        """
        unprotected = [
            each
            for each, key in _objects(self.exported)
            if key in leaving and not each.get("retainOnDelete")
        ]
        for each in unprotected:
            each["retainOnDelete"] = True
        if unprotected:
            with tempfile.TemporaryDirectory(prefix="inferplan-state-") as folder:
                state = Path(folder) / "state.json"
                state.write_text(json.dumps(self.exported), encoding="utf-8")
                answer(
                    ["stack", "import", "--stack", self.stack, "--file", str(state)],
                    self.environment,
                )

    def _contents(self, leaving: Collection[ObjectKey], *, after: bool = False) -> list[str]:
        readable = () if self.live is None else ((self.live.get, each.identity) for each in leaving)
        return [
            str(each)
            for get, key in readable
            if (each := foreign_contents(get, key, self.own, after=after))
        ]

    def remove(self, leaving: Collection[ObjectKey], say: Say) -> None:
        """Delete the containers that Pulumi left and in which nothing is, and wait until they are
        gone. Raises OperationError.
        """
        if not leaving:
            return
        there = {key for _, key in _objects(exported_state(self.stack, self.environment))}
        for each in (each for each in leaving if each not in there):
            if self.kept:
                say(f"{each} stays with everything in it, as --keep-namespace asks")
            elif self.live is None or self.delete is None:
                remedy = f"kubectl delete {each.kind.lower()} {each.name}"
                say(
                    f"{each} stays: without kubectl and a context, its contents are unknown. To"
                    f" delete it with all of them: {remedy}"
                )
            else:
                self.live.forget()
                self._remove(each, self.live, self.delete, say)

    def _remove(
        self, each: ObjectKey, live: LiveCluster, delete: Callable[[str], None], say: Say
    ) -> None:
        try:
            if live.find(each) is None:
                return
        except (OperationError, RehearsalError):
            say(f"{each} is not deleted, because its cluster no longer answers")
            return
        if contents := self._contents([each], after=True):
            say("\n".join([*contents, f"{each} stays with them"]))
            return
        delete(live.path(each))
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while live.find(each) is not None:
            if time.monotonic() > deadline:
                raise OperationError(
                    f"{each} is still being deleted. Find what blocks it: kubectl describe"
                    f" {each.kind.lower()} {each.name}"
                )
            time.sleep(_POLL_SECONDS)  # kubectl offers no watch through --raw
            live.forget()
        say(f"{each} is deleted")

    def remove_leftovers(self, declared: Collection[ObjectKey], say: Say) -> None:
        """Delete each empty namespace of a stack without state, which `pulumi destroy` left. Raises
        OperationError if something is in it.
        """
        if self.live is None or self.delete is None or self.own:
            return
        for each in (
            each
            for each in declared
            if each.kind == "Namespace" and self.live.find(each) is not None
        ):
            live, contents = self.live.find(each) or {}, self._contents([each], after=True)
            if contents or label(live, MANAGED_BY_LABEL) != "inferplan":
                adopt = (
                    "If the state of the stack is in another backend, set PULUMI_BACKEND_URL. If it"
                    f" was lost, restore a copy: pulumi stack import --stack {self.stack} --file"
                    " COPY. Or let the stack use the namespace without owning it:"
                    " inferplan:adoptNamespace: true"
                )
                raise OperationError(
                    "\n".join(
                        [
                            (
                                f"{each} exists, and {self.stack} did not create it. Nothing was"
                                " changed."
                            ),
                            *contents,
                            adopt,
                        ]
                    )
                )
            self._remove(each, self.live, self.delete, say)


def containers_of(
    stack: str,
    environment: Mapping[str, str],
    live: LiveCluster | None,
    delete: Callable[[str], None] | None,
    *,
    kept: bool,
    exported: Mapping[str, Any] | None = None,
) -> Containers:
    """The containers of `stack`, from its state `exported` if that was just read."""
    return Containers(
        stack=stack,
        environment=environment,
        live=live,
        delete=delete,
        exported=exported or exported_state(stack, environment),
        kept=kept,
    )


def exported_state(stack: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The state of `stack`, {} if it has none."""
    try:
        return state_of(stack, environment)
    except OperationError as error:
        if "no stack named" in str(error):
            return {}
        raise


def _objects(exported: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], ObjectKey]]:
    """The Kubernetes objects of the state that the stack created, also those whose operation was
    interrupted.
    """
    deployment = exported.get("deployment") or {}
    pending = (each["resource"] for each in deployment.get("pending_operations") or ())
    for each in (*(deployment.get("resources") or ()), *pending):
        if (
            not each.get("external")
            and is_object(each["type"], each.get("inputs") or {})
            and (key := key_of(each)) is not None
        ):
            yield each, key
