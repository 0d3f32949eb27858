"""Compares predictions with published measurements: `python -m tests.unit.predict.accuracy` writes
the page and the bands.

Each row of `measurements.csv` and `held_back.csv` goes through the functions that plans call. Rows
with `clients` are load tests of clients that send requests one after the other, rows with `rate`
have a percentile of requests that arrive at random, and rows with `tokens_per_second` are of
servers that got all requests at once. Constants and bands come from the first file alone.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from inferplan.predict.bands import Band, band_of
from inferplan.predict.batches import Replica
from inferplan.predict.configurations import UnknownSpeedError
from inferplan.predict.forecast import replica_of
from inferplan.predict.library import kernels
from inferplan.predict.memory import layers_of
from inferplan.predict.traffic import Traffic
from tests.unit.predict.bands import (
    FEWEST,
    FIGURES,
    KEPT,
    MANY,
    TIMES_KEPT,
    Comparison,
    bands,
    shares,
)

_REQUESTS = 10
"""Requests that each client of a load test sends, as the scripts of the sources do."""
_SPREAD = 0.9
"""The mean length of prompts and answers of InferenceX, which are 80 to 100% of the stated one: its
RANDOM_RANGE_RATIO is 0.8 (README of SemiAnalysisAI/InferenceX). Its rows state a day.
"""
_TITLE = "# How accurate predictions are"
_ROOT = Path(__file__).parents[3]
FITTED, HELD_BACK = (
    Path(__file__).with_name(f"{name}.csv") for name in ("measurements", "held_back")
)


def compared(path: Path) -> Iterator[Comparison]:
    for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        try:
            yield _comparison(row)
        except UnknownSpeedError as error:
            yield Comparison(row, {}, unknown=error.reason)


def _replica(row: dict[str, str]) -> Replica:
    """The replica that a plan has for the row, from the facts of its stack."""
    clients = int(row["clients"] or 0)
    spread = _SPREAD if re.match(r"silicon_sample [0-9]", row["name"]) else 1
    batching = {
        "framework": row["framework"],
        "tensorParallelSize": int(row["tp"]),
        "pipelineParallelSize": 1,
        "maxSequences": int(row["sequences"] or max(clients, 256)),
        "maxTokensPerStep": int(row["step"] or 8192),
        "memoryShare": 0.9,
        "ofFree": row["framework"] == "trtllm",
        "quantization": row["quantization"] or None,
    }
    # The image of a recorded release of vLLM, as a stack has it.
    if match := re.fullmatch(r"vllm ([0-9.]+)", row["version"]):
        batching["image"] = f"docker.io/vllm/vllm-openai:v{match[1]}"
    traffic = Traffic(
        requests_per_second=float(row["rate"] or 1),
        input_tokens=round(spread * int(row["input"])),
        output_tokens=round(spread * int(row["output"])),
    )
    facts = {"batching": batching, "traffic": {"model": row["model"]}}
    return replica_of(facts, {"accelerator": row["accelerator"]}, traffic)[0]


def _comparison(row: dict[str, str]) -> Comparison:
    replica = _replica(row)
    steps = replica.steps
    ttft, itl = (float(row[name] or 0) / 1000 for name in ("ttft_ms", "itl_ms"))
    if row["tokens_per_second"]:
        errors = {"capacity": replica.capacity * replica.answer / float(row["tokens_per_second"])}
    elif row["rate"]:
        speed = replica.at(float(row["rate"]), int(row["percentile"]))
        if speed is None:
            raise UnknownSpeedError("the replica is overloaded at this rate")
        errors = {"percentile_ttft": speed.ttft / ttft, "percentile_itl": speed.itl / itl}
    else:
        clients = int(row["clients"])
        mean = replica.closed(clients, _REQUESTS)
        measured = clients / (ttft + (replica.answer - 1) * itl)
        errors = {
            "ttft": mean.ttft / ttft,
            "itl": mean.itl / itl,
            "capacity": replace(replica, slots=min(clients, replica.slots)).capacity / measured,
        }
    errors = {name: ratio - 1 for name, ratio in errors.items()}
    layers = layers_of(steps.model)
    version = f"{steps.framework} {steps.data}"
    return Comparison(row, errors, steps.framework, steps.system, layers, version, steps.model)


def band(each: Comparison) -> Band:
    return band_of(each.framework, each.system, each.layers)


def held(found: Sequence[Comparison]) -> tuple[int, int]:
    """The number of figures that lie in the stated band, and of all figures."""
    within = [
        abs(error) <= getattr(band(each), figure)
        for each in found
        for figure, error in each.errors.items()
    ]
    return sum(within), len(within)


def page(fitted: Sequence[Comparison], apart: Sequence[Comparison]) -> Iterator[str]:
    """The page docs/accuracy.md."""
    yield f"{_TITLE}\n"
    count = sum(not each.unknown for each in (*fitted, *apart))
    yield (
        f"{count} published measurements, each with the prediction that `plan` makes"
        " ([predictions](prediction.md)). A row names the engine that was measured and the version of"
        " the kernels that predict it. Load tests have mean times. Maximum throughputs come from"
        " servers that received all requests at once, percentiles from requests that arrive at"
        " random.\n"
    )
    yield "## Measurements that were not used for fitting\n"
    yield (
        "These rows were drawn before any of them was predicted. Two rules were changed afterwards: images"
        f" of vLLM before 0.8 have another scheduler and no prediction, and bands of times are made for {TIMES_KEPT:.0%}"
        f" of the comparisons instead of {KEPT:.0%}. No constant was changed. Rows of `silicon_sample.csv` are a random draw from each engine and model that the wheel has, the"
        " others are all results of one benchmark on H100 and H200. A remark marks a doubt about the load"
        " or the engine of a row, judging by its source.\n"
    )
    yield from _summary("All rows", apart)
    yield from _summary("Rows without a remark", [each for each in apart if not each.row["remark"]])
    yield from _rows(apart)
    yield "\n## Measurements that constants and bands come from\n"
    yield (
        "Rows of `silicon_sample.csv` are load tests that the wheel of aiconfigurator-core 0.12.0"
        " publishes, by their id. Those with a day are of InferenceX, whose prompts and answers have"
        " 90% of the stated length on average. Kernels are measured one by one. These constants are"
        " fitted: 8 ms of a request outside of the engine, 12 ms more on several accelerators, 0.4"
        " ms of a step of vLLM outside of its kernels, 92% of the formula's throughput that a full"
        " engine reaches, and the time of a step of models that several load tests agree on (`shares`"
        " in `bands.toml`).\n"
    )
    yield from _rows(fitted)
    yield "\n## Bands\n"
    yield (
        f"A band contains the error of one more comparison in {KEPT:.0%} of the cases for throughputs and"
        f" {TIMES_KEPT:.0%} for times (the quantile of conformal prediction). With {MANY} models or fewer, it also contains the errors of that share of the"
        " worst model's comparisons. An accelerator has its own band once"
        f" {FEWEST} comparisons with two models exist. With fewer, a time has the band of all models with"
        " dense layers, or with experts, and a throughput has the band of all models. A percentile has its"
        " own band, at least as wide as that of the mean. Bands come from these rows alone.\n"
    )
    yield f"| accelerator | measurements | {' | '.join(map(_words, FIGURES))} |"
    yield f"|---|---|{'---|' * len(FIGURES)}"
    for name, figures in bands(fitted).items():
        cells = " | ".join(f"{figures[figure]:.0%}" for figure in FIGURES)
        yield f"| {name} | {figures['comparisons']} | {cells} |"


def _summary(title: str, found: Sequence[Comparison]) -> Iterator[str]:
    """The median errors of `found`, and the share of the figures that their bands hold."""
    yield f"| {title} | comparisons | median error, unsigned | signed |\n|---|---|---|---|"
    for figure in FIGURES:
        if not (own := [each.errors[figure] for each in found if figure in each.errors]):
            continue
        unsigned = median(abs(error) for error in own)
        yield f"| {_words(figure)} | {len(own)} | {unsigned:.0%} | {median(own):+.0%} |"
    within, total = held(found)
    bold = unsafe(found)
    yield (
        f"\nThe stated band holds {within} of {total} figures ({within / total:.0%}). At 102% of the"
        f" measured throughput, {len(bold)} of"
        f" {sum('capacity' in each.errors for each in found)} replicas get no risk in a"
        " plan.\n"
    )


def unsafe(found: Sequence[Comparison]) -> list[Comparison]:
    """The rows whose replica gets no risk in a plan, at 102% of its measured throughput."""
    return [
        each
        for each in found
        if "capacity" in each.errors
        and 1.02 / (1 + each.errors["capacity"]) * (1 + band(each).capacity) < 1
    ]


def _words(figure: str) -> str:
    kind, _, name = figure.rpartition("_")
    name = "throughput" if name == "capacity" else name.upper()
    return f"{name} of a percentile" if kind else name


def _rows(found: Sequence[Comparison]) -> Iterator[str]:
    yield "| measurement | accelerator | engine | kernels | model | workload | TTFT measured, predicted | ITL measured, predicted | throughput |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for each in found:
        row = each.row
        load = f"{row['input']} in, {row['output']} out, "
        load += (
            f"{row['rate']} a second, p{row['percentile']}"
            if row["rate"]
            else f"{row['clients']} {'at once' if row['tokens_per_second'] else 'clients'}"
        )
        link = (
            f"[{row['name']}]({row['link']})"
            if "://" in row["link"]
            else f"{row['name']} ({row['link']})"
        )
        cells = (
            f"{link}, {row['id']}",
            f"{row['tp']} x {row['accelerator']}",
            row["version"],
            each.kernels,
            f"{row['model']} {row['quantization']}".rstrip(),
            f"{load}. {row['remark']}" if row["remark"] else load,
            *_cells(each),
        )
        yield f"| {' | '.join(cells)} |"


def _cells(each: Comparison) -> tuple[str, ...]:
    if each.unknown:
        return f"unknown: {each.unknown}", "", ""
    times = [
        _time(each.row[f"{name}_ms"], error)
        for name in ("ttft", "itl")
        for error in [each.errors.get(name, each.errors.get(f"percentile_{name}"))]
    ]
    capacity, tokens = each.errors.get("capacity"), each.row["tokens_per_second"]
    throughput = "" if capacity is None else f"{capacity:+.0%}"
    return (*times, f"{float(tokens):,.0f} tokens/s, {throughput}" if tokens else throughput)


def _time(measured: str, error: float | None) -> str:
    if error is None:
        return ""
    value = float(measured)
    return f"{value:.4g} ms, {value * (1 + error):.3g} ms ({error:+.0%})"


def fitted_shares() -> dict[str, float]:
    """The shares of steps, from comparisons without any."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("inferplan.predict.bands.share_of", lambda *_: 1.0)
        kernels.cache_clear()
        found = shares(list(compared(FITTED)))
    kernels.cache_clear()
    return found


def bands_text(fitted: Sequence[Comparison], steps: Mapping[str, float]) -> str:
    """The file of the shares and bands that plans and reports use."""
    lines = [
        "# Written by `python -m tests.unit.predict.accuracy`; docs/accuracy.md has the comparisons."
    ]
    lines += ["[shares]", *(f'"{name}" = {share}' for name, share in steps.items()), ""]
    for name, figures in bands(fitted).items():
        lines += [f"[bands.{name}]", *(f"{key} = {value}" for key, value in figures.items()), ""]
    return "\n".join(lines).rstrip() + "\n"


BANDS = _ROOT / "inferplan" / "predict" / "data" / "bands.toml"
PAGE = _ROOT / "docs" / "accuracy.md"


def page_text(fitted: Sequence[Comparison], apart: Sequence[Comparison]) -> str:
    return "\n".join(page(fitted, apart)) + "\n"


if __name__ == "__main__":
    from inferplan.tables import table

    steps = fitted_shares()
    BANDS.write_text(bands_text([], steps), encoding="utf-8")
    table.cache_clear()
    of_constants = list(compared(FITTED))
    BANDS.write_text(bands_text(of_constants, steps), encoding="utf-8")
    table.cache_clear()
    PAGE.write_text(page_text(of_constants, list(compared(HELD_BACK))), encoding="utf-8")
    sys.stdout.write(f"wrote {BANDS} and {PAGE}\n")
