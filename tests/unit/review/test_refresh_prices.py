from __future__ import annotations

import csv
import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import boto3
import pytest
from botocore.stub import Stubber

from inferplan.hardware.prices import price_list
from inferplan.hardware.refresh_prices import main, price_of, renewed_machines, renewed_services

DATA = Path(__file__).resolve().parents[3] / "inferplan" / "hardware"
MACHINES = "type,resource,accelerators,memoryGiB,usdPerHour\ng6.xlarge,nvidia.com/gpu,1,16,0.8048\np5e.48xlarge,nvidia.com/gpu,8,2048,\n"
HEAD = "key,per,usd,serviceCode,usageType,productFamily,asOf,source\n"
NAT = "aws:ec2/natGateway:NatGateway,hour,0.045,AmazonEC2,NatGateway-Hours,,2026-09-20,somebody\n"
BALANCER = (
    "aws:lb/loadBalancer:LoadBalancer,hour,0.0225,AWSELB,LoadBalancerUsage,Load"
    " Balancer-Application,,not checked\n"
)


def product(*prices: str, unit: str = "Hrs"):
    dimensions = {
        str(index): {"unit": unit, "pricePerUnit": {"USD": price}}
        for index, price in enumerate(prices)
    }
    return {
        "product": {"sku": "x"},
        "terms": {"OnDemand": {"x.y": {"priceDimensions": dimensions}}, "Reserved": {}},
    }


@pytest.fixture
def aws():
    """A client of the pricing API whose answers are queued, in boto3's own shapes; each question
    has to be asked as it is expected.
    """
    client = boto3.client(
        "pricing",
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",  # noqa: S106 - no key: every answer is queued
    )
    with Stubber(client) as stub:
        yield client, stub
        stub.assert_no_pending_responses()


def machine(name: str):
    fields = {
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "instanceType": name,
    }
    return question("AmazonEC2", fields)


def question(service: str, fields: dict[str, str], **more: str):
    filters = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value}
        for field, value in {**fields, "regionCode": "us-east-1"}.items()
    ]
    return {"ServiceCode": service, "Filters": filters, **more}


def answer(*products, **more: str):
    return {"FormatVersion": "aws_v1", "PriceList": [json.dumps(each) for each in products], **more}


def test_the_on_demand_price_an_hour_is_read():
    assert price_of(product("0.8048000000")) == Decimal("0.8048")


@pytest.mark.parametrize(
    "each", [{}, product(), product("0.0000000000"), product("1.0", unit="Quantity")]
)
def test_no_price_is_none(each):
    assert price_of(each) is None


def test_several_prices_are_rejected():
    with pytest.raises(ValueError, match=r"several prices: 1\.0, 2\.0"):
        price_of(product("1.0", "2.0"))


def test_only_prices_that_were_found_change(aws):
    client, stub = aws
    stub.add_response("get_products", answer(product("0.9000000000")), machine("g6.xlarge"))
    stub.add_response("get_products", answer(), machine("p5e.48xlarge"))
    assert renewed_machines(MACHINES, client) == MACHINES.replace("0.8048", "0.9")


def test_pages_are_followed_to_the_last(aws):
    client, stub = aws
    asked = {"usagetype": "NatGateway-Hours"}
    stub.add_response(
        "get_products", answer(product(unit="GB"), NextToken="two"), question("AmazonEC2", asked)
    )
    stub.add_response(
        "get_products",
        answer(product("0.0500000000")),
        question("AmazonEC2", asked, NextToken="two"),
    )
    fresh = renewed_services(HEAD + NAT, client, "2026-12-01")
    assert fresh == HEAD + NAT.replace("0.045", "0.05").replace(
        "2026-09-20,somebody", "2026-12-01,AWS pricing API"
    )


def test_a_service_with_several_prices_is_named(aws):
    client, stub = aws
    asked = {"usagetype": "LoadBalancerUsage", "productFamily": "Load Balancer-Application"}
    stub.add_response(
        "get_products", answer(product("0.0225"), product("0.0252")), question("AWSELB", asked)
    )
    with pytest.raises(
        ValueError,
        match=(
            r"AWSELB LoadBalancerUsage, Load Balancer-Application: several prices: 0\.0225, 0\.0252"
        ),
    ):
        renewed_services(HEAD + BALANCER, client, "2026-12-01")


def test_the_script_renews_both_files_and_says_what_is_left_to_do(aws, tmp_path, capsys):
    client, stub = aws
    (tmp_path / "ec2.csv").write_text(MACHINES)
    (tmp_path / "services.csv").write_text(HEAD + NAT + BALANCER)
    for name in ("g6.xlarge", "p5e.48xlarge"):
        stub.add_response("get_products", answer(product("0.8048000000")), machine(name))
    stub.add_response(
        "get_products",
        answer(product("0.0450000000")),
        question("AmazonEC2", {"usagetype": "NatGateway-Hours"}),
    )
    balancer = {"usagetype": "LoadBalancerUsage", "productFamily": "Load Balancer-Application"}
    stub.add_response("get_products", answer(), question("AWSELB", balancer))
    assert main(client, tmp_path, "2026-12-01") == 0
    assert (
        (tmp_path / "ec2.csv").read_text().endswith("p5e.48xlarge,nvidia.com/gpu,8,2048,0.8048\n")
    )
    assert (tmp_path / "services.csv").read_text() == HEAD + NAT.replace(
        "2026-09-20,somebody", "2026-12-01,AWS pricing API"
    ) + BALANCER
    assert capsys.readouterr().out.splitlines() == [
        "1 lines changed in ec2.csv",
        "1 lines changed in services.csv",
        "now set the date in prices.toml to 2026-12-01",
    ]


def test_every_price_of_a_service_has_a_source_and_a_day():
    rows = list(csv.DictReader((DATA / "services.csv").read_text().splitlines()))
    assert len(rows) > 6
    assert all(date.fromisoformat(row["asOf"]) > date(2026, 1, 1) for row in rows)
    assert all(row["source"] and "not checked" not in row["source"] for row in rows)
    assert {*price_list().per_hour, *price_list().per_month, *price_list().per_gib_month} == {
        row["key"] for row in rows
    }
