"""The trials of all models that a change affects, as findings of a report."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from inferplan.commands.try_model.trying import Trying, tried
from inferplan.documents.errors import dotted
from inferplan.errors import RequestError
from inferplan.review.findings import Finding, Findings
from inferplan.workspace.project import project_root
from inferplan.workspace.revisions import commit_of, text_at
from inferplan.workspace.workspace import Workspace

# Fields of a model that change no argument of its server.
_OUTSIDE = ("consumers", "replicas", "traffic")


def tried_changes(
    workspace: Workspace,
    base: str,
    weights: Path,
    note_each: Callable[[str], None],
    *,
    container: str | None = None,
) -> Findings:
    """Try each model that differs from the revision `base`, on the files in the directory of its
    name in `weights`, by the `container` engine if one is named. Raises RequestError for an unknown
    revision.
    """
    root = project_root()
    commit = commit_of(root, base)
    path = workspace.file.path
    before = _models(text_at(root, commit, path.resolve()))
    now = _models(path.read_text(encoding="utf-8"))
    details: list[Finding] = []
    untried: list[str] = []
    for model in (name for name in now if now[name] != before.get(name)):
        try:
            trying = tried(workspace, model, weights / model, note_each, container=container)
        except RequestError as error:
            untried.append(f"{model}: {error}")
            continue
        untried += [
            f"{model}, {each.step}: {each.sentence}"
            for each in trying.findings
            if each.state == "not judged"
        ]
        rejected = [each for each in trying.findings if each.state == "rejected"]
        details += [_detail(trying, model, each) for each in rejected]
        works = [each.step for each in trying.findings if each.state == "works"]
        if works and not rejected:
            words = f"{trying.engine} takes {', '.join(works)}"
            details.append(_finding(model, "note", f"works: {model}", reason=words))
    return Findings(
        stack=workspace.stack,
        base=commit[:12],
        head="",
        outcome="rejected" if any(each.weight == "blocked" for each in details) else "accepted",
        seconds=0.0,
        details=tuple(details),
        untried=tuple(untried),
    )


def _models(text: str) -> dict[str, dict[str, Any]]:
    """The models of a stack file, without the fields that change no argument."""
    sections: Any = yaml.safe_load(text) or {}
    models = next(
        (value for key, value in sections.get("config", {}).items() if key.endswith(":models")), {}
    )
    return {
        name: {key: value for key, value in fields.items() if key not in _OUTSIDE}
        for name, fields in models.items()
    }


def _detail(trying: Trying, model: str, finding: Any) -> Finding:
    return _finding(
        model,
        "blocked",
        f"{trying.engine} rejects {model}",
        field=dotted(finding.path),
        reason=f"{finding.step}: {finding.sentence}",
        place=trying.place_of(finding),
    )


def _finding(model: str, weight: str, title: str, **more: str) -> Finding:
    values = {"field": "", "reason": "", **more}
    return Finding(code="engine", weight=weight, title=title, object=model, **values)
