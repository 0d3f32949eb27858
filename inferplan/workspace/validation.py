"""The check of one stack file, and the schema of all. It needs no cluster, network or credential."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferplan.documents.errors import InvalidStack, dotted
from inferplan.errors import OperationError
from inferplan.stackfile.public_examples import placeholders
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import advised, validate
from inferplan.stackfile.stack import StackSettings
from inferplan.workspace.project import project_root, short_path, stack_file


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result for one stack; `summary` is the text for a person."""

    stack: str
    valid: bool
    errors: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    summary: str


def component_files() -> dict[str, str]:
    """Return the types and the schema of the public components, by the path of each file in this
    repository.
    """
    from inferplan.components.public.stub import files

    return files()


def check_stack(name: str) -> Check:
    """Check the stack `name`, a name or a file, and return every error with its line."""
    try:
        path = stack_file(project_root(), name)
        settings, warnings = _validated(path)
    except OperationError as error:
        return Check(stack=name, valid=False, errors=[{"message": str(error)}], summary=str(error))
    except InvalidStack as invalid:
        errors = [
            {
                "message": each.message,
                "path": dotted(each.path),
                "line": None if each.position is None else each.position.line,
                "column": None if each.position is None else each.position.column,
            }
            for each in invalid.located
        ]
        return Check(stack=name, valid=False, errors=errors, summary=str(invalid))
    return Check(
        stack=name,
        valid=True,
        warnings=warnings,
        summary=f"ok  {short_path(path)}: {_counts(settings)}",
    )


def _validated(path: Path) -> tuple[StackSettings, list[str]]:
    """The settings in the file `path` and its warnings. Raises InvalidStack, also for values that
    are examples.
    """
    file = read_stack(path, shown_path=short_path(path))
    settings = validate(file)
    if examples := placeholders(file, settings):
        raise InvalidStack(file.shown_path, examples)
    return settings, [str(each) for each in advised(settings, file)]


def _counts(settings: StackSettings) -> str:
    counts = {
        "pool": settings.node_pools,
        "store": settings.storage,
        "model": settings.models,
        "consumer": settings.consumers,
    }
    counts |= {"route": settings.routes} if settings.routes else {}
    return ", ".join(
        f"{len(items)} {noun}{'' if len(items) == 1 else 's'}" for noun, items in counts.items()
    )
