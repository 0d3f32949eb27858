"""Reads the settings of a stack. pydantic is imported only if there are any."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferplan.policies.engine.rule import Rule
from inferplan.policies.engine.settings import Settings, SettingsError


def read_settings(path: Path, rules: Mapping[str, Rule], day: str) -> Settings:
    """The settings in the file `path`, or the defaults if it does not exist. Raises SettingsError."""
    try:
        content = json.loads(path.read_bytes(), object_pairs_hook=_unique)
    except FileNotFoundError:
        return Settings(today=day)
    except (OSError, ValueError) as error:
        raise SettingsError(str(path), [f"cannot be read as JSON: {error}"]) from error
    return parse_settings(content, rules, day, where=str(path))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON map without repeated keys: JSON takes the last one, a reader sees the first."""
    keys = [key for key, _ in pairs]
    if repeated := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(f"the key {repeated[0]!r} occurs twice in one map")
    return dict(pairs)


def parse_settings(content: Any, rules: Mapping[str, Rule], day: str, *, where: str) -> Settings:
    """The settings in `content`, which is parsed JSON. Raises SettingsError with every error."""
    if content == {}:
        return Settings(today=day)
    # pydantic takes as long to import as all rules, and most stacks have no settings.
    from inferplan.policies.engine.settings_file import read_file

    values, errors = read_file(content, rules, day)
    if errors:
        raise SettingsError(where, errors)
    return Settings(today=day, **values)
