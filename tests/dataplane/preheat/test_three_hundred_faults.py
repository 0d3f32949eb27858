"""300 faults of stores, generated from kinds, protocols and moments: none makes other bytes READY than
those of one version.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from inferplan.components.sources import VolumeClaim
from tests.lanes import in_full
from tests.patience import PATIENCE_SECONDS

from .local import put as put_locally
from .origins import Origin, bucket_origin, hub_origin, web_origin
from .proxy import BUCKET
from .rig import MIB, MODEL, Job, Outcome, safetensors, tiny_model
from .web import COMMIT

pytestmark = pytest.mark.timeout(3600)

SHARD, OTHER, CONFIG = (
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "config.json",
)
OLD = tiny_model(9 * MIB, 2 * MIB)
Files = dict[str, bytes]
TUNING = {"segment_bytes": 4 * MIB, "streams": 2, "retries": 3, "stall_seconds": 1.0}


@dataclass(frozen=True)
class Fault:
    """What happens, to which file, and when."""

    kind: str
    file: str
    moment: str


def changed(files: Mapping[str, bytes], kind: str, file: str) -> Files:
    """The next version of a model."""
    data = files[file]
    if kind == "deleted":
        return {name: each for name, each in files.items() if name != file}
    if file == CONFIG:
        return {**files, file: b'{"model_type": "qwen2"}'[: len(data)].ljust(len(data) + 7)}
    return {**files, file: safetensors(len(data) + (MIB if kind == "resized" else 0), 99)}


# -- Servers: what the answers to the requests for a file are.
STATUSES = (
    204,
    301,
    304,
    400,
    401,
    403,
    404,
    409,
    410,
    412,
    416,
    418,
    429,
    500,
    502,
    503,
    504,
    507,
)
KINDS = [
    *(f"status {code}" for code in STATUSES),
    *(f"{how} {where}" for how in ("cut", "undelimited", "flip") for where in (0, 1, 8, 0.5, 0.99)),
    *("stall", "replaced", "resized", "deleted", "lists fail", "head 403", "head 404", "head 503"),
]
MOMENTS = {
    "the first request": lambda n: n == 1,
    "the second": lambda n: n == 2,
    "the third": lambda n: n == 3,
    "every other": lambda n: n % 2 == 0,
    "all from the second on": lambda n: n > 1,
    "all": lambda _n: True,
}


def action(kind: str, size: int, number: int) -> tuple[Any, ...]:
    how, _, where = kind.partition(" ")
    if how == "status":
        return ("status", int(where))
    if how == "stall":
        return ("stall",)
    at = int(float(where) * size) if "." in where else int(where)
    # The same wrong byte every time would be a server that lies.
    return (how, at + (number if how == "flip" else 0))


@dataclass(frozen=True)
class Served:
    """A server with the model, and how another version gets there while it is read."""

    origin: Origin
    write: Callable[[str, bytes], None]
    remove: Callable[[str], None]
    pinned: bool = False
    """The stack names a version, and no other may arrive."""

    def run(self, make: Callable[..., Job], fault: Fault) -> tuple[Job, Outcome, list[Files]]:
        origin, once, versions = self.origin, threading.Event(), [OLD]
        for server in origin.servers:
            server.reset()
        for file, data in OLD.items():
            self.write(file, data)
        data, meant = OLD[fault.file], MOMENTS[fault.moment]
        if fault.kind in ("replaced", "resized", "deleted"):
            new = changed(OLD, fault.kind, fault.file)
            versions += [] if self.pinned else [new]

            def change() -> None:
                if not once.is_set():
                    once.set()
                    if fault.file in new:
                        self.write(fault.file, new[fault.file])
                    else:
                        self.remove(fault.file)

            origin.fail(lambda _path, n: ("call", change) if meant(n) else None, fault.file)
        elif fault.kind == "lists fail":
            origin.servers[0].faults.failing_lists = 99 if fault.moment.startswith("all") else 2
        elif fault.kind.startswith("head"):
            code = int(fault.kind[5:])
            for server in origin.servers:
                server.faults.heads = lambda _path, n: code if meant(n) else None
        else:
            origin.fail(
                lambda _path, n: action(fault.kind, len(data), n) if meant(n) else None, fault.file
            )
        made = make(source=origin.source, weights=origin.weights, tuning=TUNING)
        return made, made.run(), versions


def served(request: pytest.FixtureRequest) -> dict[str, Served]:
    get = request.getfixturevalue
    bucket, web, hub = get("bucket"), get("web"), get("hub")
    s3 = bucket_origin(get("store"), get("proxy"), get("put"))
    http, of_hub = web_origin(web), hub_origin(hub)
    files = hub.commits[COMMIT].files

    def write_hub(file: str, data: bytes) -> None:
        # What the commit says of a large file stays; its bytes do not.
        if hub.is_large(data) and file in files:
            hub.blobs.files[of_hub.address(file)] = data, 1_700_000_000
        else:
            files[file] = data

    return {
        "S3": Served(
            s3,
            lambda file, data: s3.put({file: data}),
            lambda file: bucket.delete_object(Bucket=BUCKET, Key=f"llm/{MODEL}/{file}"),
        ),
        "HTTP": Served(
            http,
            lambda file, data: http.put({file: data}),
            lambda file: web.files.pop(http.address(file)),
        ),
        "hub": Served(of_hub, write_hub, files.pop, pinned=True),
    }


# -- A mounted share: what happens to the files themselves.
DAMAGES: dict[str, Callable[[Path, Path, Files], object]] = {
    "replaced": lambda path, _outside, new: _move(path, new[path.name]),
    "resized": lambda path, _outside, new: _move(path, new[path.name]),
    "overwritten in place": lambda path, _outside, new: _write(path, 0, new[path.name]),
    "a flipped byte": lambda path, _outside, _new: _write(path, path.stat().st_size // 2, b"\xff"),
    "cut to half": lambda path, _outside, _new: os.truncate(path, path.stat().st_size // 2),
    "emptied": lambda path, _outside, _new: os.truncate(path, 0),
    "grown": lambda path, _outside, _new: _write(path, path.stat().st_size, b"x" * MIB),
    "deleted": lambda path, _outside, _new: path.unlink(),
    "a link out of the store": lambda path, outside, _new: _link(path, outside / path.name),
    "a link to itself": lambda path, _outside, _new: _link(path, path),
    "a named pipe": lambda path, _outside, _new: (path.unlink(), os.mkfifo(path)),
    "a directory": lambda path, _outside, _new: (path.unlink(), path.mkdir()),
    "the model's folder is a link": lambda path, outside, _new: (
        path.parent.rename(path.parent.with_name("aside")),
        path.parent.symlink_to(outside),
    ),
}
TIMES = {"before": -1, "at the start": 0, "after the first bytes": 1, "in the middle": 6 * MIB}


def _move(path: Path, data: bytes) -> None:
    part = path.parent.with_name("part")
    part.write_bytes(data)
    part.replace(path)


def _write(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def _link(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


def _run_of_share(
    folder: Path, make: Callable[..., Job], fault: Fault, *, sums: bool
) -> tuple[Job, Outcome, list[Files]]:
    source, outside = folder / "source" / MODEL, folder / "outside"
    put_locally(source, OLD, sums=sums)
    put_locally(
        outside,
        {name: safetensors(len(d), 5) if len(d) > MIB else b"{}" for name, d in OLD.items()},
    )
    new = changed(OLD, "resized" if fault.kind == "resized" else "replaced", fault.file)
    made = make(source=VolumeClaim(name="origin"), mounts={"/source": source.parent}, tuning=TUNING)

    def damage() -> None:
        DAMAGES[fault.kind](source / fault.file, outside, new)

    start = TIMES[fault.moment]
    if start < 0:
        damage()
        outcome = made.run()
    else:
        process = made.underway(lambda: made.staged() >= start, may_fail=True)
        damage()
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        outcome = Outcome(process.returncode, output)
    versions = [OLD]
    if not source.is_symlink():
        # Without sums, what is a regular file in the store at the end is the store's version.
        versions.append(
            {p.name: p.read_bytes() for p in source.iterdir() if p.is_file() and not p.is_symlink()}
        )
    allowed = [{k: v for k, v in each.items() if k != "SHA256SUMS"} for each in versions]
    return made, outcome, [OLD] if sums and fault.kind != "deleted" else allowed


def faults(seed: int) -> Iterator[tuple[str, Fault]]:
    """306 of all combinations, at random: 76 of each server, and 78 of shares."""
    chance = Random(seed)  # noqa: S311 - test data, nothing secret
    for store in ("S3", "HTTP", "hub"):
        every = [Fault(*each) for each in product(KINDS, (SHARD, OTHER, CONFIG), MOMENTS)]
        yield from ((store, each) for each in chance.sample(every, 76))
    every = [Fault(*each) for each in product(DAMAGES, (SHARD, OTHER, CONFIG), TIMES)]
    for store in ("share", "share with sums"):
        yield from ((store, each) for each in chance.sample(every, 39))


def problem(made: Job, outcome: Outcome, versions: list[Files]) -> str:
    """What is wrong with the end of a run, "" if nothing is."""
    if made.ready != (outcome.code == 0):
        return f"exit code {outcome.code}, READY {made.ready}"
    if made.ready:
        files = {k: v for k, v in made.files().items() if k != "SHA256SUMS"}
        return "" if files in versions else "READY with wrong bytes"
    own = [each for each in ("Traceback", "error of inferplan") if each in outcome.output]
    return f"an error of our own: {outcome.output[-600:]}" if own else ""


@pytest.mark.parametrize(("part", "seed"), [(6, 49), *in_full((1, 49))])
def test_no_fault_of_a_store_makes_wrong_bytes_ready(
    request: pytest.FixtureRequest, tmp_path: Path, part: int, seed: int
):
    cases = list(faults(seed))
    assert len(cases) >= 300
    stores, ends, wrong = served(request), Counter[str](), []
    for number, (store, fault) in enumerate(cases[:: 8 * part if part > 1 else 1]):
        folder = tmp_path / str(number)
        (folder / "target").mkdir(parents=True)
        make = partial(Job, folder / "target")
        try:
            if store in stores:
                made, outcome, versions = stores[store].run(make, fault)
            else:
                made, outcome, versions = _run_of_share(folder, make, fault, sums="sums" in store)
        except subprocess.TimeoutExpired:
            wrong.append((store, fault, f"no end within {PATIENCE_SECONDS} s"))
            continue
        if trouble := problem(made, outcome, versions):
            wrong.append((store, fault, trouble))
        ends[f"{store}: exit code {outcome.code}"] += 1
    print(sum(ends.values()), "faults:", dict(sorted(ends.items())))
    assert not wrong, wrong
