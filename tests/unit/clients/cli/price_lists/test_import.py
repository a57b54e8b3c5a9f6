"""`trimtab prices import` on lists in the forms that clouds document: which prices are taken, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed

Json = dict[str, Any]
TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"


def aws_product(kind: str, price: str, region: str = "eu-west-1", **attributes: str) -> str:
    """An entry of PriceList, which is JSON as text."""
    usual = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
    return json.dumps(
        {
            "product": {"attributes": {"instanceType": kind, "regionCode": region, **usual, **attributes}},
            "terms": {
                "OnDemand": {"A.B": {"priceDimensions": {"A.B.C": {"unit": "Hrs", "pricePerUnit": {"USD": price}}}}},
                "Reserved": {"A.D": {"priceDimensions": {"A.D.C": {"unit": "Hrs", "pricePerUnit": {"USD": "0.01"}}}}},
            },
        }
    )


def spot(kind: str, zone: str, price: str, day: int, product: str = "Linux/UNIX") -> Json:
    moment = f"2026-03-{day:02}T00:00:00+00:00"
    return {
        "AvailabilityZone": zone, "InstanceType": kind, "ProductDescription": product, "SpotPrice": price,
        "Timestamp": moment,
    }  # fmt: skip


AWS = {
    "FormatVersion": "aws_v1",
    "PriceList": [
        aws_product("m5.large", "0.1070000000"),
        aws_product("m5.large", "0.1990000000", operatingSystem="Windows"),
        aws_product("m5.large", "0.1170000000", tenancy="Dedicated"),
        aws_product("m5.large", "0.0000000000", capacitystatus="AllocatedCapacityReservation"),
        aws_product("m5.xlarge", "0.2140000000"),
        aws_product("m5.large", "0.0960000000", region="us-east-1"),
    ],
}
SPOT = {
    "SpotPriceHistory": [
        spot("m5.large", "eu-west-1a", "0.031", 2),
        spot("m5.large", "eu-west-1a", "0.030", 1),
        spot("m5.large", "eu-west-1a", "0.130", 3, "Windows"),
    ]
}


def azure_item(sku: str, price: float, **fields: Any) -> Json:
    usual = {
        "currencyCode": "EUR", "retailPrice": price, "armRegionName": "westeurope", "serviceName": "Virtual Machines",
        "productName": "Virtual Machines Dsv3 Series", "skuName": "D2s v3", "unitOfMeasure": "1 Hour",
        "type": "Consumption", "armSkuName": sku, "isPrimaryMeterRegion": True,
    }  # fmt: skip
    return usual | fields


AZURE = {
    "BillingCurrency": "EUR",
    "Items": [
        azure_item("Standard_D2s_v3", 0.11),
        azure_item("Standard_D2s_v3", 0.12, isPrimaryMeterRegion=False),
        azure_item("Standard_D2s_v3", 0.02, skuName="D2s v3 Spot"),
        azure_item("Standard_D2s_v3", 0.03, skuName="D2s v3 Low Priority"),
        azure_item("Standard_D2s_v3", 0.21, productName="Virtual Machines Dsv3 Series Windows"),
        azure_item("Standard_D2s_v3", 600.0, type="Reservation"),
    ],
    "NextPageLink": None,
}


def sku(description: str, nanos: int, usage: str = "OnDemand", region: str = "europe-west1") -> Json:
    price = {"currencyCode": "USD", "units": "0", "nanos": nanos}
    return {
        "description": description,
        "category": {"resourceFamily": "Compute", "usageType": usage},
        "serviceRegions": [region],
        "pricingInfo": [{"pricingExpression": {"tieredRates": [{"startUsageAmount": 0, "unitPrice": price}]}}],
    }


GCP_SKUS = {
    "skus": [
        sku("N1 Predefined Instance Core running in Belgium", 34_773_000),
        sku("N1 Predefined Instance Ram running in Belgium", 4_661_000),
        sku("N2D AMD Instance Core running in Belgium", 30_000_000),
        sku("N2D AMD Instance Ram running in Belgium", 4_000_000),
        sku("Spot Preemptible N2D AMD Instance Core running in Belgium", 10_000_000, "Preemptible"),
        sku("Spot Preemptible N2D AMD Instance Ram running in Belgium", 1_000_000, "Preemptible"),
        sku("N1 Custom Instance Core running in Belgium", 99_000_000),
        sku("Commitment v1: N1 Instance Core running in Belgium for 1 Year", 20_000_000, "Commit1Yr"),
    ]
}
GCP_TYPES = [
    {"name": name, "guestCpus": cpus, "memoryMb": memory, "zone": "https://x/zones/europe-west1-b"}
    for name, cpus, memory in (("n1-standard-2", 2, 7680), ("n2d-standard-4", 4, 16384), ("f1-micro", 1, 614))
]


def written(folder: Path, *documents: Any) -> list[Path]:
    paths = [folder / f"list-{number}.json" for number in range(len(documents))]
    for path, document in zip(paths, documents, strict=True):
        path.write_text(json.dumps(document))
    return paths


def test_aws_prices_are_of_linux_on_shared_machines_with_the_latest_spot_price(trimtab: Run, tmp_path: Path) -> None:
    done = trimtab("admin", "import-prices", "aws", *written(tmp_path, AWS, SPOT), "--region", "eu-west-1")
    assert done.out.splitlines() == [
        "type,zone,lifecycle,price,currency",
        "m5.large,,on-demand,0.107,USD",
        "m5.large,eu-west-1a,spot,0.031,USD",
        "m5.xlarge,,on-demand,0.214,USD",
    ]
    assert done.err == "note: 3 prices of 2 instance types\n"


def test_azure_prices_are_of_linux_by_the_hour_and_of_spot(trimtab: Run, tmp_path: Path) -> None:
    done = trimtab("admin", "import-prices", "azure", *written(tmp_path, [AZURE, AZURE]))
    assert done.out.splitlines()[1:] == ["Standard_D2s_v3,,on-demand,0.11,EUR", "Standard_D2s_v3,,spot,0.02,EUR"]


def test_google_prices_are_sums_over_cores_and_memory(trimtab: Run, tmp_path: Path) -> None:
    done = trimtab("admin", "import-prices", "gcp", *written(tmp_path, GCP_SKUS, GCP_TYPES))
    assert done.out.splitlines()[1:] == [
        f"n1-standard-2,,on-demand,{2 * 0.034773 + 7.5 * 0.004661:g},USD",
        "n2d-standard-4,,on-demand,0.184,USD",
        "n2d-standard-4,,spot,0.056,USD",
    ]


def test_an_imported_list_prices_a_plan(trimtab: Run, tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    files = written(tmp_path, AWS, SPOT)
    prices.write_text(trimtab("admin", "import-prices", "aws", *files, "--region", "eu-west-1").out)
    labels = {TYPE: "m5.large", ZONE: "eu-west-1a"}
    nodes = [
        k8s.node("n1", labels=labels),
        k8s.node("n2", labels={**labels, "eks.amazonaws.com/capacityType": "SPOT"}),
    ]
    out = trimtab("plan", listed(tmp_path, *nodes), "--prices", prices).out
    assert "of 0.14 USD an hour" in out
    assert "Prices in USD: 2 nodes by instance type in prices.csv." in out


@pytest.mark.parametrize(
    ("cloud", "documents", "options", "told"),
    [
        pytest.param("aws", [AWS], (), "2 regions (eu-west-1, us-east-1, …); choose one: --region", id="regions"),
        pytest.param("aws", [AWS], ("--region", "nowhere"), "the lists have eu-west-1, us-east-1", id="unknown region"),
        pytest.param("aws", [AZURE], (), "no hourly price of a Linux machine", id="another cloud's list"),
        pytest.param("aws", [{"PriceList": ["{"]}], (), "this is no price list of aws", id="damaged entry"),
        pytest.param("azure", [[3, None]], (), "no hourly price", id="numbers"),
        pytest.param("gcp", [GCP_SKUS], (), "there are no machine types", id="no machine types"),
        pytest.param("gcp", [GCP_TYPES], (), "there are no SKUs", id="no SKUs"),
    ],
)
def test_lists_that_have_no_prices_are_refused(
    trimtab: Run, tmp_path: Path, cloud: str, documents: list[Any], options: tuple[str, ...], told: str
) -> None:
    done = trimtab("admin", "import-prices", cloud, *written(tmp_path, *documents), *options)
    assert (done.code, done.out) == (2, "")
    assert told in done.err


def test_a_file_that_is_no_json_is_named(trimtab: Run, tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text("type,price\n")
    done = trimtab("admin", "import-prices", "aws", path)
    assert (done.code, f"{path}: this is not JSON" in done.err) == (2, True)
