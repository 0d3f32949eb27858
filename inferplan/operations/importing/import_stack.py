"""Writes a stack file from servers of others: what a stack can say, with a list of everything else."""

import re
import secrets as randomness
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from pydantic.alias_generators import to_camel

from inferplan.audit.manifest import InputError
from inferplan.components.nodes.accelerators import accelerators
from inferplan.components.serving.spec import MODEL_SPECS
from inferplan.operations.errors import RequestError
from inferplan.operations.importing.fields import Server
from inferplan.operations.importing.servers import read_servers
from inferplan.operations.new_stack.new_stack import SEED_BYTES
from inferplan.rehearsal.secrets import new_salt, passphrase_of
from inferplan.stackfile.errors import InvalidStack
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.tables import table

_NO_COMMIT = "0" * 40
_ATTEMPTS = 20
_MOST_NODES = 100


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The text of a stack file that validates, and what of the source it does not say, a line each."""

    text: str
    models: tuple[str, ...]
    left: tuple[str, ...]


def import_stack(path: Path, *, accelerator: str) -> Imported:
    """A stack file for the servers in `path`. Raises RequestError if there is none, or if the file cannot be read."""
    if accelerator not in accelerators():
        raise RequestError(f"--accelerator: {accelerator!r} is unknown. Choose from: {', '.join(accelerators())}")
    try:
        servers, others = read_servers(path)
    except InputError as error:
        raise RequestError("\n".join(error.errors)) from error
    left = list(others)
    config, models = _base(accelerator), {}
    for server in servers:
        model = _model(server, config["inferplan:storage"])
        left += [f"{server.place}: {each}" for each in server.left]
        if model is not None:
            name = re.sub(r"[^a-z0-9-]+", "-", server.name.lower()).strip("-")[:36]
            models[next(each for each in (name, *(f"{name}-{index}" for index in range(2, 1000))) if each not in models)] = model
    if not models:
        reasons = "; ".join(left[:5]) or "it has no objects"
        raise RequestError(
            f"{path}: There is no server in it that a stack can describe: {reasons}. Name values, a Deployment or an InferenceService"
        )
    replicas = (each.replicas if isinstance(each.replicas, int) else 1 for each in servers)
    config["inferplan:nodePools"]["imported"]["nodes"] = min(_MOST_NODES, max(1, sum(replicas)))
    config["inferplan:models"] = models
    left += ["nodePools: a simulated pool of " + accelerator + " stands for your nodes", "consumers: no key is imported"]
    text = _validated(config, left)
    return Imported(text=text, models=tuple(models), left=tuple(dict.fromkeys(left)))


def _base(accelerator: str) -> dict[str, Any]:
    return {
        "inferplan:cluster": {"provider": "simulated"},
        "inferplan:nodePools": {
            "imported": {"provider": "simulated", "accelerator": accelerator, "nodes": 1},
            "system": {"provider": "simulated", "nodes": 2},
        },
        "inferplan:storage": {},
        "inferplan:models": {},
        "inferplan:gateway": {"exposure": "internal"},
        "inferplan:consumers": {"imported": {"keys": [1]}},
        "inferplan:keyHistory": {"imported": {"issued": 1}},
    }


def _model(server: Server, storage: dict[str, Any]) -> dict[str, Any] | None:
    fields = MODEL_SPECS[server.engine].model_fields
    model: dict[str, Any] = {"engine": server.engine, "pool": "imported", "consumers": ["imported"]}
    weights = _weights(server, storage)
    if isinstance(server.replicas, int):
        model["replicas"] = server.replicas
    if "repository" in fields or "applications" in fields:
        more = (_repository if "repository" in fields else _applications)(server, weights)
        return None if more is None else model | more | ({"accelerators": server.accelerators} if server.accelerators > 1 else {})
    if weights is None:
        server.left.append(f"server {server.name}: its model is unknown; name it with --model in the arguments")
        return None
    model |= weights | dict(_options(server))
    if server.accelerators > 1:
        model.setdefault("tensorParallelSize", server.accelerators)
    return model


def _weights(server: Server, storage: dict[str, Any]) -> dict[str, Any] | None:
    """The weights of `server`, with their preheat if they are at a hub; None if nothing names them."""
    if server.claim:
        storage[server.claim] = {"kind": "pvc", "claimName": server.claim}
        if not server.path:
            server.left.append(f"{server.name}: its files are at the root of claim {server.claim}; move them to {server.name}/")
        return {"weights": {"store": server.claim, "path": server.path or server.name}}
    if not server.model:
        return None
    storage |= {"hub": {"kind": "huggingface"}, "shared": {"kind": "pvc", "claimName": "models"}}
    if not server.revision:
        hint = f"git ls-remote https://huggingface.co/{server.model} HEAD"
        server.left.append(f"revision: {server.model} is not pinned; replace the zeros: {hint}")
    weights = {"store": "hub", "path": server.model, "revision": server.revision or _NO_COMMIT}
    return {"weights": weights, "preheat": {"into": "shared"}}


def _repository(server: Server, weights: dict[str, Any] | None) -> dict[str, Any] | None:
    """The field of an existing repository in a claim; None if the repository is elsewhere."""
    if weights is None or not server.claim:
        server.left.append(f"server {server.name}: its repository is not on a claim; copy it to one, or describe the models by hand")
        return None
    words = [part for word in server.words for part in word.split("=", 1)]
    names = [name for option, name in pairwise(words) if option == "--load-model" and name != "*"]
    if not names:
        server.left.append(f"models: nothing names those of the repository; replace {server.name} by their names")
    server.left += [f"argument {word}" for word in server.words if word.partition("=")[0] != "--load-model" and word not in names]
    return {"repository": {**weights["weights"], "models": names or [server.name]}}


def _applications(server: Server, weights: dict[str, Any] | None) -> dict[str, Any] | None:
    """The fields of applications; None if there are none."""
    server.left += [f"argument {word}" for word in server.words]
    if not server.applications or not server.version:
        missing = "version of its image" if server.applications else "application"
        server.left.append(f"server {server.name}: nothing names its {missing}; write it by hand (docs/engines)")
        return None
    version = table("operations/importing/servers.toml")["applications"]["version"]
    return {"image": server.image, version: server.version, "applications": server.applications, **(weights or {})}


def _options(server: Server) -> Iterator[tuple[str, Any]]:
    """The fields of a stack for the words of a command line; options without a field are `extraArgs`."""
    spec = next(each for each in MODEL_SPECS.values() if "nnodes" in each.model_fields)  # its fields are the options of its command line
    names = [name for name in spec.model_fields if name != "served_model_name"]
    fields = {f"--{part}{name.replace('_', '-')}": to_camel(name) for name in names for part in ("", "no-")}
    fields |= {short: fields[long] for short, long in table("operations/importing/servers.toml")["aliases"].items()}
    extra: list[str] = []
    seen: set[str] = set()
    words = deque(part for word in server.words for part in (word.split("=", 1) if word.startswith("--") else [word]))
    while words:
        option = words.popleft()
        if not option.startswith("-"):
            server.left.append(f"argument {option}")
            continue
        value = words.popleft() if words and not words[0].startswith("-") else None
        if option in fields and fields[option] not in seen:
            seen.add(fields[option])
            yield fields[option], not option.startswith("--no-") if value is None else yaml.safe_load(value)
        else:
            extra += [option] if value is None else [option, value]
    if extra:
        yield "extraArgs", extra


def _validated(config: dict[str, Any], left: list[str]) -> str:
    """The text of the stack; a field that validation rejects is taken out and listed."""
    configured = passphrase_of()
    if configured is None:
        raise RequestError("PULUMI_CONFIG_PASSPHRASE is not set, and the new stack's seed is encrypted with it. Set it first")
    salt, box = new_salt(configured[0])
    config["inferplan:apiKeySeed"] = {"secure": box.encrypt(randomness.token_hex(SEED_BYTES))}
    for _ in range(_ATTEMPTS):
        text = yaml.safe_dump({"encryptionsalt": salt, "config": config}, sort_keys=False, allow_unicode=True, width=140)
        with tempfile.TemporaryDirectory(prefix="inferplan-") as folder:
            path = Path(folder) / "Pulumi.imported.yaml"
            path.write_text(text)
            try:
                validate(read_stack(path, shown_path="imported"))
            except InvalidStack as invalid:
                if not _without_rejected(config, invalid, left):
                    raise RequestError(f"The imported stack is not valid, and nothing was written:\n{invalid}") from invalid
            else:
                return text
    raise RequestError("The imported stack is not valid, and nothing was written. Import fewer servers")


def _without_rejected(config: dict[str, Any], invalid: InvalidStack, left: list[str]) -> bool:
    """Take the rejected fields of models out of `config`. Returns False if an error is about something else."""
    taken = False
    for each in invalid.located:
        if len(each.path) >= 3 and each.path[0] == "models":
            _, name, key, *rest = each.path
            model = config["inferplan:models"].get(name, {})
            value = model.get(key)
            if key in ("engine", "weights", "pool") or value is None:
                continue
            removed = (
                value.pop(rest[0]) if key == "extraArgs" and rest and isinstance(rest[0], int) and rest[0] < len(value) else model.pop(key)
            )
            left.append(f"models.{name}.{key}: {removed!r} was rejected: {each.message}")
            taken = True
            if key == "extraArgs":
                break  # the positions of the others have changed
    return taken
