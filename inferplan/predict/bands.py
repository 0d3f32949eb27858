"""The errors of predictions, from comparisons with published measurements (docs/accuracy.md)."""

from dataclasses import dataclass, replace

from inferplan.tables import table


@dataclass(frozen=True, kw_only=True)
class Band:
    """Relative errors, met by 90% of `comparisons` measurements; `exact` is False if none was on
    this accelerator. `ttft` and `itl` are errors of means; percentiles have their own fields;
    `capacity` is that of the largest throughput.
    """

    ttft: float
    itl: float
    capacity: float
    percentile_ttft: float
    percentile_itl: float
    comparisons: int
    exact: bool


def band_of(framework: str, system: str, layers: str) -> Band:
    """The band of models with `layers` ("dense" or "experts") under `framework` on `system`, of all
    such models if too few comparisons were made there.
    """
    bands, name = table("predict/data/bands.toml")["bands"], f"{framework}-{system}-{layers}"
    return Band(**bands.get(name, bands[layers]), exact=name in bands)


def share_of(framework: str, system: str, model: str) -> float:
    """The time of a step of `model` that gives tokens, as a share of its kernel times, from load
    tests of it with the same engine and accelerator; 1 without them.
    """
    shares = table("predict/data/bands.toml").get("shares", {})
    return shares.get(f"{framework}-{system}-{model}", 1.0)


def twice(band: Band) -> Band:
    """Return the doubled band, for layers that no published measurement covers."""
    return replace(
        band,
        ttft=2 * band.ttft,
        itl=2 * band.itl,
        capacity=2 * band.capacity,
        percentile_ttft=2 * band.percentile_ttft,
        percentile_itl=2 * band.percentile_itl,
        comparisons=0,
        exact=False,
    )
