"""The rules and dashboards of a stack as files, for a Prometheus without its operator and a Grafana
without its sidecar.
"""

from collections.abc import Mapping
from pathlib import Path

from inferplan.components.monitoring.dashboards import dashboards
from inferplan.components.monitoring.rules import rule_groups
from inferplan.errors import OperationError, RequestError
from inferplan.stackfile.watched import watched
from inferplan.workspace.workspace import Workspace


def monitoring_files(workspace: Workspace) -> dict[str, str]:
    """The files by name. Raises RequestError for a stack without monitoring."""
    import yaml

    settings = workspace.settings
    if settings.monitoring is None:
        raise RequestError(
            f"{workspace.stack} has no monitoring. Add, for example, inferplan:monitoring:"
            f" {{prometheus: {{namespace: monitoring}}}} to {workspace.file.shown_path}."
        )
    rules = yaml.safe_dump(rule_groups(watched(settings)), sort_keys=False, width=1000)
    return {"rules.yml": rules, **dashboards(settings.namespace)}


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Write `files` into `folder`, which is made if it is missing. Other files stay. Raises
    OperationError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OperationError(
            f"{error.filename or folder} cannot be written: {error.strerror}. Name another folder."
        ) from error
