"""Renews the machines' list prices in `data/ec2.csv` from the AWS pricing API. Run by a person, never by a plan or a report.

Run as `python -m review.refresh_prices` with AWS credentials that allow `pricing:GetProducts`, and boto3 installed; then
set `date` in `data/prices.toml`. Shapes stay as they are: only prices are asked for.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("data") / "ec2.csv"
_REGION = "us-east-1"
_FILTERS = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used", "regionCode": _REGION}


def price_of(product: Mapping[str, Any]) -> Decimal | None:
    """The on-demand price an hour in one product of the price list, None where it has none.

    Raises ValueError when it has several, for then the filters no longer pick one product.
    """
    found = set()
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            text = dimension.get("pricePerUnit", {}).get("USD")
            if dimension.get("unit") == "Hrs" and text is not None:
                found.add(_decimal(text))
    prices = {each for each in found if each}
    if len(prices) > 1:
        raise ValueError(f"several prices an hour: {', '.join(map(str, sorted(prices)))}; the filters of this script must name one product")
    return prices.pop() if prices else None


def renewed(text: str, prices: Mapping[str, Decimal | None]) -> str:
    """The CSV `text` with the prices of `prices`; machines that it does not name keep theirs."""
    rows = list(csv.DictReader(text.splitlines()))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        price = prices.get(row["type"])
        writer.writerow(row | ({"usdPerHour": _plain(price)} if price is not None else {}))
    return stream.getvalue()


def _plain(price: Decimal) -> str:
    text = f"{price:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is no price") from error


def _fetch(types: Iterable[str]) -> dict[str, Decimal | None]:
    import boto3

    client = boto3.client("pricing", region_name=_REGION)
    prices: dict[str, Decimal | None] = {}
    for each in types:
        filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in (_FILTERS | {"instanceType": each}).items()]
        answer = client.get_products(ServiceCode="AmazonEC2", Filters=filters, MaxResults=10)
        found = {price_of(json.loads(product)) for product in answer["PriceList"]} - {None}
        if len(found) > 1:
            raise ValueError(f"{each} has several prices; the filters of this script must name one product")
        prices[each] = found.pop() if found else None
    return prices


def main() -> int:
    """Renews the file and says which prices changed."""
    text = _FILE.read_text(encoding="utf-8")
    fresh = renewed(text, _fetch(row["type"] for row in csv.DictReader(text.splitlines())))
    changed = sum(old != new for old, new in zip(text.splitlines(), fresh.splitlines(), strict=True))
    _FILE.write_text(fresh, encoding="utf-8")
    sys.stdout.write(f"{changed} prices changed in {_FILE.name}; now set the date in prices.toml\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
