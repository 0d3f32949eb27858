"""Writes args.pyi, the types of the inputs and outputs of the public components, from the
specifications.

A default and the allowed values are part of a description, since Pulumi's schema of components has
neither. A union becomes `Any`, which is described too, except the unions of a scalar and one model:
they are two inputs.
"""

import inspect
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from inferplan.components.gateway.consumer_spec import ConsumerSpec
from inferplan.components.handles import Endpoint
from inferplan.components.public.handles import ModelFilesHandle, PoolHandle, StoreHandle
from inferplan.components.public.inputs import SPLIT, Inputs
from inferplan.components.spec import unwrap

_HEAD = '''"""Made from the specifications by `inferplan schema --write`: the inputs and outputs of the public components."""

from typing import Any, NotRequired, TypedDict

import pulumi
'''
_SCALARS: Mapping[Any, str] = {str: "str", int: "int", float: "float", bool: "bool"}
_OMIT = frozenset({"create", "imported_keys", "retain"})
_NAMES = {"Endpoint": "ModelEndpoint", "PreheatSpec": "PreheatSettings"}


@dataclass(frozen=True)
class _Field:
    name: str
    type: str
    required: bool
    description: str


class Stub:
    """The classes of args.pyi, each after those that it uses."""

    def __init__(self) -> None:
        self.classes: dict[str, str] = {}

    def text(self, components: Mapping[str, Inputs]) -> str:
        """Return the file. `components` are the inputs of each component by its name."""
        for handle in (PoolHandle, StoreHandle, ModelFilesHandle, Endpoint, ConsumerSpec):
            self._type(handle)
        for name, inputs in components.items():
            listed = [
                _Field(key, each.type, each.required, each.description)
                for key, each in inputs.extras.items()
            ]
            for spec in inputs.specs:
                listed += [
                    each
                    for each in self._fields(spec)
                    if each.name not in {*inputs.omit, *inputs.extras}
                ]
            self._add(f"{name}Args", f"The inputs of {name}.", listed)
        return _HEAD + "".join(self.classes.values())

    def _add(self, name: str, description: str, listed: list[_Field]) -> None:
        body = [f"class {name}(TypedDict):", f"    {_docstring(description)}", ""]
        for each in sorted(listed, key=lambda field: not field.required):
            body.append(
                f"    {each.name}: {each.type if each.required else f'NotRequired[{each.type}]'}"
            )
            body.append(f"    {_docstring(each.description)}")
        self.classes[name] = "\n\n" + "\n".join(body) + "\n"

    def _type(self, annotation: Any) -> str:  # noqa: PLR0911 - one line per kind of type
        """Return the type of a value as Python source, and add the classes that it names."""
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self._type(arguments[0])
        if origin is Literal:
            return _SCALARS[type(arguments[0])]
        if origin in (Union, types.UnionType):
            kinds = list(
                dict.fromkeys(
                    self._type(each)
                    for each in arguments
                    if each is not type(None) and get_args(each)[:1] != (Literal[False],)
                )
            )
            return kinds[0] if len(kinds) == 1 else "Any"
        if origin in (list, tuple):
            return f"list[{self._type(arguments[0])}]"
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return f"dict[str, {self._type(arguments[1])}]"
        if isinstance(annotation, type) and (
            issubclass(annotation, BaseModel) or is_dataclass(annotation)
        ):
            return self._class(annotation)
        return _SCALARS.get(
            annotation, "str" if getattr(annotation, "__name__", "") == "date" else "Any"
        )

    def _class(self, model: type) -> str:
        name = _NAMES.get(model.__name__) or model.__name__.removesuffix("Spec").removesuffix(
            "Handle"
        )
        if name not in self.classes:
            self.classes[name] = ""
            listed = [*self._fields(model)]
            del self.classes[name]
            self._add(name, unwrap(model.__doc__ or name), listed)
        return name

    def _fields(self, model: type) -> Iterator[_Field]:
        if not issubclass(model, BaseModel):
            hints = get_type_hints(model)
            for each in fields(model):
                yield _Field(
                    each.name,
                    self._type(hints[each.name]),
                    each.default is MISSING,
                    _words(each.name),
                )
            return
        properties = model.model_json_schema().get("properties", {})
        for name, each in model.model_fields.items():
            discriminator = (
                get_origin(each.annotation) is Literal and len(get_args(each.annotation)) == 1
            )
            if name in _OMIT or discriminator:
                continue
            text = (
                properties[each.alias or name].get("description")
                or _summary(each.annotation)
                or _words(name)
            )
            scalar, second = self._split(each.annotation)
            yield _Field(
                name,
                scalar,
                each.is_required() and not second,
                _described(text, each.annotation, each.default),
            )
            for kind, type_text in second.items():
                together = "Next to" if type_text.startswith("dict") else "Instead of"
                yield _Field(
                    SPLIT[kind],
                    type_text,
                    required=False,
                    description=f"{together} `{name}`: {text}",
                )

    def _split(self, annotation: Any) -> tuple[str, dict[str, str]]:
        """Return the type of a field, and of its second input by the name of the model if it takes
        a scalar or that model.
        """
        inner = annotation
        while get_origin(inner) is Annotated:
            inner = get_args(inner)[0]
        if get_origin(inner) is dict:
            scalar, second = self._split(get_args(inner)[1])
            return f"dict[str, {scalar}]", {
                key: f"dict[str, {each}]" for key, each in second.items()
            }
        members = [*_members(annotation)]
        models = [each for each in members if isinstance(each, type) and each.__name__ in SPLIT]
        if models and len(members) > len(models):
            return self._type(next(each for each in members if each not in models)), {
                each.__name__: self._type(each) for each in models
            }
        return self._type(annotation), {}


def _members(annotation: Any) -> Iterator[Any]:
    """Yield the types of a union, without None."""
    if get_origin(annotation) is Annotated:
        yield from _members(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for each in get_args(annotation):
            yield from _members(each)
    elif annotation is not type(None):
        yield annotation


def _summary(annotation: Any) -> str:
    """Return the first paragraph of the description of a model, "" for other types."""
    models = [
        each
        for each in (annotation, *get_args(annotation))
        if isinstance(each, type) and issubclass(each, BaseModel)
    ]
    return unwrap(models[0].__doc__ or "").partition("\n\n")[0] if models else ""


def _words(name: str) -> str:
    text = name.replace("_", " ")
    return f"{text[0].upper()}{text[1:]}."


def _described(description: str, annotation: Any, default: Any) -> str:
    allowed = [each for part in _literals(annotation) for each in get_args(part)]
    text = " ".join(description.split())
    if allowed and not all(str(each) in text for each in allowed):
        text += f" One of: {', '.join(map(str, allowed))}."
    if isinstance(default, bool | int | float | str) and default != "" and "efault" not in text:
        text += f" Default: {str(default).lower() if isinstance(default, bool) else default}."
    return text


def _literals(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Literal:
        yield annotation
    elif get_origin(annotation) in (Union, types.UnionType, Annotated):
        for each in get_args(annotation):
            yield from _literals(each)


def _docstring(text: str) -> str:
    return (
        '"""'
        + text.replace("\\", "\\\\").replace('"""', "'''")
        + ('"""' if not text.endswith('"') else ' """')
    )


def files() -> dict[str, str]:
    """Return the files that are made from the components, by their paths in this repository."""
    from inferplan.components.public.package import COMPONENTS, schema_text

    return {
        "inferplan/components/__init__.pyi": package_text(COMPONENTS),
        "inferplan/components/public/args.pyi": args_text(COMPONENTS),
        "schemas/pulumi-package.json": schema_text(),
    }


def args_text(components: Iterable[type]) -> str:
    """Return args.pyi for `components`."""
    return Stub().text({each.__name__: each._inputs for each in components})  # noqa: SLF001 - not an output, so Pulumi must not see it


def package_text(components: Iterable[type]) -> str:
    """Return the types of `inferplan.components`: `components` and every type of args.pyi."""
    lines = [
        _HEAD.partition("\n")[0].replace("the inputs and outputs of", ""),
        "",
        "import pulumi",
        "",
        "from inferplan.components.public.args import *",
        "",
    ]
    for each in components:
        outputs = [
            f"    {name}: {_source(kind)}"
            for base in reversed(each.__mro__)
            for name, kind in _outputs(base)
        ]
        construct = (
            f"    def __init__(self, name: str, args: {each.__name__}Args, opts:"
            " pulumi.ResourceOptions | None = None) -> None: ..."
        )
        lines += ["", f"class {each.__name__}(pulumi.ComponentResource):", *outputs, construct]
    return "\n".join(lines) + "\n"


def _outputs(base: type) -> Iterator[tuple[str, Any]]:
    if base.__module__.startswith("inferplan."):
        yield from (
            (name, kind)
            for name, kind in inspect.get_annotations(base).items()
            if not name.startswith("_")
        )


def _source(kind: Any) -> str:
    return (
        kind.__name__
        if isinstance(kind, type) and not get_args(kind)
        else str(kind).replace("pulumi.output.Output", "pulumi.Output")
    )
