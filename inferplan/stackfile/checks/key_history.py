"""Checks that no revoked key returns: every version that a consumer ever had is valid, or recorded
as spent.
"""

from collections.abc import Iterator

from inferplan.components.gateway.consumer_spec import KeyRecord, listed
from inferplan.documents.errors import KeyPath, SpecError
from inferplan.stackfile.stack import StackSettings

_SECTION = "keyHistory"


def errors(settings: StackSettings) -> Iterator[SpecError]:
    records, consumers = settings.key_history, settings.consumers
    wanted = {name: record_of(settings, name) for name in {**consumers, **records}}
    missing = [
        name for name, spec in consumers.items() if name not in records and list(spec.keys) != [1]
    ]
    if missing and not records:
        listed = ", ".join(f"{name}: {record.text}" for name, record in wanted.items())
        problem = (
            f"Missing {_SECTION}, which keeps the retired keys of {', '.join(missing)} from"
            " becoming valid again."
        )
        yield SpecError(
            ("consumers", missing[0], "keys"), f"{problem} Add inferplan:{_SECTION}: {{{listed}}}"
        )
        return
    for name, record in wanted.items():
        returned = [
            (index, version)
            for index, version in enumerate(_keys(settings, name))
            if version in _spent(settings, name)
        ]
        for index, version in returned:
            yield SpecError(("consumers", name, "keys", index), _returned(settings, name, version))
        if not returned and (
            name in missing
            or (
                name in records
                and (records[name].issued, records[name].versions)
                != (record.issued, record.versions)
            )
        ):
            path: KeyPath = (_SECTION, name) if name in records else ("consumers", name, "keys")
            yield SpecError(path, _unrecorded(settings, name, record))


def record_of(settings: StackSettings, consumer: str) -> KeyRecord:
    """Return the record that belongs to the valid versions of `consumer`: all others up to the
    highest are spent.
    """
    keys, old = _keys(settings, consumer), settings.key_history.get(consumer)
    issued = max([*keys, old.issued if old else 1])
    return KeyRecord.of(issued, {*range(1, issued + 1)} - {*keys})


def _returned(settings: StackSettings, name: str, version: int) -> str:
    keys, record = _keys(settings, name), settings.key_history[name]
    problem = f"Version {version} of {name} is spent: a revoked key never becomes valid again."
    if valid := [each for each in keys if each not in record.versions]:
        return f"{problem} Write keys: {valid}; for another key, run: inferplan keys add {name}"
    fresh = record.issued + 1
    return (
        f"{problem} Write keys: [{fresh}], and {name}: {KeyRecord.of(fresh, range(1, fresh)).text}"
        f" in {_SECTION}."
    )


def _unrecorded(settings: StackSettings, name: str, record: KeyRecord) -> str:
    spent, keys = _spent(settings, name), _keys(settings, name)
    gone = listed(record.versions - spent) or "none"
    remedy = f"Write {name}: {record.text} in {_SECTION}"
    if name not in settings.consumers:
        return (
            f"{name} was removed, but its versions {gone} are not spent: a new {name} would get the"
            f" same keys. {remedy}."
        )
    if record.versions - spent:
        return (
            f"Versions of {name} that are neither in keys ({listed(keys)}) nor spent: {gone}."
            f" {remedy}, or restore them."
        )
    return f"Version {record.issued} of {name} is not recorded as issued. {remedy}."


def _keys(settings: StackSettings, name: str) -> list[int]:
    return settings.consumers[name].keys if name in settings.consumers else []


def _spent(settings: StackSettings, name: str) -> frozenset[int]:
    return settings.key_history[name].versions if name in settings.key_history else frozenset()
