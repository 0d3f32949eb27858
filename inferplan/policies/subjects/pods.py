"""Pod templates in the objects of Kubernetes and of serving operators, with their containers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from inferplan.kube.names import vendor_of
from inferplan.kube.pod_templates import PATHS, RAY_CLUSTERS, RUN_TO_END
from inferplan.policies.engine.fields import Field, Recorded
from inferplan.policies.engine.resource import Resource, Stack, Subject
from inferplan.policies.subjects import kserve, structure
from inferplan.policies.subjects.device_plugins import inapplicable_rules
from inferplan.policies.subjects.programs import Image, Word, image_of, words_of
from inferplan.policies.subjects.python_code import plain_code

# Kinds whose pods all serve requests.
_REPLICATED = {
    "kubernetes:apps:Deployment",
    "kubernetes:apps:StatefulSet",
    "kubernetes:apps:ReplicaSet",
    "kubernetes:argoproj.io:Rollout",
    "kubernetes:core:ReplicationController",
    *kserve.KINDS,
}
_KINDS = frozenset([*PATHS, *kserve.KINDS])
_CONTAINS_PODS = Subject(
    "contains pods",
    frozenset(),
    lambda resource: (True,) if structure.holds_pods(resource) else (),
)


@dataclass(frozen=True, eq=False)
class Container:
    """One container of a pod template.

    `init` containers end before the others start; one that always restarts is a sidecar instead.
    `ephemeral` containers are added to a running pod for debugging and cannot have resources, ports
    or probes.
    """

    field: Field
    pod: PodTemplate
    init: bool = False
    ephemeral: bool = False

    def at(self, *keys: str) -> Field:
        """The field below the container. Tekton calls `resources` `computeResources`."""
        if keys[:1] == ("resources",) and not self.field.at("computeResources").absent:
            keys = ("computeResources", *keys[1:])
        return self.field.at(*keys)

    def select(self, *keys: str) -> Iterator[Field]:
        return self.field.select(*keys)

    @cached_property
    def image(self) -> Image:
        """The image by its parts. Raises FieldError."""
        return image_of(self.at("image"))

    @cached_property
    def texts(self) -> tuple[Field, ...]:
        """The fields of the command and its arguments. Raises FieldError."""
        return (*self.at("command").each(), *self.at("args").each())

    @cached_property
    def arguments(self) -> tuple[Word, ...]:
        """The words of the command, its arguments and a shell script in them. Raises FieldError."""
        return words_of(self.texts, self.environment)

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(each.text for each in self.arguments)

    def option(self, *names: str) -> str | None:
        """The last value of a command-line option with hyphens or underscores, "" for one without a
        value, None if it is absent.
        """
        spelled = (
            (name.replace("_", "-") if name.startswith("--") else name, value)
            for _, name, value in reversed(self.options)
        )
        return next((value for name, value in spelled if name in names), None)

    @cached_property
    def options(self) -> tuple[tuple[Word, str, str], ...]:
        """Each word of `arguments` as an option: its name, and its value after `=` or in the next
        word, "" for one without a value.
        """
        options = []
        for word, following in pairwise((*self.arguments, Word(self.field, ""))):
            name, equals, value = word.text.partition("=")
            options.append(
                (
                    word,
                    name,
                    value if equals else "" if following.text.startswith("-") else following.text,
                )
            )
        return tuple(options)

    @cached_property
    def accelerators(self) -> Recorded[tuple[str, str, Field]]:
        """The vendor, `limits` or `requests`, and the field of each request for accelerators."""
        return Recorded(self._accelerators())

    def _accelerators(self) -> Iterator[tuple[str, str, Field]]:
        for side in ("limits", "requests"):
            for name, field in self.at("resources", side).entries():
                if vendor := vendor_of(name):
                    yield vendor, side, field

    @cached_property
    def accelerated(self) -> bool:
        """True if the container requests accelerators, by name or by a claim. Raises FieldError."""
        return bool(self.accelerators) or self.at("resources", "claims").has_items

    @cached_property
    def hooks(self) -> Recorded[Field]:
        """The texts of hooks and probes, which run besides the command. Raises FieldError."""
        names = ("lifecycle", "startupProbe", "readinessProbe", "livenessProbe")
        return Recorded(text for name in names for text in self.at(name).texts_below())

    @cached_property
    def commands(self) -> Recorded[tuple[Field, str]]:
        """Each text that may be a program, and each list of words as one command, with their fields.
        Raises FieldError.
        """
        return Recorded(self._commands())

    def _commands(self) -> Iterator[tuple[Field, str]]:
        words, hooks = self.texts, (*self.hooks,)
        yield from (
            (each, plain_code(each.text())) for each in (*words, *hooks) if " " in each.text()
        )
        lists: dict[str, list[Field]] = {}
        for each in hooks:
            if each.above.key == "command":
                lists.setdefault(each.above.path, []).append(each)
        for command in filter(None, (words, *lists.values())):
            short = (each.text() for each in command if " " not in each.text())
            yield command[0].above, " ".join(short)

    @cached_property
    def environment(self) -> dict[str, Field]:
        """The entries of `env` by name. Raises FieldError."""
        return {each.at("name").text(): each for each in self.at("env").each()}

    def variables(self, names: str) -> list[Field]:
        """The entries of `env` whose name matches the pattern `names`. Raises UnknownFieldError."""
        matches = re.compile(names).fullmatch
        return [entry for name, entry in self.environment.items() if matches(name)]


@dataclass(frozen=True)
class PodTemplate:
    """One pod template of a resource. `kserve.Part` explains `models`, `stores` and `partial`,
    which only KServe sets.
    """

    resource: Resource
    metadata: Field
    spec: Field
    models: tuple[Field, ...] = ()
    stores: tuple[Field, ...] = ()
    partial: bool = False

    def at(self, *keys: str) -> Field:
        return self.spec.at(*keys)

    def select(self, *keys: str) -> Iterator[Field]:
        return self.spec.select(*keys)

    @property
    def inherits(self) -> bool:
        """True if containers inherit the pod's security context. Runtimes of KServe have none."""
        return not self.partial or self.resource.kind not in kserve.KINDS

    @cached_property
    def node_selector(self) -> dict[str, str]:
        """The labels that a node must have. Raises FieldError."""
        return {key: each.text() for key, each in self.at("nodeSelector").entries()}

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """All containers: main ones, then init containers and sidecars, then ephemeral ones. Raises
        UnknownFieldError.
        """
        main = tuple(
            Container(each, self) for each in (*self.models, *self.at("containers").each())
        )
        first = tuple(
            Container(each, self, init=each.at("restartPolicy").text() != "Always")
            for each in self.at("initContainers").each()
        )
        return (
            *main,
            *first,
            *(
                Container(each, self, ephemeral=True)
                for each in self.at("ephemeralContainers").each()
            ),
        )

    @cached_property
    def running(self) -> tuple[Container, ...]:
        return tuple(each for each in self.containers if not (each.init or each.ephemeral))

    @cached_property
    def servers(self) -> tuple[Container, ...]:
        """The running containers that serve requests: those with ports, and in replicas those with
        accelerators. A batch job has none.
        """
        if self.runs_to_end:
            return ()
        replicated = self.resource.kind in _REPLICATED
        return tuple(
            each
            for each in self.running
            if each.at("ports").has_items or (replicated and each.accelerated)
        )

    @property
    def probed(self) -> tuple[Container, ...]:
        """The servers that need probes. KubeRay adds probes to the pods of Ray."""
        return () if self.resource.kind in RAY_CLUSTERS else self.servers

    def images(self) -> Iterator[Field]:
        """The images of containers and of image volumes. Raises FieldError."""
        for container in self.containers:
            # Without an image, KServe takes that of a runtime, which is checked separately.
            if self.resource.kind not in kserve.KINDS or not container.at("image").absent:
                yield container.at("image")
        for volume in self.at("volumes").each():
            if not volume.at("image").absent:
                yield volume.at("image", "reference")

    @property
    def runs_to_end(self) -> bool:
        return self.resource.kind in RUN_TO_END

    @cached_property
    def demand(self) -> dict[str, float]:
        """The number of accelerators that the containers request together, by vendor. Raises
        UnknownFieldError, MalformedFieldError.
        """
        total = _requests(self.running)
        for container in self.containers:
            if container.init:
                # An init container ends first, and the others then get its devices.
                for vendor, count in _requests([container]).items():
                    total[vendor] = max(total.get(vendor, 0), count)
        return {vendor: count for vendor, count in total.items() if count}


def _requests(containers: Iterable[Container]) -> dict[str, float]:
    total: dict[str, float] = {}
    for container in containers:
        for vendor, side, field in container.accelerators:
            if side == "limits":
                total[vendor] = total.get(vendor, 0) + (field.quantity() or 0)
    return total


def _templates(resource: Resource) -> Iterator[PodTemplate]:
    if resource.kind in kserve.KINDS:
        for part in kserve.parts_of(resource):
            yield PodTemplate(resource, *part)
    elif resource.kind not in _KINDS:
        for metadata, spec, loose in structure.pods_of(resource):
            yield PodTemplate(resource, metadata, spec, loose, partial=bool(loose))
    for path in PATHS.get(resource.kind, ()):
        for template in resource.select(*path):
            if not template.absent:
                yield PodTemplate(resource, template.at("metadata"), template.at("spec"))


def _is_unknown_kind_with_pods(resource: Resource) -> bool:
    return resource.kind.startswith("kubernetes:") and bool(resource.parts(_CONTAINS_PODS))


def pod_subject(name: str, parts: Callable[[Resource], Iterable[Any]], *also: str) -> Subject:
    """Parts of the pods of a resource, and resources of the kinds `also`."""
    return Subject(name, _KINDS | set(also), parts, inapplicable_rules, _is_unknown_kind_with_pods)


PODS = pod_subject("pods", _templates)


def judged_pods(stack: Stack, rule: str) -> Iterator[PodTemplate]:
    """The pod templates that the stack rule `rule` judges, as a rule on single pods would. It records
    what it cannot read.
    """
    for resource in stack:
        with stack.unreadable:
            has_pods = resource.kind in PODS.kinds or PODS.also(resource)
            if has_pods and rule not in PODS.inapplicable(resource):
                yield from resource.parts(PODS)


CONTAINERS = pod_subject(
    "containers", lambda resource: (each for pod in resource.parts(PODS) for each in pod.containers)
)
"""All containers. Each is checked alone, so an unknown in one does not hide a violation in another.
"""
IMAGES = pod_subject(
    "images", lambda resource: (each for pod in resource.parts(PODS) for each in pod.images())
)
"""The fields with images."""
