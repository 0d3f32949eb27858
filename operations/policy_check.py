"""A recording as the policy pack reads it, and the pack's verdict on it. It prints nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policies.engine.report import Report
    from policies.engine.resource import Stack
    from rehearsal.engine.wire.recording import Recording


def stack_of(recording: Recording) -> Stack:
    """The resources of `recording`. Secrets are in clear in it, as they are for every analyzer: rules never show values."""
    from policies.engine.resource import Resource, Stack

    return Stack(
        recording.stack,
        (
            Resource(
                type=each.type,
                urn=each.urn,
                name=each.name,
                inputs=_plain(each.inputs),
                parent=each.parent,
                dependencies=each.dependencies,
                property_dependencies=each.property_dependencies,
                provider=each.provider,
                protect=each.options.protect,
                retain_on_delete=each.options.retain_on_delete,
            )
            for each in recording
            if not each.read
        ),
    )


def judge(recording: Recording, root: Path) -> Report:
    """The pack's verdict on `recording` with the stack's own settings. Raises CommandError when those have faults."""
    from operations.errors import CommandError
    from operations.finding_places import finding_places
    from policies.engine.registry import all_rules
    from policies.engine.report import check_stack
    from policies.engine.settings import SettingsError, read_settings, today
    from stackfile.reader import read_stack, stack_path

    try:
        settings = read_settings(settings_file(root, recording.stack), all_rules(), today())
    except SettingsError as error:
        raise CommandError(str(error)) from error
    report = check_stack(stack_of(recording), settings)
    path = stack_path(root, recording.stack)
    if not path.exists():
        return report
    file = read_stack(path, shown_path=str(path.relative_to(root)))
    return dataclasses.replace(report, places=finding_places(recording, file, (*report.violations, *report.advice)))


def settings_file(root: Path, stack: str) -> Path:
    """Where a stack keeps its levels, parameters and exemptions; the file need not exist."""
    return root / "policies" / "stacks" / f"{stack}.json"


def _plain(value: Any) -> Any:
    from policies.engine.fields import UNKNOWN as UNREADABLE
    from rehearsal.engine.wire.values import UNKNOWN, Secret

    if isinstance(value, Secret):
        return _plain(value.value)
    if value is UNKNOWN:
        return UNREADABLE
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
