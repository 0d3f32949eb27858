"""The dated price list and the shapes of machines, from the data files of this package; no network
is used.
"""

import datetime as dt
from decimal import Decimal
from functools import cache
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from inferplan.tables import table

_DIGITS = Decimal("0.00001")


class Machine(BaseModel):
    """Capacity of one instance type, and its hourly list price if it has one."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(alias="type")
    resource: str
    accelerators: int
    memory_gib: Decimal = Field(alias="memoryGiB")
    usd_per_hour: Annotated[Decimal | None, BeforeValidator(lambda price: price or None)] = Field(
        alias="usdPerHour"
    )


class PriceList(BaseModel):
    """Prices of one date and region, in US dollars; `extended_support` has its days, `auto_mode`
    shares of an instance's price.
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
    everywhere: tuple[str, ...] = ()
    ceiling: Decimal = Decimal(3)
    extended_support: dict[str, dt.date] = {}
    machines: dict[str, Machine]

    @property
    def place(self) -> str:
        """The end of a sentence on a missing price: " in eu-west-1", "" for the region of the list."""
        return "" if self.region == _base().region else f" in {self.region}"


@cache
def price_list(region: str = "") -> PriceList:
    """Return the prices of `region`; "" for that of the list. What has no price there is not in the
    result.
    """
    base = _base()
    if region in ("", base.region):
        return base
    local = {
        row["type"]: Decimal(row["usdPerHour"])
        for row in table("hardware/regions.csv")
        if row["region"] == region
    }
    ratios = {
        name.partition(".")[0]: price / listed
        for name, price in local.items()
        if (listed := base.machines[name].usd_per_hour)
    }
    here = {
        row["key"]: Decimal(row["usd"])
        for row in table("hardware/services.csv")
        if row["region"] == region
    }

    def priced(machine: Machine) -> Machine:
        ratio, listed = ratios.get(machine.name.partition(".")[0]), machine.usd_per_hour
        return machine.model_copy(
            update={
                "usd_per_hour": (
                    None if ratio is None or listed is None else (listed * ratio).quantize(_DIGITS)
                )
            }
        )

    services = {
        field: {
            key: here.get(key, usd)
            for key, usd in getattr(base, field).items()
            if key in base.everywhere or key in here
        }
        for field in ("per_hour", "per_month", "per_gib_month", "per_gb_month", "per_gb_read")
    }
    machines = {name: priced(machine) for name, machine in base.machines.items()}
    return base.model_copy(update={"region": region, "machines": machines, **services})


@cache
def _base() -> PriceList:
    services = [row for row in table("hardware/services.csv") if not row["region"]]
    units = {"per_hour": "hour", "per_month": "month", "per_gib_month": "GiB-month"}
    prices = {
        field: {row["key"]: row["usd"] for row in services if row["per"] == unit}
        for field, unit in units.items()
    }
    machines = {row["type"]: row for row in table("hardware/ec2.csv")}
    return PriceList.model_validate(
        {**table("hardware/prices.toml"), **prices, "machines": machines}
    )
