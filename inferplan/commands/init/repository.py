"""A new repository for a project of its own: files from `template`, one stack with its own secrets."""

import os
import re
import secrets as randomness
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
import yaml

from inferplan.commands.init.wheel import Wheel
from inferplan.components.nodes.pool import NO_ACCELERATOR
from inferplan.documents.errors import InvalidStack
from inferplan.documents.text import joined
from inferplan.errors import OperationError, RequestError
from inferplan.hardware.accelerators import accelerators, lookup
from inferplan.hardware.machines import Machine, machines_of
from inferplan.kube.names import label_of
from inferplan.kube.quantity import bytes_of
from inferplan.planning.new_stack import SEED_BYTES
from inferplan.pulumi_engine.secrets import EXAMPLE_PASSPHRASE, new_salt, passphrase_of
from inferplan.stackfile.json_schema import stack_schema_text
from inferplan.stackfile.reader import read_stack
from inferplan.stackfile.settings import validate
from inferplan.tables import table
from inferplan.workspace.project import short_path

_OFFERS = table("commands/init/places.toml")
PLACES: dict[str, Any] = _OFFERS["places"]
MODELS: dict[str, str] = _OFFERS["models"]
CPU_MODEL: str = _OFFERS["cpu_model"]
_ENGINE = _OFFERS["engine"]
EXISTING = {name: row["command"] for name, row in PLACES.items() if "command" in row}
"""The form of the name of a cluster that exists, and a command that prints it, by the place."""
_TEMPLATE = Path(__file__).parent / "template"
_MODEL = re.compile(
    r"(?P<repository>[\w.-]+/(?P<name>[\w.-]+))@(?P<revision>[0-9a-f]{40}):(?P<size>\S+)"
)
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
_NAME_RULE = "at most 40 lowercase letters, digits and hyphens, starting with a letter"
# Room for activations and the cache of attention, and the part of the memory that engines take by
# default.
_FACTOR, _SHARE = 1.15, 0.9
_SHOWN_NAMES = 10
_CPU_GI = 4


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The choices of a new repository. `model` is a name of MODELS, or `owner/name@commit:size` of
    a hub's repository; `cluster` is the name of one that exists.
    """

    where: str = "local"
    cluster: str = ""
    accelerator: str = "nvidia-l40s"
    model: str = "qwen-3-8b"
    consumers: tuple[str, ...] = ("chat",)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the option and the error of every wrong answer."""
        if self.where not in PLACES:
            yield "where", f"{self.where!r} is unknown. Use {', '.join(PLACES)}"
            return
        if self.cluster and not self._existing():
            yield "cluster", self._no_cluster()
        size = self._size()
        try:
            self._shape(0)
        except ValueError as error:
            yield "accelerator", str(error)
        else:
            if size is not None:
                try:
                    self._shape(size)
                except ValueError as error:
                    yield "model", f"{self.model}: {error}"
        if size is None:
            remedy = "To find the commit, run: git ls-remote https://huggingface.co/OWNER/NAME HEAD"
            ways = f"{', '.join(MODELS)}, or owner/name@commit:size (size as in 17Gi)"
            yield "model", f"{self.model!r} is unknown. Use {ways}. {remedy}"
        for each in self.consumers:
            if not _NAME.fullmatch(each):
                yield "consumer", f"{each!r} is not a name. Use {_NAME_RULE}"

    def _no_cluster(self) -> str:
        if self.where in EXISTING:
            return f"{self.cluster!r} is not {EXISTING[self.where]}"
        return f"no cluster exists for --where {self.where}. Use --where {', '.join(EXISTING)}"

    def _existing(self) -> re.Match[str] | None:
        place = PLACES[self.where]
        return re.fullmatch(place.get("form", "(?!)"), self.cluster or place.get("cluster", ""))

    def _match(self) -> re.Match[str] | None:
        return _MODEL.fullmatch(MODELS.get(self.model, self.model))

    def _size(self) -> int | None:
        """The size of the weights in bytes, None if `model` is not one."""
        match = self._match()
        try:
            return bytes_of(match["size"]) if match else None
        except ValueError:
            return None

    def values(self) -> dict[str, Any]:
        """The values for the stack file. Raises RequestError with every wrong answer."""
        problems = [f"--{option}: {text}" for option, text in self.problems()]
        match, size = self._match(), self._size()
        if problems or match is None or size is None:
            raise RequestError(". ".join(problems))
        parallel, types = self._shape(size)
        name = re.sub(r"^(?![a-z])", "model-", label_of(match["name"]))
        model = {
            "model": self.model if self.model in MODELS else name[:40].rstrip("-"),
            **match.groupdict(),
        }
        pool = self.accelerator.removeprefix("nvidia-")
        regions = PLACES[self.where].get("regions", {})
        region = regions.get(self.accelerator, regions.get("default"))
        return {
            **model,
            "engine": _ENGINE,
            "region": region,
            "where": self.where,
            "existing": existing.groupdict() if (existing := self._existing()) else {},
            "accelerator": self.accelerator,
            "pool": pool,
            "parallel": parallel,
            "types": types,
            # On CPUs: the weights, the engine's processes and its KV cache.
            "memory": -(-size // 2**30) + _CPU_GI,
        }

    def _shape(self, weights: int) -> tuple[int, list[str]]:
        """The number of accelerators for one replica, and instance types that have them. Raises
        ValueError.
        """
        if self.accelerator == NO_ACCELERATOR:
            if not PLACES[self.where].get("cpu"):
                raise ValueError(
                    f"models run on accelerators there. Use {', '.join(choices(self.where))}"
                )
            return 1, []
        kind = lookup(self.accelerator)
        if refusal := kind.engine(_ENGINE).refusal:
            raise ValueError(
                f"{_ENGINE} does not run on {self.accelerator}: {refusal}. Use"
                f" {', '.join(choices(self.where))}"
            )
        needed = weights * _FACTOR / (kind.memory_bytes * _SHARE)
        parallel = next((count for count in (1, 2, 4, 8) if count >= needed), 0)
        if not parallel:
            raise ValueError(
                f"8 {self.accelerator} have less memory than the model needs. Use one with more"
                " memory"
            )
        suitable = [
            each
            for each in _machines(self.where, self.accelerator)
            if each.accelerator_count >= parallel
        ]
        if not suitable:
            raise ValueError(
                f"no instance type there has {parallel} {self.accelerator}. Use"
                f" {', '.join(choices(self.where))}"
            )
        # An autoscaler counts on every node of a pool being alike.
        fewest = min(each.accelerator_count for each in suitable)
        return parallel, [each.name for each in suitable if each.accelerator_count == fewest][:2]


def choices(where: str) -> list[str]:
    """The accelerators that are available there and on which the engine runs, `cpu` for none."""
    plain = [NO_ACCELERATOR] if PLACES[where].get("cpu") else []
    return plain + [
        name
        for name, each in accelerators().items()
        if not each.engine(_ENGINE).refusal and _machines(where, name)
    ]


def _machines(where: str, accelerator: str) -> list[Machine]:
    return [
        each
        for each in machines_of(accelerator)
        if each.provider == PLACES[where].get("machines", each.provider)
    ]


@dataclass(frozen=True, kw_only=True)
class NewRepository:
    """A repository that was written: its folder, its stack, its files relative to the folder."""

    folder: Path
    stack: str
    files: tuple[str, ...]
    passphrase_file: bool = field(default=False)


def check_folder(folder: Path) -> None:
    """Raise RequestError if `folder` has files, with their names, or if it cannot be made."""
    if not folder.exists():
        if not folder.absolute().parent.is_dir():
            raise RequestError(
                f"{folder.parent} does not exist, so {folder.name} cannot be made in it. Make it"
                f" first: mkdir -p {folder.parent}"
            )
        return
    if not folder.is_dir():
        raise RequestError(f"{folder} is a file. Name a new folder, or one without files")
    names = sorted(each.name for each in folder.iterdir())
    if names:
        raise RequestError(
            f"{folder} is not empty: {joined(names, _SHOWN_NAMES)}. Nothing was changed. Name a new"
            " folder, or one without files"
        )


def make_repository(folder: Path, answers: Answers, wheel: Wheel | None = None) -> NewRepository:
    """Write the repository, which installs `wheel`, whole or not at all. Raises RequestError for wrong answers and a folder
    that has files.
    """
    check_folder(folder)
    values = {**answers.values(), "consumers": list(dict.fromkeys(answers.consumers))}
    project = (
        re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.absolute().name).strip("-.")[:100] or "inference"
    )
    # A copy: the new project has nothing to do with the passphrase file of the selected one.
    configured = passphrase_of(dict(os.environ))
    passphrase = randomness.token_urlsafe(SEED_BYTES) if configured is None else configured[0]
    if configured is not None and passphrase in ("", EXAMPLE_PASSPHRASE):
        kind = "public passphrase of the examples" if passphrase else "empty passphrase"
        raise RequestError(
            f"{configured[1]} is the {kind}. Set another one, or unset it: then init writes a"
            " random one to .passphrase"
        )
    salt, box = new_salt(passphrase)
    values |= {
        "project": project,
        "cluster": re.sub(r"[^A-Za-z0-9_-]+", "-", project).strip("-_"),
        "stack": answers.where,
        "salt": salt,
        "seed": box.encrypt(randomness.token_hex(SEED_BYTES)),
    }
    values |= {"version": version("inferplan"), "wheel": wheel}
    files = {
        name: text.encode()
        for name, text in _rendered({**values, "passphrase_file": configured is None})
    }
    if wheel is not None and wheel.content is not None:
        files[wheel.address.removeprefix("./")] = wheel.content
    files["schemas/stack.schema.json"] = stack_schema_text().encode()
    if configured is None:
        files[".passphrase"] = f"{passphrase}\n".encode()
    with _all_or_nothing(folder) as draft:
        for name, content in files.items():
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600 if name == ".passphrase" else 0o666)
            path.write_bytes(content)
        try:
            validate(
                read_stack(
                    draft / "stacks" / f"Pulumi.{answers.where}.yaml",
                    shown_path=f"stacks/Pulumi.{answers.where}.yaml",
                )
            )
        except InvalidStack as error:
            raise RequestError(
                "These answers make a stack that is not valid, so nothing was written. Change"
                f" them. {error}"
            ) from None
    return NewRepository(
        folder=folder,
        stack=answers.where,
        files=tuple(sorted(files)),
        passphrase_file=configured is None,
    )


def _rendered(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The path and the text of each file of the template."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - YAML and Markdown of checked names
    )
    environment.filters["scalar"] = lambda text: yaml.safe_dump(text).splitlines()[0]
    for path in sorted(
        each for each in _TEMPLATE.rglob("*") if each.is_file() and "__pycache__" not in each.parts
    ):
        name = (
            path.relative_to(_TEMPLATE)
            .as_posix()
            .replace("dot-", ".")
            .replace("{stack}", values["stack"])
        )
        text = path.read_text(encoding="utf-8")
        yield (
            name.removesuffix(".j2"),
            environment.from_string(text).render(values) if name.endswith(".j2") else text,
        )


@contextmanager
def _all_or_nothing(folder: Path) -> Iterator[Path]:
    """A folder next to `folder` whose files are moved there after the block. Nothing is left of a
    block that fails or is interrupted.
    """
    draft = folder.absolute().with_name(f".{folder.absolute().name}.{os.getpid()}")
    made, moved = not folder.exists(), list[Path]()
    try:
        draft.mkdir()
        yield draft
        folder.mkdir(exist_ok=True)
        for path in sorted(draft.iterdir()):
            moved.append(folder / path.name)
            path.rename(folder / path.name)
    except BaseException as failed:
        for path in moved:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if made:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(failed, OSError):
            raise OperationError(
                f"{short_path(folder)} cannot be written: {failed.strerror}; nothing was left"
                " behind"
            ) from failed
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
