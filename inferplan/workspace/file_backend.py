"""Files that a killed Pulumi leaves damaged in a file backend.

The backend renames a new checkpoint into its place, but writes its attributes in place
(gocloud.dev/blob/fileblob, read 2026-11). A kill in between leaves NAME.json.attrs empty, and no
command reads the stack again: "failed to load checkpoint: EOF". The attributes hold a content type
and a checksum that no command needs, and may be absent.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

from inferplan.kube.paths import mapping

# The version of checkpoints whose fields are those of an exported deployment.
_VERSION = 3


def folder_of(url: str) -> Path | None:
    """The folder of the file backend at `url`, None for any other backend."""
    parts = urlsplit(url)
    return (
        Path(unquote(parts.netloc + parts.path)).expanduser() / ".pulumi"
        if parts.scheme == "file"
        else None
    )


def is_recorded(url: str, project: str, stack: str) -> bool:
    """True if `url` is a file backend that has the stack; other backends are not asked."""
    folder = folder_of(url)
    return folder is not None and (folder / "stacks" / project / f"{stack}.json").is_file()


def checkpoint(url: str, project: str, stack: str) -> dict[str, Any] | None:
    """The state of `stack` as `pulumi stack export` prints it; None if `url` is another backend or
    Pulumi has to read the file itself. The command would take 0.2 s.
    """
    folder = folder_of(url)
    if folder is None:
        return None
    try:
        text = (folder / "stacks" / project / f"{stack}.json").read_text(encoding="utf-8")
        content = json.loads(text)
        if content["version"] != _VERSION:
            return None
        return {"version": _VERSION, "deployment": content["checkpoint"]["latest"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def discard_cut_attributes(
    root: Path, environment: Mapping[str, str], *, keep: bool = False
) -> list[str]:
    """Delete attributes that are not JSON from the file backend of the project in `root`, unless
    they are to `keep`; one sentence for each.
    """
    folder = folder_of(_url(root, environment))
    cut = (
        [path for path in sorted((root / folder).rglob("*.attrs")) if _is_cut(path)]
        if folder
        else []
    )
    for path in () if keep else cut:
        path.unlink(missing_ok=True)
    remedy = "a recovery deletes it" if keep else "is deleted"
    return [
        f"{path} was cut off when Pulumi was killed, and {remedy}; the file that it describes is"
        " whole"
        for path in cut
    ]


def _url(root: Path, environment: Mapping[str, str]) -> str:
    """The URL of the backend as Pulumi finds it, "" without a login: variable, project, last login."""
    if url := environment.get("PULUMI_BACKEND_URL"):
        return url
    try:
        project = yaml.safe_load((root / "Pulumi.yaml").read_text(encoding="utf-8"))
        if url := mapping(project, "backend").get("url"):
            return str(url)
        home = Path(environment.get("PULUMI_HOME") or Path("~/.pulumi").expanduser())
        return str(
            json.loads((home / "credentials.json").read_text(encoding="utf-8")).get("current") or ""
        )
    except (OSError, ValueError, yaml.YAMLError):
        return ""


def _is_cut(path: Path) -> bool:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return True
    except OSError:
        return False
    return False
