"""Rows that real price lists have beside the wanted ones: reservations, capacity blocks, Windows, dedicated hosts, sole
tenancy, commitments, accelerators; several pages, several documents in a file, another currency. Names and values of
fields are those of the lists, cut down to what is read.

Sources: AWS Price List Query and Bulk API (capacitystatus, marketoption and locationType as in their lists), Azure
Retail Prices API, Cloud Billing Catalog API, Compute API (machineTypes).
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.cli import Run

Json = dict[str, Any]
SKU, TERM = "3RT6W3PX4VZ6G6Z3", "JRTCKXETXF"


def aws_attributes(kind: str = "m5.large", **over: str) -> Json:
    """Attributes of a machine as lists since 2021 have them."""
    usual = {
        "servicecode": "AmazonEC2", "location": "EU (Ireland)", "locationType": "AWS Region", "instanceType": kind,
        "currentGeneration": "Yes", "instanceFamily": "General purpose", "vcpu": "2", "memory": "8 GiB",
        "tenancy": "Shared", "operatingSystem": "Linux", "licenseModel": "No License required",
        "usagetype": f"EU-BoxUsage:{kind}", "operation": "RunInstances", "capacitystatus": "Used",
        "marketoption": "OnDemand", "preInstalledSw": "NA", "regionCode": "eu-west-1",
        "servicename": "Amazon Elastic Compute Cloud",
    }  # fmt: skip
    return usual | over


def aws_terms(price: str, currency: str = "USD") -> Json:
    """Terms by offer: on demand, and reserved for a year with a fee in advance."""
    hourly = {"unit": "Hrs", "pricePerUnit": {currency: price}, "beginRange": "0", "endRange": "Inf", "appliesTo": []}
    fee = {"unit": "Quantity", "pricePerUnit": {currency: "447"}, "description": "Upfront Fee"}
    return {
        "OnDemand": {f"{SKU}.{TERM}": {"sku": SKU, "priceDimensions": {f"{SKU}.{TERM}.6YS6EN2CT7": hourly}}},
        "Reserved": {
            f"{SKU}.6QCMYABX3D": {
                "termAttributes": {"LeaseContractLength": "1yr", "PurchaseOption": "All Upfront"},
                "priceDimensions": {"A": fee, "B": {**hourly, "pricePerUnit": {currency: "0.0000000000"}}},
            }
        },
    }


def aws_product(price: str, currency: str = "USD", **attributes: str) -> Json:
    of_sku = {"productFamily": "Compute Instance", "attributes": aws_attributes(**attributes), "sku": SKU}
    terms = aws_terms(price, currency)
    return {"product": of_sku, "serviceCode": "AmazonEC2", "terms": terms, "version": "20260201000000"}


AWS_ROWS = [
    aws_product("0.1070000000"),
    aws_product("0.0000000000", capacitystatus="AllocatedCapacityReservation"),
    aws_product("0.1070000000", capacitystatus="UnusedCapacityReservation"),
    aws_product("0.0420000000", marketoption="CapacityBlock"),
    aws_product("0.1990000000", operatingSystem="Windows", licenseModel="No License required"),
    aws_product("0.5870000000", operatingSystem="Linux", preInstalledSw="SQL Std"),
    aws_product("0.1670000000", operatingSystem="RHEL"),
    aws_product("0.1130000000", tenancy="Dedicated"),
    aws_product("0.0000000000", tenancy="Host"),
    aws_product("0.1330000000", locationType="AWS Local Zone", location="Ireland Local Zone"),
    aws_product("5.6370000000", kind="m5", tenancy="Reserved", capacitystatus="AllocatedHost"),
]
AWS_LINE = "m5.large,,on-demand,0.107,USD"


def azure_item(price: float, **fields: Any) -> Json:
    usual = {
        "currencyCode": "USD", "tierMinimumUnits": 0.0, "retailPrice": price, "unitPrice": price,
        "armRegionName": "westeurope", "location": "EU West", "effectiveStartDate": "2025-08-01T00:00:00Z",
        "meterName": "D2s v3", "productName": "Virtual Machines Dsv3 Series", "skuName": "D2s v3",
        "serviceName": "Virtual Machines", "serviceFamily": "Compute", "unitOfMeasure": "1 Hour",
        "type": "Consumption", "isPrimaryMeterRegion": True, "armSkuName": "Standard_D2s_v3",
    }  # fmt: skip
    return usual | fields


AZURE_ROWS = [
    azure_item(0.12, savingsPlan=[{"unitPrice": 0.08, "retailPrice": 0.08, "term": "1 Year"}]),
    azure_item(0.11, effectiveStartDate="2020-08-01T00:00:00Z"),
    azure_item(0.13, isPrimaryMeterRegion=False, effectiveStartDate="2026-01-01T00:00:00Z"),
    azure_item(0.024, skuName="D2s v3 Spot", meterName="D2s v3 Spot"),
    azure_item(0.025, skuName="D2s v3 Low Priority", meterName="D2s v3 Low Priority"),
    azure_item(0.212, productName="Virtual Machines Dsv3 Series Windows"),
    azure_item(0.12, productName="Virtual Machines Dsv3 Series Windows", type="DevTestConsumption"),
    azure_item(25007.0, type="Reservation", reservationTerm="1 Year"),
    azure_item(4.2, productName="Dsv3 Series Dedicated Host", skuName="Dsv3 Type1"),
    azure_item(0.2, productName="Dv3 Series Cloud Services"),
    azure_item(0.02, unitOfMeasure="1 GB", armSkuName=""),
]
AZURE_LINES = ["Standard_D2s_v3,,on-demand,0.12,USD", "Standard_D2s_v3,,spot,0.024,USD"]


def gcp_sku(description: str, nanos: int, usage: str = "OnDemand", unit: str = "h", currency: str = "USD") -> Json:
    rate = {"startUsageAmount": 0, "unitPrice": {"currencyCode": currency, "units": "0", "nanos": nanos}}
    category = {
        "serviceDisplayName": "Compute Engine", "resourceFamily": "Compute", "resourceGroup": "CPU",
        "usageType": usage,
    }  # fmt: skip
    return {
        "description": f"{description} running in Belgium",
        "category": category,
        "serviceRegions": ["europe-west1"],
        "pricingInfo": [{"summary": "", "pricingExpression": {"usageUnit": unit, "tieredRates": [rate]}}],
        "geoTaxonomy": {"type": "REGIONAL", "regions": ["europe-west1"]},
    }


GCP_SKUS = [
    gcp_sku("E2 Instance Core", 24_000_000),
    gcp_sku("E2 Instance Ram", 3_000_000, unit="GiBy.h"),
    gcp_sku("Compute optimized Instance Core", 40_000_000),
    gcp_sku("Compute optimized Instance Ram", 5_000_000),
    gcp_sku("T2A Arm Instance Core", 30_000_000),
    gcp_sku("T2A Arm Instance Ram", 4_000_000),
    gcp_sku("G2 Instance Core", 27_000_000),
    gcp_sku("G2 Instance Ram", 3_200_000),
    gcp_sku("C3 Instance Core", 37_000_000),
    gcp_sku("C3 Instance Ram", 5_000_000),
    gcp_sku("E2 Sole Tenancy Instance Core", 99_000_000),
    gcp_sku("E2 Custom Instance Core", 98_000_000),
    gcp_sku("E2 Instance Core", 15_000_000, "Commit1Yr"),
    gcp_sku("Reserved A2 Instance Core", 97_000_000),
    gcp_sku("Spot Preemptible E2 Instance Core", 7_000_000, "Preemptible"),
    gcp_sku("Spot Preemptible E2 Instance Ram", 1_000_000, "Preemptible"),
]


def machine(name: str, cpus: int, gib: float, **fields: Any) -> Json:
    return {
        "kind": "compute#machineType", "name": name, "guestCpus": cpus, "memoryMb": int(1024 * gib),
        "isSharedCpu": name in ("e2-micro", "e2-medium"), "zone": "europe-west1-b",
    } | fields  # fmt: skip


GCP_TYPES = [
    machine("e2-standard-2", 2, 8),
    machine("e2-medium", 2, 4),
    machine("e2-micro", 2, 1),
    machine("c2-standard-4", 4, 16),
    machine("t2a-standard-1", 1, 4),
    machine("g2-standard-4", 4, 16, accelerators=[{"guestAcceleratorType": "nvidia-l4", "guestAcceleratorCount": 1}]),
    machine("c3-standard-4-lssd", 4, 16, bundledLocalSsds={"partitionCount": 1, "defaultInterface": "NVME"}),
]


def imported(trimtab: Run, folder: Path, cloud: str, *texts: str) -> tuple[list[str], str]:
    """Return lines without the heading, and the notes."""
    paths = [folder / f"{number}.json" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    done = trimtab("admin", "import-prices", cloud, *paths)
    assert done.code == 0, done.err
    return done.out.splitlines()[1:], done.err


AWS_PAGE = json.dumps({"FormatVersion": "aws_v1", "PriceList": [json.dumps(one) for one in AWS_ROWS]})


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param([AWS_PAGE], id="get-products"),
        pytest.param([AWS_PAGE + "\n" + AWS_PAGE], id="pages one after the other"),
        pytest.param(["\n".join(json.dumps(one, indent=2) for one in AWS_ROWS)], id="items written by jq"),
        pytest.param([json.dumps([json.dumps(one) for one in AWS_ROWS])], id="--query PriceList"),
        pytest.param(
            ["\n".join(json.dumps(AWS_ROWS[at : at + 4]) for at in (0, 4, 8))], id="lists one after the other"
        ),
        pytest.param(
            [
                json.dumps(
                    {
                        "formatVersion": "v1.0",
                        "offerCode": "AmazonEC2",
                        "products": {f"{SKU}{number}": one["product"] for number, one in enumerate(AWS_ROWS)},
                        "terms": {
                            kind: {f"{SKU}{number}": one["terms"][kind] for number, one in enumerate(AWS_ROWS)}
                            for kind in ("OnDemand", "Reserved")
                        },
                    }
                )
            ],
            id="bulk list",
        ),
    ],
)
def test_of_aws_only_plain_linux_on_demand_counts_in_every_form_of_the_list(
    trimtab: Run, tmp_path: Path, texts: list[str]
) -> None:
    assert imported(trimtab, tmp_path, "aws", *texts)[0] == [AWS_LINE]


def test_a_list_of_unused_reservations_alone_has_the_price_on_demand(trimtab: Run, tmp_path: Path) -> None:
    page = json.dumps({"PriceList": [json.dumps(AWS_ROWS[2])]})
    assert imported(trimtab, tmp_path, "aws", page)[0] == [AWS_LINE]


def test_older_aws_lists_without_region_codes_and_markets_are_read(trimtab: Run, tmp_path: Path) -> None:
    old = aws_product("0.1070000000")
    for name in ("regionCode", "marketoption", "capacitystatus", "locationType"):
        del old["product"]["attributes"][name]
    assert imported(trimtab, tmp_path, "aws", json.dumps({"PriceList": [json.dumps(old)]}))[0] == [AWS_LINE]


def test_of_azure_only_linux_by_the_hour_counts_with_the_latest_price_of_the_primary_meter(
    trimtab: Run, tmp_path: Path
) -> None:
    page = {"BillingCurrency": "USD", "Items": AZURE_ROWS, "NextPageLink": None, "Count": len(AZURE_ROWS)}
    lines, notes = imported(trimtab, tmp_path, "azure", json.dumps(page))
    assert lines == AZURE_LINES
    assert "goes on" not in notes


@pytest.mark.parametrize(
    ("cloud", "page", "key"),
    [
        pytest.param("aws", {"PriceList": [json.dumps(AWS_ROWS[0])]}, "NextToken", id="aws"),
        pytest.param("azure", {"Items": AZURE_ROWS}, "NextPageLink", id="azure"),
    ],
)
def test_a_list_whose_last_page_is_missing_is_named_and_the_rest_is_read(
    trimtab: Run, tmp_path: Path, cloud: str, page: Json, key: str
) -> None:
    first = json.dumps({**page, key: "https://prices.azure.com:443/api/retail/prices?$skip=100"})
    lines, notes = imported(trimtab, tmp_path, cloud, first)
    assert lines
    assert f"the list goes on after the given pages ({key} is set in each)" in notes
    assert "goes on" not in imported(trimtab, tmp_path, cloud, first, json.dumps(page))[1]


def test_half_of_the_prices_in_another_currency_are_named_and_the_rest_goes_on(trimtab: Run, tmp_path: Path) -> None:
    items = [*AZURE_ROWS, azure_item(0.9, currencyCode="CNY", armSkuName="Standard_B2s")]
    lines, notes = imported(trimtab, tmp_path, "azure", json.dumps({"Items": items}))
    assert lines == AZURE_LINES
    assert "1 price in CNY left out, such as that of Standard_B2s: the others are in USD" in notes


def test_prices_in_another_currency_alone_keep_it(trimtab: Run, tmp_path: Path) -> None:
    page = json.dumps({"PriceList": [json.dumps(aws_product("0.6690000000", "CNY"))]})
    assert imported(trimtab, tmp_path, "aws", page)[0] == ["m5.large,,on-demand,0.669,CNY"]


def test_of_google_only_machines_that_cores_and_memory_make_up_count(trimtab: Run, tmp_path: Path) -> None:
    skus = {"skus": GCP_SKUS[:9], "nextPageToken": "x"}, {"skus": GCP_SKUS[9:], "nextPageToken": ""}
    lines, notes = imported(trimtab, tmp_path, "gcp", *map(json.dumps, skus), json.dumps(GCP_TYPES))
    assert lines == [
        "c2-standard-4,,on-demand,0.24,USD",
        "e2-medium,,on-demand,0.036,USD",
        "e2-medium,,spot,0.011,USD",
        "e2-micro,,on-demand,0.009,USD",
        "e2-micro,,spot,0.00275,USD",
        "e2-standard-2,,on-demand,0.072,USD",
        "e2-standard-2,,spot,0.022,USD",
        "t2a-standard-1,,on-demand,0.046,USD",
    ]
    assert "2 machine types with accelerators or local disks left out (c3-standard-4-lssd, g2-standard-4)" in notes
    assert "goes on" not in notes
