from __future__ import annotations

from decimal import Decimal

import pytest

from review.refresh_prices import price_of, renewed

CSV = "type,resource,accelerators,memoryGiB,usdPerHour\ng6.xlarge,nvidia.com/gpu,1,16,0.8048\np5e.48xlarge,nvidia.com/gpu,8,2048,\n"


def product(*prices: str, unit: str = "Hrs"):
    dimensions = {str(index): {"unit": unit, "pricePerUnit": {"USD": price}} for index, price in enumerate(prices)}
    return {"product": {"sku": "x"}, "terms": {"OnDemand": {"x.y": {"priceDimensions": dimensions}}, "Reserved": {}}}


def test_the_on_demand_price_an_hour_is_read():
    assert price_of(product("0.8048000000")) == Decimal("0.8048")


@pytest.mark.parametrize("each", [{}, product(), product("0.0000000000"), product("1.0", unit="Quantity")])
def test_no_price_is_none(each):
    assert price_of(each) is None


def test_several_prices_are_refused():
    with pytest.raises(ValueError, match=r"several prices an hour: 1\.0, 2\.0"):
        price_of(product("1.0", "2.0"))


def test_only_prices_that_were_found_change():
    fresh = renewed(CSV, {"g6.xlarge": Decimal("0.9000000000"), "p5e.48xlarge": None})
    assert fresh == CSV.replace("0.8048", "0.9")
    assert renewed(CSV, {}) == CSV
