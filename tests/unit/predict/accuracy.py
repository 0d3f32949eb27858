"""Compares predictions with published measurements: `python -m tests.unit.predict.accuracy` writes
the table and the bands.

The measurements are in `measurements.csv`, each with its source. A load test starts `clients` at
once, and each sends requests one after the other, so predictions are of the same closed loop.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from inferplan.predict.batches import OVERHEAD, Replica, Speed
from inferplan.predict.library import Kernels, UnknownSpeedError, kernels

_FEWEST = 5
"""Comparisons on one accelerator below which the band is that of all."""
_LEAST_CAPACITY = 0.15
"""The least error of a throughput: the load tests are of few clients, and servers at their limit
are slower than the sum of their steps.
"""
_ROUNDS = 30
_TITLE = "# How accurate predictions are"
_MEASUREMENTS = Path(__file__).with_name("measurements.csv")
_ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Comparison:
    """One measurement with the relative errors of its prediction; `unknown` says why there is none."""

    row: dict[str, str]
    ttft: float = 0.0
    itl: float = 0.0
    capacity: float = 0.0
    band: str = ""
    unknown: str = ""


def compared() -> Iterator[Comparison]:
    for row in csv.DictReader(_MEASUREMENTS.read_text(encoding="utf-8").splitlines()):
        try:
            yield _comparison(row, _kernels(row))
        except UnknownSpeedError as error:
            yield Comparison(row, unknown=error.reason)


def _kernels(row: dict[str, str]) -> Kernels:
    return kernels(
        model=row["model"],
        accelerator=row["accelerator"],
        framework=row["framework"],
        tensor_parallel_size=int(row["tp"]),
        quantization=row["quantization"] or None,
    )


def _comparison(row: dict[str, str], steps: Kernels) -> Comparison:
    clients = int(row["clients"])
    lengths = {"prompt": int(row["input"]), "answer": int(row["output"])}
    replica = Replica(steps=steps, cached=0, slots=clients, tokens_per_step=8192, **lengths)
    speed = closed(replica, clients)
    # What the clients got in a second, which plans call the capacity of so many slots.
    hold = (float(row["ttft_ms"]) + (replica.answer - 1) * float(row["itl_ms"])) / 1000
    errors = {
        "capacity": replica.capacity * hold / clients - 1,
        "ttft": speed.ttft * 1000 / float(row["ttft_ms"]) - 1,
        "itl": speed.itl * 1000 / float(row["itl_ms"]) - 1,
    }
    return Comparison(row, **errors, band=f"{steps.framework}-{steps.system}")


def closed(replica: Replica, clients: int) -> Speed:
    """The mean speed for `clients` that start at once and each send ten requests, one after the
    other.
    """
    running = float(min(clients, replica.slots))
    decode, extra, prefill = (
        replica.decode(running),
        replica.delay(running - 1),
        replica.prefill(running - 1),
    )
    rate = running / (prefill + replica.answer * decode)
    ttft = itl = 0.0
    for _ in range(_ROUNDS):
        itl = decode / max(1 - min(rate * extra, 0.95), 0.05)
        together = (running - 1) / 2 * prefill
        load = min(rate * prefill, 0.95)
        queue = min(prefill * load / (2 * (1 - load)), together)
        ttft = OVERHEAD + prefill + decode / 2 + queue + together / 10
        rate = (rate + running / (ttft + (replica.answer - 1) * itl)) / 2
    return Speed(ttft=ttft, itl=itl, running=running)


def bands(found: list[Comparison]) -> dict[str, tuple[float, float, float, int]]:
    """The errors of TTFT, ITL and capacity that 80% of the comparisons kept, and their number: of each
    accelerator with enough, and of all.
    """
    groups: dict[str, list[Comparison]] = defaultdict(list)
    for each in found:
        if not each.unknown:
            groups[each.band].append(each)
            groups["all"].append(each)
    return {
        name: (
            _kept([abs(each.ttft) for each in group]),
            _kept([abs(each.itl) for each in group]),
            max(_kept([abs(each.capacity) for each in group]), _LEAST_CAPACITY),
            len(group),
        )
        for name, group in sorted(groups.items())
        if name == "all" or len(group) >= _FEWEST
    }


def _kept(errors: list[float]) -> float:
    """The error that 80% stay within, rounded up to whole percents."""
    ordered = sorted(errors)
    return round(ordered[min(int(0.8 * len(ordered)), len(ordered) - 1)] + 0.005, 2)


def page(found: list[Comparison]) -> Iterator[str]:
    """The page docs/accuracy.md."""
    yield f"{_TITLE}\n"
    count = sum(not each.unknown for each in found)
    yield (
        f"{count} published measurements, each with its prediction by the formulas of [predictions](prediction.md). Rows of `silicon_sample.csv` are load tests that the "
        "wheel of aiconfigurator-core 0.12.0 publishes with date and image, by their id; kernels are measured one by one, and no formula "
        "is fitted to them except the 20 ms of a request outside of the engine.\n"
    )
    yield "| measurement | accelerator | engine | model | workload | TTFT measured, predicted | ITL measured, predicted | throughput |"
    yield "|---|---|---|---|---|---|---|---|"
    for each in found:
        row = each.row
        load = f"{row['input']} in, {row['output']} out, {row['clients']} clients"
        accelerators = f"{row['tp']} x {row['accelerator']}"
        link = (
            f"[{row['name']}]({row['link']})"
            if "://" in row["link"]
            else f"{row['name']} ({row['link']})"
        )
        source = f"{link}, {row['id']}"
        times = (
            [
                _cell(row["ttft_ms"], each.ttft),
                _cell(row["itl_ms"], each.itl),
                f"{each.capacity:+.0%}",
            ]
            if not each.unknown
            else [f"unknown: {each.unknown}", "", ""]
        )
        quantization = f" {row['quantization']}" if row["quantization"] else ""
        yield f"| {source} | {accelerators} | {row['version']} | {row['model']}{quantization} | {load} | {times[0]} | {times[1]} | {times[2]} |"
    yield "\n| accelerator | measurements | 80% within, TTFT | 80% within, ITL | 80% within, throughput |\n|---|---|---|---|---|"
    for name, (ttft, itl, capacity, count) in bands(found).items():
        yield f"| {name} | {count} | {ttft:.0%} | {itl:.0%} | {capacity:.0%} |"


def _cell(measured: str, error: float) -> str:
    value = float(measured)
    return f"{value:.4g} ms, {value * (1 + error):.3g} ms ({error:+.0%})"


def texts(found: list[Comparison]) -> dict[Path, str]:
    """The page on accuracy, and the bands that reports show."""
    lines = [
        "# Written by `python -m tests.unit.predict.accuracy`; docs/accuracy.md has the comparisons."
    ]
    for name, (ttft, itl, capacity, count) in bands(found).items():
        lines += [f"[bands.{name}]", f"ttft = {ttft}", f"itl = {itl}"]
        lines += [f"capacity = {capacity}", f"comparisons = {count}", ""]
    return {
        _ROOT / "docs" / "accuracy.md": "\n".join(page(found)) + "\n",
        _ROOT / "inferplan" / "predict" / "data" / "bands.toml": "\n".join(lines).rstrip() + "\n",
    }


if __name__ == "__main__":
    for path, text in texts(list(compared())).items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {path}\n")
