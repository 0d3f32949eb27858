"""Judges the arguments and variables of vLLM by the tables of its releases (`values/`): what the
parser and the configuration classes of a release reject ends the server at its start.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from inferplan.components.serving.vllm.tables import VALUES_FOLDER, spellings
from inferplan.documents.errors import suggestion
from inferplan.tables import table

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([kmgt]i?)?|auto", re.IGNORECASE)
_WORD = re.compile(r"(?=.{1,24}\Z)[A-Za-z]*[a-z_=-]*[0-9.]*[A-Za-z_-]*[0-9.]*")
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000, "g": 10**9, "t": 10**12}
# An option that names a file with further parsers or connectors: its names are in no table.
_PLUGINS = {
    "--tool-call-parser": "--tool-parser-plugin",
    "--reasoning-parser": "--reasoning-parser-plugin",
}
# Options that may stand more than once.
_REPEATABLE = frozenset({"--api-key", "--lora-modules", "--middleware"})


class Argument(NamedTuple):
    """One option of a command line: its place in the list, its full name, the key below it that a
    dotted option names, and its value, None without one.
    """

    index: int
    name: str
    key: str
    value: str | None


@cache
def releases() -> tuple[str, ...]:
    """The releases that have a table, the newest last."""
    names = (path.stem for path in VALUES_FOLDER.glob("*.json"))
    return tuple(sorted(names, key=lambda name: [int(part) for part in name.split(".")]))


@cache
def values(release: str) -> Mapping[str, Any]:
    return json.loads((VALUES_FOLDER / f"{release}.json").read_text(encoding="utf-8"))


@cache
def known_options(release: str) -> frozenset[str]:
    return frozenset(spellings(values(release)["options"]))


def release_of(image: str) -> str:
    """The release whose table judges the server in `image`: its own by the tag, else the newest."""
    own = release_in(image)
    return own if own in releases() else releases()[-1]


def is_of_release(image: str) -> bool:
    """Return whether the release in the tag of `image` has a table."""
    return release_in(image) in releases()


def release_in(image: str) -> str:
    """The release in the tag of `image`, as vLLM's own images have it."""
    _, _, tag = image.partition("@")[0].rpartition(":")
    return tag.removeprefix("v").partition("-")[0]


def parsed(arguments: Sequence[str], release: str) -> Iterator[Argument]:
    """The options among `arguments`, as this release of vLLM reads them."""
    for index, word in enumerate(arguments):
        if not word.startswith("--"):
            continue
        name, has_value, value = word.partition("=")
        name, _, key = name.partition(".")
        name = full_name(name.replace("_", "-"), release)
        rest = arguments[index + 1] if index + 1 < len(arguments) else "--"
        if not has_value and not rest.startswith("--"):
            value, has_value = rest, "="
        yield Argument(index, name, key, value if has_value else None)


@cache
def full_name(name: str, release: str) -> str:
    """The option that vLLM takes `name` for, which may be an abbreviation."""
    return min((each for each in known_options(release) if each.startswith(name)), default=name)


def unknown(arguments: Sequence[str], release: str) -> Iterator[tuple[int, str]]:
    """Yield the place and the problem of each option that vLLM does not have."""
    for each in parsed(arguments, release):
        if each.name not in known_options(release):
            instead = _instead(each.name, release)
            problem = f"{each.name!r} is not an option of vLLM {release}.{instead}"
            # The value of an unknown option may be a secret.
            word = f" vLLM says: unrecognized arguments: {each.name}"
            yield each.index, f"{problem} An unknown option ends the server at its start.{word}"


def _instead(name: str, release: str) -> str:
    removed = table("components/serving/vllm/engine_args.toml")["removed"]
    return f" {removed[name]}" if name in removed else suggestion(name, known_options(release))


def problems(
    arguments: Sequence[str], fields: Mapping[str, Any], release: str
) -> Iterator[tuple[int, str]]:
    """Yield the place and the problem of each argument that vLLM rejects at its start; `fields` are
    the engine arguments that the stack sets by name.
    """
    options = [each for each in parsed(arguments, release) if each.name in known_options(release)]
    by_name = {each.name: each for each in options if not each.key}
    for each in options:
        row = values(release)["options"].get(each.name, {})
        first = next(other for other in options if (other.name, other.key) == (each.name, each.key))
        if first.index != each.index and each.name not in _REPEATABLE:
            yield each.index, f"{each.name} stands twice, and vLLM takes the last. Write it once."
        elif _PLUGINS.get(each.name) not in by_name:
            for problem in value_problems(each, row):
                yield each.index, problem
    yield from _contradictions(by_name, fields)
    yield from _lone_peers(options)


def _lone_peers(options: Sequence[Argument]) -> Iterator[tuple[int, str]]:
    """Yield the first argument of a KV transfer to another server, which the model does not have."""
    transfers = [each for each in options if each.name == "--kv-transfer-config"]
    settings: dict[str, Any] = {}
    for each in transfers:
        loaded = {each.key.replace("-", "_"): each.value} if each.key else _loaded(each.value or "")
        settings |= loaded if isinstance(loaded, dict) else {}
    connector, role = (str(settings.get(key, "")) for key in ("kv_connector", "kv_role"))
    needs = table("components/serving/vllm/engine_args.toml")["transfers"]
    alone = [*({connector} & {*needs["connectors"]}), *({role} & {*needs["roles"]})]
    if alone and role in ("", "kv_both", *needs["roles"]):
        problem = (
            f"{' with '.join(alone)} moves the KV cache between this server and a peer, and this"
            " model has none. Write prefill: {replicas: 1}, decode: {replicas: 1} instead, or keep"
            " the cache in this server's memory:"
            ' {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}.'
        )
        yield transfers[0].index, problem


def value_problems(each: Argument, row: Mapping[str, Any]) -> Iterator[str]:
    name, value = each.name, each.value
    if value is None:
        if each.key or (row.get("takes") not in ("flag", "switch", "list") and row):
            yield f"{name} needs a value. Write it after the option."
    elif "fields" in row:
        yield from _field_problems(name, each.key, value, row["fields"])
    elif "values" in row:
        if value not in row["values"]:
            yield choice(name, value, row["values"])
    elif row.get("takes") in ("int", "float") and not _NUMBER.fullmatch(value):
        yield f"{_quoted(value)} is not a number, which {name} takes. Write {name} <number>."
    elif row.get("takes") == "json" and not each.key and not isinstance(_loaded(value), dict):
        pairs = re.fullmatch(r"([a-z_]+)=([0-9]+)", value)
        form = f'{{"{pairs[1]}": {pairs[2]}}}' if pairs else "{...}"
        word = _own_word(f"argument {name}: Value {value} cannot be converted to …", value)
        yield f"{_quoted(value)} is not a JSON object, which {name} takes. Write '{form}'.{word}"


def _field_problems(name: str, key: str, value: str, fields: Mapping[str, Any]) -> Iterator[str]:
    loaded = {key.partition(".")[0].replace("-", "_"): value} if key else _loaded(value)
    if not isinstance(loaded, dict):
        if not re.fullmatch(r"[0-9]+", value):
            yield f"{_quoted(value)} is not a JSON object, which {name} takes. Write '{{...}}'."
        return
    for field, item in loaded.items():
        allowed = fields.get(field)
        if field not in fields:
            yield f"{name} has no field {_quoted(field)}.{suggestion(field, fields)} Fields: {', '.join(fields)}."
        elif field == "kv_connector" and "kv_connector_module_path" in loaded:
            continue
        elif allowed and isinstance(item, str) and item not in allowed:
            yield choice(f"{name}.{field}", item, allowed)


def choice(name: str, value: str, allowed: Collection[str], says: str = "") -> str:
    """The error about a value that is not `allowed`, with the sentence that vLLM `says`."""
    option = name if name.startswith("--") else f"--{name.replace('_', '-')}"
    known = table("components/serving/vllm/engine_args.toml")["says"].get(option, "")
    return (
        f"{_quoted(value)} is not a value of {name}.{suggestion(value, allowed)} Allowed:"
        f" {', '.join(allowed)}.{_own_word(says or known.replace('VALUE', value), value)}"
    )


def _own_word(sentence: str, value: str | None) -> str:
    """The engine's own sentence, as a log has it; "" if `value` may be a secret."""
    if not sentence or (value is not None and not _WORD.fullmatch(value)):
        return ""
    return f" vLLM says: {sentence.rstrip()}"


def _quoted(value: str) -> str:
    """`value`, unless it may be more than the name of a value: what stands there by mistake may be
    a secret.
    """
    return repr(value) if _WORD.fullmatch(value) else "The value"


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _contradictions(
    options: Mapping[str, Argument], fields: Mapping[str, Any]
) -> Iterator[tuple[int, str]]:
    if (choice := options.get("--enable-auto-tool-choice")) and "--tool-call-parser" not in options:
        problem = "--enable-auto-tool-choice needs --tool-call-parser"
        yield choice.index, f"{problem}. Add it with the parser of the model, for example hermes."
    length, tokens = (
        amount(fields.get(field) or (each.value if (each := options.get(option)) else None))
        for field, option in (
            ("max_model_len", "--max-model-len"),
            ("max_num_batched_tokens", "--max-num-batched-tokens"),
        )
    )
    chunks = options.get("--no-enable-chunked-prefill")
    if chunks and tokens and length and tokens < length:
        problem = (
            f"without chunked prefill a step must hold a whole prompt, and {tokens} batched tokens"
            f" are fewer than the context of {length}. Raise maxNumBatchedTokens to {length}, or"
            f" remove --no-enable-chunked-prefill. vLLM says: max_num_batched_tokens ({tokens}) is"
            f" smaller than max_model_len ({length})."
        )
        yield chunks.index, problem


def amount(value: Any) -> int | None:
    """The number of tokens that vLLM reads in `value` (4096, 4k), None for other words."""
    text = str(value).lower()
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kmgt]?)", text)
    return int(float(match[1]) * _SCALE[match[2]]) if match else None


def field_problems(fields: Mapping[str, Any], release: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the problem of each engine argument, set by name, whose value vLLM does
    not have.
    """
    for field, value in fields.items():
        row = values(release)["options"].get(f"--{field.replace('_', '-')}", {})
        allowed = row.get("values")
        if allowed and isinstance(value, str) and value not in allowed:
            yield field, choice(field, value, allowed)
    tokens, sequences = fields.get("max_num_batched_tokens"), fields.get("max_num_seqs")
    if tokens and sequences and tokens < sequences:
        problem = (
            f"a step of {tokens} tokens cannot hold one token of each of {sequences} sequences"
            f" (maxNumSeqs). Raise it to {sequences} at least, or lower maxNumSeqs. vLLM says:"
            f" max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs"
            f" ({sequences})."
        )
        yield "max_num_batched_tokens", problem


def variable_problems(environment: Mapping[str, Any], release: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the problem of each variable whose value vLLM rejects."""
    for name, value in environment.items():
        allowed = values(release)["environment"].get(name)
        if allowed and isinstance(value, str) and value.lower() not in map(str.lower, allowed):
            yield name, choice(name, value, allowed, f"Invalid value {value!r} for {name}")


def ignored_variables(environment: Mapping[str, Any], release: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of vLLM that this release does not read, with the sentence about each."""
    for name in environment:
        if name.startswith("VLLM_") and name not in values(release)["environment"]:
            near = suggestion(name, values(release)["environment"])
            yield name, f"vLLM {release} does not read {name}, and ignores it.{near}"
