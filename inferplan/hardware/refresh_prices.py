"""Renews the list prices in `data/ec2.csv` and `data/services.csv` from the AWS pricing API. Run by
a person, never by a plan or a report.

Run as `python -m inferplan.hardware.refresh_prices` with AWS credentials that allow
`pricing:GetProducts`, and boto3 installed; then set `date` in `prices.toml`. Shapes stay as
they are: only prices are asked for.
"""

import csv
import datetime as dt
import io
import json
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parents[1] / "data"
_REGION = "us-east-1"
_MACHINE = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}
# The names of the units of services.csv in the price list.
_UNITS = {"hour": ("Hrs", "Hours"), "month": ("Keys", "months"), "GiB-month": ("GB-Mo",)}


def price_of(product: Mapping[str, Any], units: tuple[str, ...] = ("Hrs",)) -> Decimal | None:
    """The on-demand price of a unit in one product of the price list, None where it has none.
    Raises ValueError if it has several.
    """
    terms = product.get("terms", {}).get("OnDemand", {}).values()
    dimensions = [
        each
        for term in terms
        for each in term.get("priceDimensions", {}).values()
        if each.get("unit") in units
    ]
    return _only(
        {
            _decimal(text)
            for each in dimensions
            if (text := each.get("pricePerUnit", {}).get("USD")) is not None
        }
    )


def _only(amounts: set[Decimal]) -> Decimal | None:
    prices = {each for each in amounts if each}
    if len(prices) > 1:
        raise ValueError(
            f"several prices: {', '.join(map(str, sorted(prices)))}; the filters of this script"
            " must name one product"
        )
    return prices.pop() if prices else None


def renewed_machines(text: str, client: Any) -> str:
    """The machines' CSV `text` with the prices that `client`, of the pricing API, knows; the others
    keep theirs.
    """

    def renew(row: dict[str, str]) -> dict[str, str]:
        price = _asked(client, "AmazonEC2", {**_MACHINE, "instanceType": row["type"]}, ("Hrs",))
        return {} if price is None else {"usdPerHour": price}

    return _renewed(text, renew)


def renewed_services(text: str, client: Any, day: str) -> str:
    """The services' CSV `text` likewise; a price that was found is of `day` (YYYY-MM-DD) and of the
    API.
    """

    def renew(row: dict[str, str]) -> dict[str, str]:
        filters = {
            "usagetype": row["usageType"],
            **({"productFamily": row["productFamily"]} if row["productFamily"] else {}),
        }
        price = _asked(client, row["serviceCode"], filters, _UNITS[row["per"]])
        return {} if price is None else {"usd": price, "asOf": day, "source": "AWS pricing API"}

    return _renewed(text, renew)


def _renewed(text: str, renew: Callable[[dict[str, str]], dict[str, str]]) -> str:
    rows = [row | renew(row) for row in csv.DictReader(text.splitlines())]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _asked(
    client: Any, service: str, filters: Mapping[str, str], units: tuple[str, ...]
) -> str | None:
    """The price of the one product of `service` that `filters` name, without trailing zeros."""
    terms = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value}
        for field, value in {**filters, "regionCode": _REGION}.items()
    ]
    pages = client.get_paginator("get_products").paginate(ServiceCode=service, Filters=terms)
    products = (json.loads(text) for page in pages for text in page["PriceList"])
    try:
        price = _only(
            {price for product in products if (price := price_of(product, units)) is not None}
        )
    except ValueError as error:
        raise ValueError(f"{service} {', '.join(filters.values())}: {error}") from error
    return None if price is None else f"{price.normalize():f}"


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is not a price") from error


def main(client: Any = None, folder: Path = _DATA, day: str = "") -> int:
    """Renews the files in `folder` and prints how many lines change."""
    if client is None:
        import boto3

        client = boto3.client("pricing", region_name=_REGION)
    day = day or dt.datetime.now(tz=dt.UTC).date().isoformat()
    before = {
        name: (folder / name).read_text(encoding="utf-8") for name in ("ec2.csv", "services.csv")
    }
    machines, services = (
        renewed_machines(before["ec2.csv"], client),
        renewed_services(before["services.csv"], client, day),
    )
    for name, after in (("ec2.csv", machines), ("services.csv", services)):
        count = sum(
            old != new
            for old, new in zip(before[name].splitlines(), after.splitlines(), strict=True)
        )
        (folder / name).write_text(after, encoding="utf-8")
        sys.stdout.write(f"{count} lines changed in {name}\n")
    sys.stdout.write(f"now set the date in prices.toml to {day}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
