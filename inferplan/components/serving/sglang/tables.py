"""Makes `options.json`: the options of SGLang's server with the values that its parser accepts, and
the names of its variables. It reads the source of a release and imports nothing of it:

    python -m inferplan.components.serving.sglang.tables <folder with the unpacked wheel>
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OPTIONS_FILE = Path(__file__).with_name("options.json")
# Modules with the options and with the lists and registries of values that they name.
_MODULES = ("arg_groups/fields/*.py", "server_args.py")
_REGISTRIES = (
    "arg_groups/choices.py",
    "parser/reasoning_parser_names.py",
    "function_call/parser_names.py",
)
# Options whose values the server computes from a registry.
_FLAG = {"takes": "flag"}  # with an option --no-... that switches it off
_COMPUTED = {
    "--reasoning-parser": "REASONING_PARSER_NAMES",
    "--tool-call-parser": "TOOL_CALL_PARSER_NAMES",
    "--sampling-backend": "SAMPLING_BACKEND_CHOICES",
}


def tables(folder: Path) -> dict[str, Any]:
    source = folder / "sglang" / "srt"
    lists = dict(_lists(source))
    modules = [
        ast.parse(path.read_text(encoding="utf-8"))
        for pattern in _MODULES
        for path in sorted(source.glob(pattern))
    ]
    for tree in modules:
        lists |= _assigned(tree)
    options = {name: row for tree in modules for name, row in _options(tree, lists)}
    for name, registry in _COMPUTED.items():
        auto = ["auto"] if name.endswith("-parser") else []
        options[name] = {"values": sorted({*auto, *lists[registry]})}
    release = next(folder.glob("sglang-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    return {
        "sglang": release,
        "options": {
            **{f"--no-{name[2:]}": row for name, row in options.items() if row == _FLAG},
            **options,
        },
        "environment": sorted(_variables(source)),
    }


def _lists(source: Path) -> Iterator[tuple[str, list[str]]]:
    for module in _REGISTRIES:
        yield from _assigned(ast.parse((source / module).read_text(encoding="utf-8"))).items()


def _assigned(tree: ast.Module) -> dict[str, list[str]]:
    """The lists of texts that a module assigns to names."""
    lists: dict[str, list[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            texts = _texts(node.value, lists)
            lists |= {each.id: texts for each in targets if isinstance(each, ast.Name)}
    return lists


def _texts(node: ast.expr, lists: dict[str, list[str]]) -> list[str]:
    """The texts in an expression, those of the lists that it names too."""
    texts: list[str] = []
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            texts += lists.get(each.id, [])
        elif isinstance(each, ast.Constant) and isinstance(each.value, str | int):
            texts.append(str(each.value))
    return texts


def _options(tree: ast.Module, lists: dict[str, list[str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The options of the annotated fields `A[type, Arg(...)]`, and of calls of add_argument."""
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(
                target=ast.Name(id=name),
                annotation=ast.Subscript(
                    value=ast.Name(id="A"), slice=ast.Tuple(elts=[annotation, meta, *_])
                ),
            ):
                given = {
                    each.arg: each.value
                    for each in (meta.keywords if isinstance(meta, ast.Call) else [])
                    if each.arg
                }
                if "no_cli" in given:
                    continue
                names = _texts(given["cli_name"], {}) if "cli_name" in given else []
                row = _row(annotation, given, lists)
                for option in (
                    *(names or [f"--{name.replace('_', '-')}"]),
                    *(_texts(given["aliases"], {}) if "aliases" in given else ()),
                ):
                    yield option, row
            case ast.Call(func=ast.Attribute(attr="add_argument"), args=[ast.Constant(value=name)]):
                given = {each.arg: each.value for each in node.keywords if each.arg}
                yield str(name), _row(ast.Name("str"), given, lists)


def _row(
    annotation: ast.expr, given: dict[str, ast.expr], lists: dict[str, list[str]]
) -> dict[str, Any]:
    """The kind of value that an option takes, as SGLang's add_cli_args_from_dataclass reads it: the
    first that fits.
    """
    types = set(re.findall(r"[A-Za-z]+", ast.unparse(annotation)))
    action = ast.unparse(given["action"]) if "action" in given else ""
    parsed, choices = (
        "type_parser" in given,
        _texts(given["choices"], lists) if "choices" in given else [],
    )
    choices = choices or ("Literal" in types and _texts(annotation, {})) or []
    numbers = types & {"int", "float"}
    rows: tuple[tuple[bool, dict[str, Any]], ...] = (
        ("Boolean" in action, _FLAG),
        (bool(re.search("StoreConst|StoreTrue|store_true", action)), {"takes": "switch"}),
        (
            bool(action) or "nargs" in given or (bool(types & {"List", "list"}) and not parsed),
            {"takes": "list"},
        ),
        (bool(choices), {"values": sorted(set(choices))}),
        ("bool" in types and types <= {"Optional", "bool"}, {"takes": "switch"}),
        (
            bool(numbers) and types <= {"Optional", "None", "int", "float"} and not parsed,
            {"takes": min(numbers, default="")},
        ),
    )
    return next((row for matches, row in rows if matches), {"takes": "text"})


def _variables(source: Path) -> Iterator[str]:
    text = (source / "environ.py").read_text(encoding="utf-8")
    yield from re.findall(r"^    (SGLANG_[A-Z0-9_]+|SGL_[A-Z0-9_]+) = Env", text, re.MULTILINE)


def main(folder: str) -> None:
    text = json.dumps(tables(Path(folder)), indent=1, sort_keys=True)
    OPTIONS_FILE.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
