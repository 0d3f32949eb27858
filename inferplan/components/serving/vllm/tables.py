"""Makes a file of `values/` and `options.txt`: the options of `vllm serve` with the values that its
parser and its configuration classes accept, and the enumerated variables. It reads the source of a
vLLM release and imports nothing of it:

    python -m inferplan.components.serving.vllm.tables <folder with the package vllm>
"""

import ast
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

VALUES_FOLDER = Path(__file__).with_name("values")
OPTIONS_FILE = Path(__file__).with_name("options.txt")
_NUMBERS = {"int", "float"}
_CONVERSIONS = {*_NUMBERS, "maybe_convert_int"}
# Modules below `entrypoints` that add options to those of the engine and of the server.
_PARSERS = ("cli/serve.py", "*/cli_args.py", "*/*/cli_args.py")
# Registries of names that no type states: the option, the module, the name of the mapping or of the
# call whose first argument is a name.
_REGISTRIES = (
    ("--tool-call-parser", "tool_parsers/__init__.py", "_TOOL_PARSERS_TO_REGISTER"),
    ("--reasoning-parser", "reasoning/__init__.py", "_REASONING_PARSERS_TO_REGISTER"),
    ("--load-format", "model_executor/model_loader/__init__.py", "LoadFormats"),
    ("--kv-cache-dtype", "config/cache.py", "CacheDType"),
    ("--quantization", "model_executor/layers/quantization/__init__.py", "QuantizationMethods"),
    ("--attention-backend", "v1/attention/backends/registry.py", "AttentionBackendEnum"),
    ("--mm-encoder-attn-backend", "v1/attention/backends/registry.py", "AttentionBackendEnum"),
    ("--attention-config.backend", "v1/attention/backends/registry.py", "AttentionBackendEnum"),
    ("--tokenizer-mode", "tokenizers/registry.py", "_VLLM_TOKENIZERS"),
    ("--config-format", "transformers_utils/config.py", "_CONFIG_FORMAT_TO_CONFIG_PARSER"),
    (
        "--kv-transfer-config.kv_connector",
        "distributed/kv_transfer/kv_connector/factory.py",
        "register_connector",
    ),
)
# Names that the code itself handles, before it looks into a registry.
_ALWAYS = {
    "--attention-backend": ("auto",),
    "--attention-config.backend": ("auto",),
    "--config-format": ("auto",),
    "--tokenizer-mode": ("auto",),
}


class _Source:
    """The modules of a release, their classes and the names that stand for types."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self.classes: dict[str, ast.ClassDef] = {}
        self.members: dict[str, list[str]] = {}
        self.aliases: dict[str, ast.expr] = {}
        first = (
            *sorted((package / "config").glob("*.py")),
            *sorted(package.glob("entrypoints/**/*.py")),
        )
        for path in dict.fromkeys((*first, *sorted(package.rglob("*.py")))):
            if path not in first and "Literal[" not in path.read_text(encoding="utf-8"):
                continue
            for node in self.tree(path).body:
                match node:
                    case ast.ClassDef(name=name) if path in first:
                        self.classes.setdefault(name, node)
                        if any("Enum" in ast.unparse(base) for base in node.bases):
                            self.members.setdefault(name, _members(node))
                    case (
                        ast.Assign(targets=[ast.Name(id=name)], value=value)
                        | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                    ):
                        self.aliases.setdefault(name, value or ast.Constant(None))

    def tree(self, path: Path) -> ast.Module:
        return ast.parse(path.read_text(encoding="utf-8"))

    def fields(self, name: str) -> dict[str, ast.expr]:
        """The fields of a configuration class with their types, those of its bases too."""
        node = self.classes.get(name)
        if node is None:
            return {}
        own = {
            each.target.id: each.annotation
            for each in node.body
            if isinstance(each, ast.AnnAssign)
            and isinstance(each.target, ast.Name)
            and "ClassVar" not in ast.dump(each.annotation)
        }
        bases = [self.fields(base.id) for base in node.bases if isinstance(base, ast.Name)]
        return {key: value for fields in (*bases, own) for key, value in fields.items()}

    def names(self, annotation: ast.expr) -> set[str]:
        """The names of the types in an annotation, aliases followed."""
        found: set[str] = set()
        for node in ast.walk(annotation):
            if isinstance(node, ast.Name):
                alias = self.aliases.get(node.id)
                found |= {node.id} if alias is None else self.names(alias)
        return found

    def literals(self, annotation: ast.expr) -> list[str]:
        """The values of the Literals in an annotation, aliases followed."""
        values: list[str] = []
        for node in ast.walk(annotation):
            if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Literal":
                parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                for part in parts:
                    if isinstance(part, ast.Constant):
                        values.append(str(part.value))
                    elif isinstance(part, ast.Name) and part.id in self.aliases:
                        values += self.literals(self.aliases[part.id])
            elif isinstance(node, ast.Name) and node.id in self.aliases:
                values += self.literals(self.aliases[node.id])
        return sorted(set(values))

    def field(self, annotation: ast.expr) -> list[str] | dict[str, list[str]] | str | None:
        """The values that a field of a JSON option takes: those of its Literals, the members of an
        enumeration in any case, or a number; None for all others.
        """
        if values := self.literals(annotation):
            return values
        types = self.names(annotation) - {"None"}
        members = [each for name in sorted(types) for each in self.members.get(name, ())]
        if members and len(types) == 1:
            return {"members": members}
        return min(types) if types and types <= _NUMBERS else None

    def row(self, annotation: ast.expr) -> dict[str, Any]:
        """The kind of value that an option of this type takes."""
        types = self.names(annotation)
        nested = next(
            (each for each in sorted(types) if each.endswith("Config") and each in self.classes),
            None,
        )
        if nested is not None:
            return {
                "fields": {
                    key: self.field(each) for key, each in sorted(self.fields(nested).items())
                }
            }
        if "bool" in types:
            return {"takes": "text" if "str" in types else "flag"}
        if (values := self.literals(annotation)) and "str" not in types - {"Literal"}:
            return {"values": values}
        bases = (base for each in types & self.classes.keys() for base in self.classes[each].bases)
        if any("dict" in ast.unparse(base).lower() for base in bases):
            return {"takes": "json"}
        if types & {"list", "tuple", "set", "dict"}:
            return {"takes": "json" if "dict" in types else "list"}
        numbers = types & _NUMBERS
        return {"takes": min(numbers) if numbers and types <= {*_NUMBERS, "None"} else "text"}


def _members(node: ast.ClassDef) -> list[str]:
    """The names of an enumeration, and its values that are texts."""
    found: set[str] = set()
    for each in node.body:
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found |= {name, *_texts([value])} if not _is_number(value) else {name}
    return sorted(found)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def tables(package: Path) -> dict[str, Any]:
    source = _Source(package)
    options = dict(sorted(_options(source)))
    for option, module, name in _REGISTRIES:
        names = sorted({*_registered(source, package / module, name), *_ALWAYS.get(option, ())})
        name_of_option, _, field = option.partition(".")
        # The names of an enumeration are taken in any case.
        row = {"members" if name.endswith("Enum") else "values": names}
        if field:
            options[name_of_option]["fields"][field] = row.get("values", row)
        else:
            options[option] = row
    version = source.tree(package / "_version.py")
    return {
        "vllm": next(
            node.value.value
            for node in version.body
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and any(getattr(each, "id", "") == "version" for each in node.targets)
        ),
        "options": options,
        "environment": dict(sorted(_variables(source))),
    }


def _options(source: _Source) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, annotation in source.fields("FrontendArgs").items():
        yield f"--{name.replace('_', '-')}", source.row(annotation)
    tree = source.tree(source.package / "engine" / "arg_utils.py")
    classes = {
        node.targets[0].id: node.value.args[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and getattr(node.value.func, "id", "") == "get_kwargs"
        and isinstance(node.value.args[0], ast.Name)
    }
    parsers = (
        source.tree(path)
        for pattern in _PARSERS
        for path in (source.package / "entrypoints").glob(pattern)
    )
    for node in (each for parser in (tree, *parsers) for each in ast.walk(parser)):
        if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"):
            continue
        names = _texts(node.args)
        row: dict[str, Any] = {"takes": "text"}
        parts = [part for keyword in node.keywords for part in ast.walk(keyword.value)]
        for part in parts:
            match part:
                case ast.Subscript(value=ast.Name(id=kwargs), slice=ast.Constant(value=field)):
                    if kwargs in classes:
                        row = source.row(source.fields(classes[kwargs])[str(field)])
                case ast.Attribute(attr="BooleanOptionalAction"):
                    row = {"takes": "flag"}
        if any(getattr(part, "value", "") in ("store_true", "store_false") for part in parts):
            row = {"takes": "switch"}
        for name in names:
            yield name, row


def _texts(nodes: Iterable[ast.expr | None]) -> list[str]:
    return [str(each.value) for each in nodes if isinstance(each, ast.Constant)]


def _registered(source: _Source, path: Path, name: str) -> Iterator[str]:
    for node in ast.walk(source.tree(path)):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=target)], value=ast.Dict(keys=keys))
                | ast.AnnAssign(target=ast.Name(id=target), value=ast.Dict(keys=keys))
            ) if target == name:
                yield from _texts(keys)
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                yield from source.literals(value)
            case ast.ClassDef(name=target, body=body) if target == name:
                yield from (
                    each.targets[0].id
                    for each in body
                    if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
                )
            case ast.Call(
                func=ast.Attribute(attr=called), args=[ast.Constant(value=value), *_]
            ) if called == name:
                yield str(value)


def _variables(source: _Source) -> Iterator[tuple[str, list[str] | str | None]]:
    """The variables of the engine; the values of those that are enumerated, and the numbers."""
    for node in ast.walk(source.tree(source.package / "envs.py")):
        if not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            if not (isinstance(key, ast.Constant) and str(key.value).startswith("VLLM_")):
                continue
            match value:
                case ast.Call(
                    func=ast.Name(id="env_with_choices"), args=[_, _, ast.List(elts=choices), *_]
                ):
                    yield str(key.value), _texts(choices)
                case _:
                    yield str(key.value), _number_in(value, str(key.value))


def _number_in(value: ast.expr, name: str) -> str | None:
    """The kind of number that the variable `name` is converted to; None for texts."""
    for node in ast.walk(value):
        match node:
            case ast.Call(func=ast.Name(id=kind), args=[read, *_]) if kind in _CONVERSIONS and repr(
                name
            ) in ast.unparse(read):
                return kind.removeprefix("maybe_convert_")
    return None


def spellings(options: dict[str, Any]) -> list[str]:
    """The names of `options`, also those that switch a flag off."""
    off = (
        f"--no-{name[2:]}"
        for name, row in options.items()
        if row.get("takes") == "flag" and name.startswith("--")
    )
    return sorted({each for each in (*options, *off) if each.startswith("--")})


def main(folder: str) -> None:
    values = tables(Path(folder) / "vllm")
    text = json.dumps(values, indent=1, sort_keys=True)
    (VALUES_FOLDER / f"{values['vllm']}.json").write_text(f"{text}\n", encoding="utf-8")
    every = {
        option
        for path in VALUES_FOLDER.glob("*.json")
        for option in spellings(json.loads(path.read_text(encoding="utf-8"))["options"])
    }
    lines = ["# Options of `vllm serve` in the releases of `values/`.", *sorted(every)]
    OPTIONS_FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
