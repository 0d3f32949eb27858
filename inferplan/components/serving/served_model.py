"""The settings that models of every engine share. Validation of the stack checks that a pool, store
and consumer exist.
"""

from abc import ABC
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic.alias_generators import to_camel

from inferplan.components.handles import NodeTarget
from inferplan.components.serving.model_parts import CalledModel, PodModel
from inferplan.components.serving.pod_settings import PodSettings
from inferplan.components.serving.scaling_spec import SIGNALS
from inferplan.components.serving.traffic_spec import PlannedTraffic
from inferplan.components.spec import FieldError, rule
from inferplan.documents.errors import SpecError


class ServedModel(CalledModel, PlannedTraffic, PodModel, ABC):
    """The settings of models of every engine: where the weights come from, where they run, who may
    call them.
    """

    reserved_names: ClassVar[Mapping[str, str]] = {}
    """Names that no model of a stack may have, because servers of this engine would break, each
    with the reason.
    """

    takes_public_names: ClassVar[bool] = False
    """True if the server can be told further names of its model, those of public routes."""

    # A Deployment's pods are named after it, and a pod's host name ends at 63 characters: beyond
    # this the random end is cut off.
    longest_name: ClassVar[int] = 46
    longest_name_of: ClassVar[str] = "its pods' names"
    """The objects whose names contain the model's name, which limits it to `longest_name`
    characters.
    """

    # Pods state their own settings.
    stated: ClassVar[Mapping[str, Any]] = dict.fromkeys(
        (*PodSettings.model_fields, "affinity", "image", "resources", "shared_memory"), True
    )

    @rule
    def _signals_exist(self) -> Iterator[FieldError]:
        if self.scaling is not None and (
            others := [name for name in self.scaling.on.names if name not in self.signals]
        ):
            listed = ", ".join(to_camel(name) for name in SIGNALS if name in self.signals)
            yield FieldError(
                f"replicas.on has {', '.join(map(to_camel, others))}, which this model does not"
                f" report (engine {self.engine}). Use one of {listed}",
                *("replicas", "on", to_camel(others[0])),
            )

    @property
    def traces(self) -> bool:
        """True if the engine can send traces by OTLP."""
        return False

    def unknown_options(self) -> Iterator[tuple[str, str]]:
        """Yield each option that the engine does not have, with the engine's name and version."""
        yield from ()

    def doubts_on(self, target: NodeTarget) -> Iterator[SpecError]:  # noqa: ARG002 - engines with a table of options read it
        """Yield the settings that the engine probably rejects or ignores on `target`."""
        yield from ()
