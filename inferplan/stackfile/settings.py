"""Loads a stack as one frozen value: the only reader of Pulumi's configuration, the stack's name
and the environment.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from inferplan.components.gateway.keys import seed_weakness
from inferplan.documents.errors import (
    InvalidStack,
    KeyPath,
    LocatedError,
    SpecError,
    dotted,
    suggestion,
)
from inferplan.documents.yaml_scalars import AMBIGUOUS
from inferplan.kube.names import cluster_of
from inferplan.kube.paths import value_at
from inferplan.stackfile import imported_keys, public_examples
from inferplan.stackfile.advice import advice, renamed_keys
from inferplan.stackfile.checks import check
from inferplan.stackfile.corrections import without_renamed
from inferplan.stackfile.messages import DISCRIMINATORS, errors_of
from inferplan.stackfile.reader import (
    PREVIOUS_SEED_KEY,
    PROJECT,
    SECRET_KEYS,
    SEED_KEY,
    StackFile,
    read_stack,
    stack_path,
)
from inferplan.stackfile.schema_guide import SchemaGuide
from inferplan.stackfile.stack import Stack, StackSecrets, StackSettings
from inferplan.stackfile.valid_subset import BY_ENTRY, valid_subset, with_samples

Written = Callable[[KeyPath], str | None]
_CONSUMERS = f"{PROJECT}:{imported_keys.SECTION}"


def validate(file: StackFile) -> StackSettings:
    """Check `file` and return its settings. Raises InvalidStack with every error of the file, of
    its values and between them.
    """
    if file.root is None:
        raise InvalidStack(file.shown_path, file.errors)
    settings, errors = _judge(
        _sections(file),
        has_key_seed=f"{PROJECT}:{SEED_KEY}" in file.secrets or file.seed_source is not None,
        file=file,
    )
    if settings is None or errors:
        raise InvalidStack(file.shown_path, errors)
    return settings


def advised(settings: StackSettings, file: StackFile | None) -> Iterator[str]:
    """Return each warning about valid `settings` as one line with its position in `file`; a missing
    key has that of its mapping.
    """
    for each in (
        *advice(settings),
        *(() if file is None else renamed_keys(file.written_keys, settings)),
    ):
        path = settings.written_at(each.path)
        position = None if file is None else file.locate(path)
        where = (
            ""
            if file is None or position is None
            else f"{file.shown_path}:{position.line}:{position.column}: "
        )
        yield f"{where}{dotted(path)}: {each.message}"


def load(*, rehearsal: bool = False) -> Stack:
    """Load the running stack from the engine's configuration, with public keys in a `rehearsal`.
    Raises StackRunError with every error.
    """
    import pulumi
    from pulumi.runtime.config import is_config_secret

    from inferplan.stackfile.run_error import StackRunError

    name = pulumi.get_stack()
    config = pulumi.Config(PROJECT)
    fields = [each.alias or key for key, each in StackSettings.model_fields.items()]
    values = {f"{PROJECT}:{key}": text for key in fields if (text := config.get(key)) is not None}
    seeds = {key: seed for key in SECRET_KEYS if (seed := config.get(key))}
    keys = imported_keys.plain_keys(_parsed(values.get(_CONSUMERS, "")))
    file = _file_behind(values, name)
    if file is not None:
        # The program reads no key without a field, but a misspelt one must be an error.
        values = _sections(file) | values
    settings, located = _judge(values, has_key_seed=SEED_KEY in seeds, file=file)
    reported = {each.path for each in located}
    key_errors = imported_keys.errors(keys, secret=is_config_secret(_CONSUMERS))
    errors = [
        *_seed_errors(seeds, is_config_secret),
        *(each for each in key_errors if each.path not in reported),
    ]
    if settings is not None and not settings.cluster.is_simulated:
        harmless = rehearsal or pulumi.runtime.is_dry_run()
        errors += [
            error
            for key, seed in seeds.items()
            for error in _public_seed_errors(key, seed, name, file, harmless=harmless)
        ]
        located += public_examples.placeholders(file, settings) if file and not harmless else []
    located += [_located(each, file) for each in errors]
    if settings is None or located:
        raise StackRunError(file.shown_path if file else f"stack {name}", located)
    for each in advised(settings, file):
        pulumi.log.warn(each)
    secrets = StackSecrets(tuple(pulumi.Output.secret(seed) for seed in seeds.values()))
    for (consumer, version), key in sorted(keys.items()):
        secrets.imported_keys.setdefault(consumer, {})[version] = pulumi.Output.secret(key)
    return Stack(
        name, settings, secrets, simulated_kubeconfig(cluster_of(pulumi.get_project(), name))
    )


def _located(error: SpecError, file: StackFile | None) -> LocatedError:
    return LocatedError(error.path, error.message, file.locate(error.path) if file else None)


def _sections(file: StackFile) -> dict[str, str]:
    return {key: text for key, text in file.config.items() if key.startswith(f"{PROJECT}:")}


def _seed_errors(
    seeds: Mapping[str, str], is_config_secret: Callable[[str], bool]
) -> Iterator[SpecError]:
    for key, seed in seeds.items():
        if weakness := seed_weakness(seed):
            yield SpecError((key,), f"The seed {weakness}")
        if not is_config_secret(f"{PROJECT}:{key}"):
            yield SpecError(
                (key,), imported_keys.plain_text_message(f"pulumi config set --secret {key}")
            )
    if seeds.get(PREVIOUS_SEED_KEY) == seeds.get(SEED_KEY, ""):
        remedy = f"Set a new {SEED_KEY}, or remove it: pulumi config rm {PREVIOUS_SEED_KEY}"
        yield SpecError((PREVIOUS_SEED_KEY,), f"The seed is the same as {SEED_KEY}. {remedy}")


def _public_seed_errors(
    key: str, seed: str, stack: str, file: StackFile | None, *, harmless: bool
) -> Iterator[SpecError]:
    """The error of keys that anyone can derive; a warning if that is `harmless`, because nothing is
    deployed to a real cluster.
    """
    import pulumi

    why = public_examples.publicity(
        seed, file.encryption_salt if file else None, os.environ.get("PULUMI_CONFIG_PASSPHRASE")
    )
    if why is not None and harmless:
        pulumi.log.warn(public_examples.warning(why, stack, key))
    elif why is not None:
        yield SpecError((key,), public_examples.rejection(why, stack, key))


def simulated_kubeconfig(cluster: str) -> str:
    """The kubeconfig of the simulated `cluster`: $INFERPLAN_KUBECONFIG, else where the rehearsal
    keeps it.
    """
    if named := os.environ.get("INFERPLAN_KUBECONFIG"):
        return named
    if state := os.environ.get("INFERPLAN_STATE_DIR"):
        directory = Path(state)
    else:
        base = os.environ.get("XDG_STATE_HOME")
        directory = (Path(base) if base else Path.home() / ".local" / "state") / "inferplan"
    return str(directory.resolve() / "clusters" / cluster / "kubeconfig")


def _judge(
    config: Mapping[str, str], *, has_key_seed: bool, file: StackFile | None
) -> tuple[StackSettings | None, list[LocatedError]]:
    notation = list(file.errors) if file else []
    data = {key.removeprefix(f"{PROJECT}:"): _structure(key, text) for key, text in config.items()}
    for optional in ("gateway", "benchmark", "monitoring", "budget"):
        if data.get(optional) == {}:
            # An optional structure needs a default in Pulumi.yaml, and the CLI has no other word
            # for "none" there.
            del data[optional]
    settings, errors = _check(
        data, file.written if file else lambda _path: None, has_key_seed=has_key_seed
    )
    if settings is None:
        errors += _hidden_errors(data, errors, has_key_seed=has_key_seed)
    if not has_key_seed and all(error.path != (SEED_KEY,) for error in (*errors, *(notation))):
        remedy = f'Set it with: pulumi config set --secret {SEED_KEY} "$(openssl rand -hex 32)"'
        errors.append(SpecError((SEED_KEY,), f"Missing required secret. {remedy}"))
    errors = without_renamed(errors)
    # The field's own message has the values that it allows.
    judged = {error.path for error in errors}
    notation = [
        each for each in notation if each.path not in judged or AMBIGUOUS not in each.message
    ]
    reported = {each.path for each in notation}
    errors = [
        error for error in errors if error.path not in reported and error.path[-1:] != ("secure",)
    ]
    return settings, [*notation, *(_located(error, file) for error in errors)]


def _check(
    data: dict[str, Any], written: Written, *, has_key_seed: bool
) -> tuple[StackSettings | None, list[SpecError]]:
    try:
        settings = StackSettings.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        errors = errors_of(error, data, StackSettings, written, secrets=SECRET_KEYS)
        return None, errors + _cross_errors_of_valid_sections(
            data, errors, has_key_seed=has_key_seed
        )
    return settings, list(check(settings, has_key_seed=has_key_seed))


def _hidden_errors(
    data: dict[str, Any], errors: list[SpecError], *, has_key_seed: bool
) -> list[SpecError]:
    """The errors that remain whatever valid value replaces an invalid one, except at, below and
    above the values in `errors`.
    """
    paths = list(dict.fromkeys(error.path for error in errors))
    if any(
        len(path) < 2 or (len(path) == 2 and not isinstance(value_at(data, path), dict))
        for path in paths
        if path[0] in BY_ENTRY or len(path) < 2
    ):
        return []  # a section or an entry is missing or unknown, so names may only seem wrong
    guide = SchemaGuide(StackSettings, data)
    low, high = (
        _check(
            with_samples(data, paths, guide, high=high),
            lambda _path: None,
            has_key_seed=has_key_seed,
        )[1]
        for high in (False, True)
    )
    # Another choice of a discriminator has other fields, so nothing is known about its whole entry.
    # The value of an unknown field may be missing elsewhere in its entry.
    unknown = {error.path for error in errors if error.message.startswith("Unknown field")}
    suspect = [
        path[:-1] if path[-1] in DISCRIMINATORS or path in unknown else path for path in paths
    ]
    return [
        error
        for error in low
        if error in high and not any(_overlap(error.path, path) for path in suspect)
    ]


def _overlap(one: KeyPath, other: KeyPath) -> bool:
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _cross_errors_of_valid_sections(
    data: dict[str, Any], errors: list[SpecError], *, has_key_seed: bool
) -> list[SpecError]:
    """The errors between the entries that are valid and refer to no invalid one."""
    part = valid_subset(data, [error.path for error in errors])
    if part is None:
        return []
    rest, left_out = part
    try:
        settings = StackSettings.model_validate_json(json.dumps(rest), strict=True)
    except ValidationError:
        return []
    # An entry that was left out is missing among the known names, so a name that may refer to it is
    # checked once the entry is valid.
    values = (
        (error, value_at(data, error.path)) for error in check(settings, has_key_seed=has_key_seed)
    )
    # An error about a whole section may be about the entry that was left out of it.
    sections = {error.path[:1] for error in errors}
    return [
        error
        for error, value in values
        if error.path not in sections
        and not (isinstance(value, str) and suggestion(value, left_out))
    ]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _structure(key: str, text: str) -> Any:
    return imported_keys.mask_keys(_parsed(text)) if key == _CONSUMERS else _parsed(text)


def _file_behind(config: Mapping[str, str], stack: str) -> StackFile | None:
    """The stack file that `config` came from, None where the CLI was given another one."""
    from pulumi.runtime.settings import get_root_directory

    root = Path(get_root_directory() or Path.cwd())
    path = stack_path(root, stack)
    if not path.is_file():
        return None
    file = read_stack(
        path, shown_path=str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
    )
    written = {key: _structure(key, text) for key, text in file.config.items() if key in config}
    passed = {key: _structure(key, text) for key, text in config.items() if key in written}
    return file if written == passed else None
