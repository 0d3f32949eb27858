"""The components as a package for every language of Pulumi: the list of them, their types, their
schema, and the provider that hosts them.
"""

import json
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

import pulumi
from pulumi.errors import InputPropertiesError
from pulumi.provider import ConstructResult, main
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError

from inferplan.components.public import args
from inferplan.components.public.access import ApiKeys, Gateway
from inferplan.components.public.inputs import InvalidInputsError
from inferplan.components.public.nodes import InferenceNamespace, NodePool
from inferplan.components.public.services import SERVICES, ModelService
from inferplan.components.public.storage import ModelStore, Preheat
from inferplan.components.spec import unwrap

COMPONENTS: tuple[type[pulumi.ComponentResource], ...] = (
    ApiKeys,
    Gateway,
    InferenceNamespace,
    ModelStore,
    NodePool,
    Preheat,
    *SERVICES,
)


def _unwrapped(schema: Any) -> Any:
    """Return `schema` with each paragraph of a description on one line."""
    if isinstance(schema, list):
        return [_unwrapped(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: unwrap(value) if key == "description" and isinstance(value, str) else _unwrapped(value)
        for key, value in schema.items()
    }


class Package(ComponentProvider):
    """The provider of the components. Handles arrive as resolved Outputs, which components take as
    plain values.
    """

    def __init__(self) -> None:
        super().__init__([*COMPONENTS], "inferplan", version=version("inferplan"))
        schema = json.loads(self.schema or "")
        for each in SERVICES:
            # The analyzer reads descriptions from the source of a class, and these classes share
            # one.
            for key, output in schema["resources"][f"inferplan:index:{each.__name__}"][
                "properties"
            ].items():
                output["description"] = self.analyzer.get_docstring(ModelService, key)
        self.schema = json.dumps(_unwrapped(schema))

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: Mapping[str, Any],
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        properties = self._component_defs[resource_type.rpartition(":")[2]].inputs
        handles = {
            key
            for key, each in properties.items()
            if each.type is None or each.items or each.additional_properties
        }
        arrived = {
            key: _plain(value) if key in handles else _number(value)
            for key, value in inputs.items()
        }
        try:
            return super().construct(name, resource_type, arrived, options)
        except ComponentInitError as error:
            if not isinstance(error.inner, InvalidInputsError):
                raise
            # Not a RunError, which the provider's server would pass on without the paths of the
            # inputs.
            raise InputPropertiesError(error.inner.message, error.inner.errors) from None


def _plain(value: Any) -> Any:
    """Return `value` with the values of its Outputs, which have arrived already: a component starts
    once its inputs are known.
    """
    if isinstance(value, pulumi.Output):
        try:
            value.future(with_unknowns=True).send(None)
        except StopIteration as done:
            return _plain(done.value)
        raise TypeError("An input of a component is not known yet.")
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else _number(value)


def _number(value: Any) -> Any:
    """Return `value`; integers arrive as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def schema_text() -> str:
    """Return the schema that the provider serves, as `pulumi package get-schema` prints it."""
    return json.dumps(json.loads(Package().schema or ""), indent=2, sort_keys=True) + "\n"


def serve() -> None:
    """Answer Pulumi's engine until it ends."""
    main(Package(), sys.argv[1:])


@cache
def exports() -> dict[str, Any]:
    """Return what programs import from `inferplan.components`, by name: the components and the
    types of their inputs.
    """
    of_args = {
        name: value
        for name, value in vars(args).items()
        if isinstance(value, type) and value.__module__ == args.__name__
    }
    return {**of_args, **{each.__name__: each for each in COMPONENTS}}
