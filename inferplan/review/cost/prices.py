"""The dated price list and the shapes of machines, from the data files of this package; no network is used."""

from __future__ import annotations

import csv
import tomllib
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Machine(BaseModel):
    """Capacity of one instance type, and its hourly list price if it has one."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(alias="type")
    resource: str
    accelerators: int
    memory_gib: Decimal = Field(alias="memoryGiB")
    usd_per_hour: Annotated[Decimal | None, BeforeValidator(lambda price: price or None)] = Field(alias="usdPerHour")


class PriceList(BaseModel):
    """Prices of one date and region, in US dollars.

    `auto_mode` is the fee of EKS Auto Mode as a share of an instance's list price: of `general` and of `accelerated` types.
    """

    model_config = ConfigDict(frozen=True)

    date: Annotated[str, BeforeValidator(str)]
    region: str
    source: str
    hours: Decimal = Field(alias="hours_per_month")
    spot_lowest: Decimal = Field(alias="spot_lowest_share")
    savings_lowest: Decimal = Field(alias="savings_plan_lowest_share")
    per_hour: dict[str, Decimal]
    per_month: dict[str, Decimal]
    per_gib_month: dict[str, Decimal]
    by_use: dict[str, str]
    per_gb_month: dict[str, Decimal]
    per_gb_read: dict[str, Decimal]
    auto_mode: dict[str, Decimal]
    machines: dict[str, Machine]


@cache
def price_list() -> PriceList:
    services = _rows("services.csv")
    units = {"per_hour": "hour", "per_month": "month", "per_gib_month": "GiB-month"}
    prices = {field: {row["key"]: row["usd"] for row in services if row["per"] == unit} for field, unit in units.items()}
    machines = {row["type"]: row for row in _rows("ec2.csv")}
    return PriceList.model_validate({**tomllib.loads(_text("prices.toml")), **prices, "machines": machines})


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_text(name).splitlines()))


def _text(name: str) -> str:
    return files("inferplan.review").joinpath("data", name).read_text(encoding="utf-8")
