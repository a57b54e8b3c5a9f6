"""Prices of AWS: from a file, from the answers of its command line, and from its calls."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import aws as fake_aws
from tests.builders.aws import AwsProxy, Fault
from tests.builders.clouds import Clock
from trimtab.actuator.cloud.aws.api import AwsApi, Reader
from trimtab.actuator.cloud.aws.cloud import AwsCloud
from trimtab.actuator.cloud.aws.price_list import LIST_AGE_S, RETRY_S, SPOT_AGE_S
from trimtab.actuator.cloud.aws.prices import Price, load_prices, read_price_list, read_spot_history
from trimtab.actuator.cloud.table import AwsSettings
from trimtab.common.rpc.retries import attempts

Json = dict[str, Any]
REGION = fake_aws.REGION


def product(name: str, price: str, unit: str = "Hrs", **attributes: str) -> Json:
    """Return a product as AWS lists it."""
    known = {
        "instanceType": name,
        "regionCode": REGION,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    dimension = {"unit": unit, "pricePerUnit": {"USD": price}}
    return {
        "product": {"productFamily": "Compute Instance", "attributes": known | attributes, "sku": "S"},
        "terms": {"OnDemand": {"S.T": {"priceDimensions": {"S.T.D": dimension}}}, "Reserved": {}},
    }


def spot(name: str, price: str, zone: str = "a", at: str = "2026-01-02T00:00:00Z", **more: str) -> Json:
    entry = {"InstanceType": name, "SpotPrice": price, "AvailabilityZone": f"{REGION}{zone}", "Timestamp": at}
    return entry | {"ProductDescription": "Linux/UNIX"} | more


def test_products_of_other_regions_systems_and_tenancies_have_no_part_in_the_price() -> None:
    items = [
        json.dumps(product("m5.large", "0.1150000000")),
        product("m5.large", "9", regionCode="us-east-1"),
        product("m5.large", "9", operatingSystem="Windows"),
        product("m5.large", "9", tenancy="Dedicated"),
        product("m5.large", "9", preInstalledSw="SQL Std"),
        product("m5.large", "9", unit="Quantity"),
        product("c5.large", "0.097"),
        {"product": {"attributes": {"group": "EC2-Transfer"}}, "terms": {}},
    ]
    assert read_price_list(items, REGION) == {"m5.large": 0.115, "c5.large": 0.097}
    assert read_price_list(items)["m5.large"] == 9.0, "without a region the highest price"


def test_a_spot_price_is_the_latest_of_each_zone_and_the_highest_of_all_zones() -> None:
    entries = [
        spot("m5.large", "0.09", at="2026-01-01T00:00:00Z"),
        spot("m5.large", "0.03"),
        spot("m5.large", "0.04", zone="b"),
        spot("m5.large", "9", ProductDescription="Windows"),
        spot("c5.large", "0.02"),
    ]
    assert read_spot_history(entries) == {"m5.large": 0.04, "c5.large": 0.02}


def test_a_file_may_be_the_answers_of_aws(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    on_demand = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(product("m5.large", "0.115"))]}
    path.write_text(json.dumps(on_demand | {"SpotPriceHistory": [spot("m5.large", "0.04"), spot("c5.large", "0.02")]}))
    assert load_prices(path, REGION) == {"m5.large": Price(0.115, 0.04), "c5.large": Price(None, 0.02)}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"PriceList": ["{}"]}', "cannot be read: KeyError"),
        ('{"PriceList": ["<html>"]}', "cannot be read"),
        ('{"PriceList": []}', "no price of an instance with Linux in region eu-central-1"),
        ('{"SpotPriceHistory": [{"InstanceType": "a", "SpotPrice": "much"}]}', "cannot be read"),
        ("{not json", "prices.json: line"),
        ('{"m5.large": 0.1,\n "m5.large": 0.2}', "prices.json: line 2: key 'm5.large' is given twice"),
    ],
)
def test_an_answer_that_cannot_be_read_is_named(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=told):
        load_prices(path, REGION)


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsProxy]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with fake_aws.aws() as made:
        for name, kind, more in (("g", "m5.large", {}), ("s", "c5.large", spot_policy("s"))):
            fake_aws.launch_template(name, kind)
            fake_aws.scaling_group(name, (0, 6, 0), **more)
        made.answers["GetProducts"] = lambda _: json.dumps(
            {"FormatVersion": "aws_v1", "PriceList": [json.dumps(product("m5.large", "0.115"))]}
        )
        made.answers["DescribeSpotPriceHistory"] = lambda _: spot_answer("0.02", "0.03")
        yield made


def spot_policy(name: str) -> Json:
    specification = {"LaunchTemplateName": f"launch-{name}", "Version": "1"}
    return {
        "MixedInstancesPolicy": {
            "LaunchTemplate": {
                "LaunchTemplateSpecification": specification,
                "Overrides": [{"InstanceType": "c5.large"}],
            },
            "InstancesDistribution": {"OnDemandBaseCapacity": 0, "OnDemandPercentageAboveBaseCapacity": 0},
        }
    }


def spot_answer(*prices: str) -> str:
    items = "".join(
        f"<item><instanceType>c5.large</instanceType><productDescription>Linux/UNIX</productDescription>"
        f"<spotPrice>{price}</spotPrice><timestamp>2026-01-01T00:00:00Z</timestamp>"
        f"<availabilityZone>{REGION}{zone}</availabilityZone></item>"
        for zone, price in zip("abc", prices, strict=False)
    )
    return (
        '<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<spotPriceHistorySet>{items}</spotPriceHistorySet></DescribeSpotPriceHistoryResponse>"
    )


def cloud_of(proxy: AwsProxy, clock: Clock, prices: Path | None = None) -> AwsCloud:
    api = AwsApi(REGION, proxy.address, has_prices=True)
    settings = AwsSettings(groups=("g", "s"), prices=prices, price_list=True)
    return AwsCloud(api, settings, Reader(api, attempts(6, 0.001, 0.01)), clock=clock)


def both(cloud: AwsCloud) -> list[float | None]:
    return [cloud.price_per_hour(group) for group in ("g", "s")]


def test_prices_of_aws_are_requested_from_time_to_time(proxy: AwsProxy) -> None:
    clock = Clock()
    cloud = cloud_of(proxy, clock)
    for _ in range(3):
        assert both(cloud) == [0.115, 0.03]
    assert (proxy.count("GetProducts"), proxy.count("DescribeSpotPriceHistory")) == (1, 1)
    proxy.answers["DescribeSpotPriceHistory"] = lambda _: spot_answer("0.05")
    clock.now_s += SPOT_AGE_S
    assert both(cloud) == [0.115, 0.05]
    clock.now_s += LIST_AGE_S
    assert both(cloud) == [0.115, 0.05]
    assert proxy.count("GetProducts") == 2


def test_unavailable_prices_are_reported_once_keep_their_last_value_and_affect_no_template(
    proxy: AwsProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    cloud = cloud_of(proxy, clock)
    denied = Fault("AccessDeniedException", 400, b'{"__type": "AccessDeniedException", "message": "no"}')
    proxy.fail("GetProducts", denied, denied)
    proxy.fail("DescribeSpotPriceHistory", Fault("UnauthorizedOperation", 403))
    assert both(cloud) == [None, None]
    assert cloud.template("g") is not None
    clock.now_s += RETRY_S - 1
    assert both(cloud) == [None, None]
    clock.now_s += 1
    assert both(cloud) == [None, 0.03]
    log = [line for line in capsys.readouterr().out.splitlines() if "prices_not_read" in line]
    assert len(log) == 2, log
    assert "allow pricing:GetProducts" in log[0]
    assert "allow ec2:DescribeSpotPriceHistory" in log[1]
    clock.now_s += RETRY_S
    assert both(cloud) == [0.115, 0.03]
    clock.now_s += SPOT_AGE_S
    proxy.fail("DescribeSpotPriceHistory", Fault("UnauthorizedOperation", 403))
    assert both(cloud) == [0.115, 0.03]


def test_the_file_wins_over_what_aws_says(proxy: AwsProxy, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("m5.large: 0.08\nc5.large: 0.07")
    cloud = cloud_of(proxy, Clock(), path)
    assert both(cloud) == [0.08, 0.03]
    assert proxy.count("GetProducts") == 0
