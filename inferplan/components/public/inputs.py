"""The inputs of a public component: which specifications they come from, and how they are checked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import pulumi
from pulumi.errors import InputPropertiesError
from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel

from inferplan.components.public.handles import ModelFilesHandle, ready_of
from inferplan.components.sources import ModelMount, ModelSource
from inferplan.components.spec import FieldError, Spec
from inferplan.documents.errors import KeyPath, SpecError
from inferplan.kube.paths import dotted

AnySpec = TypeVar("AnySpec", bound=BaseModel)
SPLIT = {"ScalingSpec": "autoscaling", "MachineShape": "machine_shape", "SecretKey": "secret_env"}
"""Pulumi's schema has no unions. A field that takes a scalar or one of these models is two inputs;
this is the second one.
"""


@dataclass(frozen=True)
class Extra:
    """An input that no specification has: its type as Python source, and its description."""

    type: str
    description: str
    required: bool = True


@dataclass(frozen=True)
class Inputs:
    """The inputs of a component: the fields of `specs` except `omit`, and further ones."""

    specs: tuple[type[Spec], ...]
    extras: Mapping[str, Extra]
    omit: frozenset[str] = frozenset()


class InvalidInputsError(pulumi.RunError, InputPropertiesError):
    """The inputs of a component are invalid. Programs end without a traceback, and callers in other
    languages get each input's error.
    """

    def __init__(self, component: str, name: str, errors: list[SpecError]) -> None:
        details = [{"property_path": dotted(each.path), "reason": each.message} for each in errors]
        lines = [
            f"{component} {name!r}: {each['property_path']}: {each['reason']}" for each in details
        ]
        InputPropertiesError.__init__(self, "\n".join(lines), details)  # pyrefly: ignore[bad-argument-type] - a typed dictionary

    def __str__(self) -> str:
        return self.message


class Check:
    """Collects the errors of one component's inputs, so that all are reported together."""

    def __init__(
        self,
        component: pulumi.ComponentResource | type,
        name: str,
        args: Mapping[str, Any],
        inputs: Inputs,
    ) -> None:
        self._component, self._name = (
            component.__name__ if isinstance(component, type) else type(component).__name__,
            name,
        )
        self.errors: list[SpecError] = []
        self.settings = {
            key: value
            for key, value in args.items()
            if key not in inputs.extras and value is not None
        }
        self.extras = {
            key: value for key, value in args.items() if key in inputs.extras and value is not None
        }
        for key, extra in inputs.extras.items():
            if extra.required and key not in self.extras:
                self.errors.append(
                    SpecError((key,), f"Missing required input. Add {key} to the args.")
                )
        for key, value in args.items():
            if "pulumi.Input" not in (
                inputs.extras[key].type if key in inputs.extras else ""
            ) and _has_output(value):
                self.errors.append(
                    SpecError(
                        (key,),
                        "An Output is only known after the program has run. Pass a plain value, or"
                        " a handle of another component.",
                    )
                )
        self.stop()

    def spec(self, spec: type[AnySpec], values: Any, *path: str | int) -> AnySpec:
        """Return `values` as `spec`. If they have errors, note them and return an empty one, which
        `stop` keeps from being used. `path` leads to the values.
        """
        try:
            return spec.model_validate(_merged(values), by_name=True, by_alias=True)
        except ValidationError as error:
            self.errors += [SpecError((*path, *each.path), each.message) for each in _errors(error)]
            return spec.model_construct()

    def mount(
        self, files: ModelFilesHandle, value: Any, *path: str | int
    ) -> ModelMount | ModelSource | None:
        """Return the handle of `files`, which `value` had; note an error at `path` if servers
        cannot read them.
        """
        try:
            return files.mount(ready_of(value))
        except FieldError as error:
            self.errors.append(SpecError((*path, *error.path), str(error)))
            return None

    def fail(self, error: SpecError) -> NoReturn:
        """Raise InvalidInputsError with `error` and the others."""
        self.errors.append(error)
        raise InvalidInputsError(self._component, self._name, self.errors)

    def stop(self) -> None:
        """Raise InvalidInputsError if there are errors."""
        if self.errors:
            raise InvalidInputsError(self._component, self._name, self.errors)


def _errors(error: ValidationError) -> Iterator[SpecError]:
    for each in error.errors(include_url=False, include_context=True):
        cause, value = each.get("ctx", {}).get("error"), each["input"]
        below: KeyPath = getattr(cause, "path", ())
        if each["type"] == "missing":
            message = "Missing required input. Add it to the args."
        elif each["type"] == "extra_forbidden":
            message = "Unknown input. Remove it, or correct its name."
        elif cause is not None:
            message = str(cause)
        else:
            shown = f"{value!r} is not valid. " if isinstance(value, str | int | float) else ""
            message = f"{shown}{each['msg']}."
        yield SpecError((*each["loc"], *below), message)


def _merged(values: Any) -> Any:
    """Return `values` with the second inputs of split fields in the field that both belong to."""
    if not isinstance(values, Mapping):
        return values
    merged = dict(values)
    for field, second in (
        ("replicas", "autoscaling"),
        ("instance_type", "machine_shape"),
        ("env", "secret_env"),
    ):
        value = merged.pop(second, None) or merged.pop(to_camel(second), None)
        if value is not None:
            merged[field] = {**merged.get(field, {}), **value} if field == "env" else value
    return merged


def _has_output(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_output, value.values()))
    return (
        any(map(_has_output, value))
        if isinstance(value, list | tuple)
        else isinstance(value, pulumi.Output)
    )
