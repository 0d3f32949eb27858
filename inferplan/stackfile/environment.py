"""The section `environment` of a stack file: what Pulumi ESC adds to the configuration when the
Pulumi CLI runs.

Nothing here opens an environment. A plan names each value that one adds, and never has it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from inferplan.documents.errors import LocatedError, Position
from inferplan.documents.yaml_tree import MapNode, Node, find, to_data


@dataclass(frozen=True)
class Environment:
    """The environments that a stack imports, and the expressions of its own `pulumiConfig` by full
    key, such as `${platform.namespace}`.
    """

    imports: tuple[str, ...] = ()
    expressions: dict[str, str] = field(default_factory=dict)

    def source(self, key: str) -> str | None:
        """Return the source of the value of the full key `key`; None if no environment adds it. An
        imported one may add any key.
        """
        if key in self.expressions:
            return f"the expression {self.expressions[key]} of Pulumi ESC"
        return f"the Pulumi ESC environment {', '.join(self.imports)}" if self.imports else None

    def notes(self) -> Iterator[str]:
        """Yield a line for each value that a plan does not know."""
        for key, expression in self.expressions.items():
            yield (
                f"{key.rpartition(':')[2]} is {expression}, which the Pulumi CLI reads from Pulumi"
                " ESC; this plan does not know it"
            )


def read(root: MapNode) -> Environment:
    data = to_data(root.items["environment"]) if "environment" in root.items else []
    if not isinstance(data, dict):
        return Environment(imports=_names(data))
    values = data.get("values")
    config = values.get("pulumiConfig") if isinstance(values, dict) else None
    expressions = (
        {str(key): _expression(value) for key, value in config.items()}
        if isinstance(config, dict)
        else {}
    )
    return Environment(imports=_names(data.get("imports")), expressions=expressions)


def errors(node: Node | None, position: Position) -> Iterator[LocatedError]:
    """Yield why `node` is not an environment. Literal values belong in `config`, where every check
    reads them.
    """
    data = [] if node is None else to_data(node)
    if not isinstance(data, dict | list):
        message = (
            f"{data!r} is not a list of environments. Write a list such as [acme/prod], or imports"
            " and values."
        )
        yield LocatedError(("environment",), message, position)
    elif isinstance(data, dict) and node is not None:
        config = (
            (data.get("values") or {}).get("pulumiConfig")
            if isinstance(data.get("values") or {}, dict)
            else None
        )
        for key, value in config.items() if isinstance(config, dict) else ():
            path = ("environment", "values", "pulumiConfig", str(key))
            if "${" not in _expression(value) and "fn::" not in _expression(value):
                message = (
                    f"{key} has a plain value, which no plan would check. Write it below config."
                )
                yield LocatedError(path, message, find(node, path[1:])[1])


def _names(data: object) -> tuple[str, ...]:
    return (
        tuple(each if isinstance(each, str) else ", ".join(map(str, each)) for each in data)
        if isinstance(data, list)
        else ()
    )


def _expression(value: object) -> str:
    """Return the reference that a value is; of a function only its name, since its argument may be
    a secret.
    """
    if isinstance(value, dict) and value:
        return str(next(iter(value)))
    return str(value)
