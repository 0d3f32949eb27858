"""The dated price list and the shapes of machines, from the data files of this package; no network is used."""

from __future__ import annotations

import csv
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Capacity of one instance type, and its hourly list price if it has one."""

    name: str
    resource: str
    accelerators: int
    memory_gib: Decimal
    usd_per_hour: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """Prices of one date and region, in US dollars."""

    date: str
    region: str
    source: str
    hours: Decimal
    spot_lowest: Decimal
    savings_lowest: Decimal
    per_hour: dict[str, Decimal]
    per_month: dict[str, Decimal]
    per_gib_month: dict[str, Decimal]
    by_use: dict[str, str]
    per_gb_month: dict[str, Decimal]
    per_gb_read: dict[str, Decimal]
    auto_mode: dict[str, Decimal]
    """The fee of EKS Auto Mode as a share of an instance's list price: `general` and `accelerated` types."""
    machines: dict[str, Machine]


@cache
def price_list() -> PriceList:
    """The list that comes with this version."""
    data = files("review").joinpath("data")
    document = tomllib.loads(data.joinpath("prices.toml").read_text(encoding="utf-8"))
    rows = csv.DictReader(data.joinpath("ec2.csv").read_text(encoding="utf-8").splitlines())
    services = list(csv.DictReader(data.joinpath("services.csv").read_text(encoding="utf-8").splitlines()))
    return PriceList(
        date=str(document["date"]),
        region=document["region"],
        source=document["source"],
        hours=Decimal(document["hours_per_month"]),
        spot_lowest=Decimal(document["spot_lowest_share"]),
        savings_lowest=Decimal(document["savings_plan_lowest_share"]),
        per_hour=_per(services, "hour"),
        per_month=_per(services, "month"),
        per_gib_month=_per(services, "GiB-month"),
        by_use=document["by_use"],
        per_gb_month={key: Decimal(price) for key, price in document["per_gb_month"].items()},
        per_gb_read={key: Decimal(price) for key, price in document["per_gb_read"].items()},
        auto_mode={key: Decimal(share) for key, share in document["auto_mode"].items()},
        machines={row["type"]: _machine(row) for row in rows},
    )


def _machine(row: dict[str, str]) -> Machine:
    price = row["usdPerHour"]
    return Machine(
        name=row["type"],
        resource=row["resource"],
        accelerators=int(row["accelerators"]),
        memory_gib=Decimal(row["memoryGiB"]),
        usd_per_hour=Decimal(price) if price else None,
    )


def _per(rows: list[dict[str, str]], unit: str) -> dict[str, Decimal]:
    return {row["key"]: Decimal(row["usd"]) for row in rows if row["per"] == unit}
