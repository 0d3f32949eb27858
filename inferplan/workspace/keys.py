"""The API keys of a consumer: derives them from the seed, and edits their valid versions in the
text of the stack file.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

from inferplan.components.gateway.consumer_spec import KeyRecord, listed
from inferplan.components.gateway.keys import (
    SECRET_KEY,
    consumer_key,
    consumer_secret,
    seed_weakness,
)
from inferplan.components.gateway.proxy import KEPT_SECONDS
from inferplan.documents.errors import InvalidStack
from inferplan.documents.files import draft
from inferplan.documents.yaml_edit import add_entry, add_item, remove_entry, replace_scalar
from inferplan.documents.yaml_tree import MapNode
from inferplan.errors import OperationError, RequestError
from inferplan.stackfile.checks.key_history import record_of
from inferplan.stackfile.reader import PROJECT, StackFile, read_stack
from inferplan.stackfile.settings import validate
from inferplan.stackfile.stack import StackSettings
from inferplan.workspace.project import stack_name
from inferplan.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """One valid version of a consumer's key. `key` is None if the key is imported: the consumer has
    it already.
    """

    version: int
    last_day: date | None
    expired: bool
    key: str | None = field(repr=False)


def today() -> date:
    """The day in UTC, by which keys expire. Plans do not depend on it."""
    return datetime.now(UTC).date()


def api_keys(workspace: Workspace, consumer: str) -> Iterator[ApiKey]:
    seed = _seed(workspace, consumer)
    spec = workspace.settings.consumers[consumer]
    for version in sorted(spec.keys, reverse=True):
        last_day = spec.expires.get(version)
        expired = last_day is not None and last_day < today()
        key = None if version in spec.imported_keys else consumer_key(seed, consumer, version)
        yield ApiKey(version=version, last_day=last_day, expired=expired, key=key)


def newest_key(workspace: Workspace, consumer: str) -> str:
    spec = workspace.settings.consumers[consumer]
    derived = [version for version in spec.keys if version not in spec.imported_keys]
    if not derived:
        raise RequestError(
            f"every key of {consumer} is imported, so none can be derived from the seed. Set"
            " $INFERPLAN_API_KEY to the key."
        )
    return consumer_key(_seed(workspace, consumer), consumer, max(derived))


def _seed(workspace: Workspace, consumer: str) -> str:
    secrets = workspace.secrets
    if secrets.placeholders:
        path = f"'{{.data.{SECRET_KEY}}}'"
        namespace = workspace.settings.namespace
        remedy = (
            "Set PULUMI_CONFIG_PASSPHRASE (or PULUMI_CONFIG_PASSPHRASE_FILE) to the stack's"
            " passphrase and repeat the command"
            if workspace.file.secrets_provider in (None, "", "passphrase")
            and workspace.file.encryption_salt
            else (
                f"The newest key is in the cluster: kubectl -n {namespace} get secret"
                f" {consumer_secret(consumer)} -o jsonpath={path} | base64 -d"
            )
        )
        raise RequestError(f"the keys of {consumer} cannot be derived: {secrets.reason}. {remedy}")
    seed = secrets.values[f"{PROJECT}:apiKeySeed"]
    if error := seed_weakness(seed):
        raise RequestError(f"apiKeySeed {error}")
    return seed


LAST_VERSION = 999_999
MOST_VERSIONS = 10


def add_version(file: StackFile, settings: StackSettings, consumer: str, today: date) -> int:
    """Make the next version of `consumer` valid from `today` and return it; versions only grow.
    Raises OperationError without room.
    """
    versions = settings.consumers[consumer].keys
    version = record_of(settings, consumer).issued + 1
    if len(versions) >= MOST_VERSIONS:
        oldest = min(versions)
        raise RequestError(
            f"{consumer} has {len(versions)} valid keys, the maximum. Retire one, for example"
            f" {oldest}, and add again"
        )
    if version > LAST_VERSION:
        raise RequestError(
            f"{consumer} has version {LAST_VERSION}, the last one. Create a new consumer and move"
            " the clients to it"
        )
    path, entry = (*_section(file, "consumers"), consumer), f'"{version}": "{today}"'

    def edit(text: str) -> str:
        text = add_item(text, (*path, "keys"), str(version), first=versions[0] == max(versions))
        dated = bool(settings.consumers[consumer].issued)
        text = (
            add_entry(text, (*path, "issued"), entry)
            if dated
            else add_entry(text, path, f"issued: {{{entry}}}")
        )
        return _record(text, file, settings, consumer, {*versions, version})

    _rewrite(file, edit, {**_versions(settings), consumer: {*versions, version}})
    return version


def grace_seconds(settings: StackSettings) -> int | None:
    """Seconds for which old gateway pods accept a key that an update retires, None if no gateway
    pod drains.
    """
    gateway = settings.gateway
    return (
        None
        if gateway is None or not gateway.runs_in_namespace
        else gateway.access.deregistration_seconds + KEPT_SECONDS
    )


def retire_version(file: StackFile, settings: StackSettings, consumer: str, version: int) -> None:
    """Make `version` of `consumer` permanently invalid and remove its dates and imported key.
    Raises RequestError for the last or an unknown one.
    """
    spec = settings.consumers[consumer]
    add = f"inferplan keys add {consumer} --stack {stack_name(file.path)}"
    if version not in spec.keys:
        raise RequestError(
            f"{consumer} has no valid key version {version}; valid are {listed(spec.keys)}"
        )
    if len(spec.keys) == 1:
        raise RequestError(
            f"{version} is the last key of {consumer}, which would lock it out; first: {add} (or"
            " remove the consumer)"
        )
    path = (*_section(file, "consumers"), consumer)

    def edit(text: str) -> str:
        text = remove_entry(text, (*path, "keys", spec.keys.index(version)))
        for name, by_version in (
            ("expires", spec.expires),
            ("issued", spec.issued),
            ("importedKeys", spec.imported_keys),
        ):
            if version in by_version:
                text = remove_entry(
                    text, (*path, name) if len(by_version) == 1 else (*path, name, str(version))
                )
        return _record(text, file, settings, consumer, {*spec.keys} - {version})

    _rewrite(file, edit, {**_versions(settings), consumer: set(spec.keys) - {version}})


def _record(
    text: str, file: StackFile, settings: StackSettings, consumer: str, valid: set[int]
) -> str:
    """`text` with the record of `consumer` in keyHistory for its `valid` versions, and those of all
    consumers in a new section.
    """
    issued = max(record_of(settings, consumer).issued, *valid)
    new = KeyRecord.of(issued, {*range(1, issued + 1)} - valid)
    section = _section(file, "keyHistory")
    if not settings.key_history:
        records = {name: record_of(settings, name) for name in settings.consumers} | {consumer: new}
        return add_entry(
            text,
            section[:1],
            f"{section[1]}:"
            f" {{{', '.join(f'{name}: {each.text}' for name, each in records.items())}}}",
        )
    old = settings.key_history.get(consumer)
    if old is None:
        return add_entry(text, section, f"{consumer}: {new.text}")
    path = (*section, consumer)
    text = replace_scalar(text, (*path, "issued"), str(new.issued))
    if old.spent == new.spent:
        return text
    text = remove_entry(text, (*path, "spent")) if "spent" in old.model_fields_set else text
    return add_entry(text, path, f"spent: {new.spent}")


def _versions(settings: StackSettings) -> dict[str, set[int]]:
    return {name: set(each.keys) for name, each in settings.consumers.items()}


def _section(file: StackFile, name: str) -> tuple[str, str]:
    """The path of section `name`, with the project's prefix unless the file leaves it out."""
    config = file.root.items.get("config") if isinstance(file.root, MapNode) else None
    return (
        "config",
        name if isinstance(config, MapNode) and name in config.items else f"{PROJECT}:{name}",
    )


def _rewrite(file: StackFile, edit: Callable[[str], str], wanted: dict[str, set[int]]) -> None:
    """Replace the file by the edited text, whole or not at all, if only the key versions differ,
    and are `wanted`.
    """
    target = file.path.resolve()
    raw = target.read_bytes()
    mark = b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b""
    by_hand = (
        f"Edit consumers in {file.shown_path} by hand, then: inferplan validate"
        f" {stack_name(file.path)}"
    )
    try:
        changed = mark + edit(raw[len(mark) :].decode()).encode()
    except (KeyError, ValueError) as error:
        why = (
            error.args[0]
            if isinstance(error, ValueError)
            else "the list is not where it was when the stack was read"
        )
        raise RequestError(f"{file.shown_path} was left as it is: {why}. {by_hand}") from error
    try:
        with draft(target, changed) as written:
            written.chmod(target.stat().st_mode & 0o777)
            if not _reads_as(written, file, wanted):
                raise RequestError(
                    f"{file.shown_path} was left as it is: the edited text would mean something"
                    f" else. {by_hand}"
                )
            written.replace(target)
    except OSError as error:
        raise OperationError(
            f"{file.shown_path} cannot be written: {error.strerror}; nothing was changed"
        ) from error


def _reads_as(written: Path, before: StackFile, wanted: dict[str, set[int]]) -> bool:
    after = read_stack(written, shown_path=before.shown_path)
    try:
        settings = validate(after)
    except InvalidStack:
        return False
    edited = (f"{PROJECT}:consumers", f"{PROJECT}:keyHistory")
    rest = [
        {name: text for name, text in each.config.items() if name not in edited}
        for each in (before, after)
    ]
    # An imported key is removed with its version; none may be added or changed.
    same = (
        rest[0] == rest[1]
        and after.secrets.items() <= before.secrets.items()
        and before.encryption_salt == after.encryption_salt
    )
    return same and _versions(settings) == wanted
