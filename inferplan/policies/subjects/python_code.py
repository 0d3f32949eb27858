"""Python programs as rules read them: names in full, without comments, docstrings and messages."""

import ast
import contextlib
import re
import warnings
from functools import lru_cache

_LONGEST = 1_000_000
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
# Calls that start a program.
_STARTS = re.compile(r"\bsubprocess\b|\bPopen\(|\bos\.(exec|spawn|posix_spawn|system|popen)")
# Calls with the mode of a file.
_WITH_MODE = frozenset(("chmod", "makedirs", "mkdir", "umask"))
_SPEAKS = frozenset(
    ("add_argument", "critical", "debug", "error", "exception", "info", "log", "print", "warning")
)


@lru_cache(maxsize=512)
def plain_code(text: str) -> str:
    """A program whose imported names are written in full and whose messages are gone; any other
    text as it is.
    """
    with warnings.catch_warnings(), contextlib.suppress(*_UNREADABLE):
        warnings.simplefilter("ignore")
        if "(" in text and len(text) < _LONGEST:
            tree = ast.parse(text)
            return ast.unparse(_Plain(tree).visit(tree))
    return text


@lru_cache(maxsize=512)
def commands_called(text: str) -> tuple[str, ...]:
    """The words of the commands that a Python program starts, each command after a line break."""
    words: list[str] = []
    with warnings.catch_warnings(), contextlib.suppress(*_UNREADABLE):
        warnings.simplefilter("ignore")
        if _STARTS.search(text) and len(text) < _LONGEST:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.List | ast.Tuple):
                    words += ["\n", *_texts(node.elts)]
                elif isinstance(node, ast.Call):
                    lines = (each for each in _texts(node.args) if " " in each)
                    words += [word for line in lines for word in ("\n", *line.split())]
                    if isinstance(node.func, ast.Attribute) and node.func.attr.startswith("execl"):
                        words += ["\n", *_texts(node.args)]
    return tuple(words)


def _texts(nodes: list[ast.expr]) -> list[str]:
    """The texts of expressions, `$` for one that is computed."""
    return [
        each.value if isinstance(each, ast.Constant) and isinstance(each.value, str) else "$"
        for each in nodes
    ]


def _octal(node: ast.expr) -> ast.expr:
    """A number as octal digits, in which rules read the mode of a file."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Name(f"0o{node.value:03o}", ast.Load())
    return node


class _Plain(ast.NodeTransformer):
    def __init__(self, tree: ast.Module) -> None:
        self._names: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                self._names |= {
                    each.asname or each.name: f"{module}{each.name}"
                    for each in node.names
                    if each.asname or module
                }

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            return ast.Pass()
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in _WITH_MODE:
            node.args = [_octal(each) for each in node.args]
            for keyword in node.keywords:
                keyword.value = _octal(keyword.value)
        if name in _SPEAKS or name.endswith(("Error", "Exception")):
            node.args = [each for each in node.args if not isinstance(each, ast.Constant)]
            node.keywords = [each for each in node.keywords if each.arg != "help"]
        return self.generic_visit(node)
