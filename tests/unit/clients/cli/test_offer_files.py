"""Files of offerings: CSV, JSON, YAML and a price list of AWS; what cannot be used is named."""

import json
from pathlib import Path

import pytest

from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.offer_files import read_offers
from trimtab.common.objects.karpenter.offers import MachineOffer, family_of, usual_allocatable

HEAD = "instance_type,cpu,memory_gib,pods,zone,capacity_type,price,currency\n"


def written(folder: Path, text: str, name: str = "offers.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def only(path: Path) -> MachineOffer:
    (offer,) = read_offers(path).offers
    return offer


def test_a_line_is_an_offering_with_labels_and_what_is_left_for_pods(tmp_path: Path) -> None:
    offer = only(written(tmp_path, HEAD + "m5.large,2,8,29,eu-west-1a,spot,0.041,usd\n"))
    assert (str(offer.key), offer.price) == ("m5.large/eu-west-1a/spot", 0.041)
    assert offer.capacity == {"cpu": "2000m", "memory": "8192Mi", "pods": "29"}
    assert offer.allocatable == {"cpu": "1930m", "memory": "6903Mi", "pods": "29"}
    assert offer.labels["karpenter.k8s.aws/instance-family"] == "m5"
    assert offer.labels["karpenter.k8s.aws/instance-cpu"] == "2"
    assert offer.labels["karpenter.k8s.aws/instance-memory"] == "8192"
    assert read_offers(tmp_path / "offers.csv").currency == "USD"


def test_json_and_yaml_have_the_same_keys_and_columns_with_a_slash_are_labels(tmp_path: Path) -> None:
    row = {"instance_type": "x", "cpu": 4, "memory_gib": 16, "gpus": 1, "arch": "arm64", "example.com/disk": "ssd",
           "labels": "a=b; c/d=e", "allocatable_cpu": 3.5, "price": 1}  # fmt: skip
    of_json = only(written(tmp_path, json.dumps([row]), "offers.json"))
    text = "- " + "\n  ".join(f"{key}: {json.dumps(value)}" for key, value in row.items())
    of_yaml = only(written(tmp_path, text, "offers.yaml"))
    assert of_json == of_yaml
    assert of_json.allocatable["cpu"] == "3500m"
    assert of_json.capacity["nvidia.com/gpu"] == "1"
    labels = {key: of_json.labels[key] for key in ("example.com/disk", "a", "c/d", "kubernetes.io/arch")}
    assert labels == {"example.com/disk": "ssd", "a": "b", "c/d": "e", "kubernetes.io/arch": "arm64"}


def aws_product(name: str = "m5.large") -> str:
    product = {
        "product": {
            "attributes": {
                "instanceType": name, "vcpu": "2", "memory": "8 GiB", "operatingSystem": "Linux",
                "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used", "regionCode": "eu-west-1",
                "processorArchitecture": "64-bit",
            }
        },
        "terms": {"OnDemand": {"a": {"priceDimensions": {"b": {"unit": "Hrs", "pricePerUnit": {"USD": "0.107"}}}}}},
    }  # fmt: skip
    return json.dumps(product)


def test_a_price_list_of_aws_is_a_file_of_offerings(tmp_path: Path) -> None:
    offer = only(written(tmp_path, json.dumps({"PriceList": [aws_product()]}), "aws.json"))
    assert (offer.key.instance_type, offer.key.zone, offer.price) == ("m5.large", "", 0.107)
    assert offer.labels["kubernetes.io/arch"] == "amd64"


def test_pages_of_aws_one_after_the_other_count_together_and_a_missing_last_one_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = json.dumps({"PriceList": [aws_product("m5.large")], "NextToken": "more"}, indent=2)
    last = json.dumps({"PriceList": [aws_product("m5.xlarge")]})
    found = read_offers(written(tmp_path, f"{first}\n{last}\n", "aws.json"))
    assert [one.key.instance_type for one in found.offers] == ["m5.large", "m5.xlarge"]
    assert capsys.readouterr().err == ""
    read_offers(written(tmp_path, first, "aws.json"))
    assert "the list goes on after the given pages" in capsys.readouterr().err


def test_a_line_of_csv_may_lack_its_last_values(tmp_path: Path) -> None:
    assert only(written(tmp_path, HEAD + "m5.large,2,8\n")).price is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (",2,8,29,z,,0.1,", "line 3: instance_type is missing"),
        ("a,two,8,29,z,,0.1,", "line 3: cpu 'two' is not a number"),
        ("a,,8,29,z,,0.1,", "line 3: cpu is missing"),
        ("a,2,8,29,z,,-1,", "line 3: price '-1' is not a number of at least 0"),
        ("a,2,8,29,z,,nan,", "line 3: price 'nan' is not a number"),
        ("a,2,8,29,z,cheap,1,", "line 3: capacity_type 'cheap' is none of on-demand, spot, reserved"),
        ("good,2,8,29,z,,9,", "line 3: good/z/on-demand is given twice; the first line counts"),
    ],
)
def test_a_line_that_cannot_be_used_is_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    path = written(tmp_path, f"{HEAD}good,2,8,29,z,,0.1,\n{line}\nalso,2,8,29,z,,0.2,\n")
    assert [one.price for one in read_offers(path).offers] == [0.2, 0.1]
    assert said in capsys.readouterr().err


def test_offerings_in_another_currency_are_left_out_and_those_without_a_price_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "a,2,8,29,z,,1,EUR\nb,2,8,29,z,,1,USD\nc,2,8,29,z,,2,EUR\nd,2,8,29,z,,,\n"
    found = read_offers(written(tmp_path, HEAD + lines))
    assert [one.key.instance_type for one in found.offers] == ["a", "c", "d"]
    assert found.currency == "EUR"
    said = capsys.readouterr().err
    assert "1 offering with a price in USD left out, such as b/z/on-demand: the others are in EUR" in said
    assert "1 offering without a price, such as d/z/on-demand" in said


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("type,price\na,1\n", "o.csv", "column 'type' is unknown"),
        ("instance_type,cpu\na,1\n", "o.csv", "column 'memory_gib' is missing"),
        (
            "instance_type,cpu,memory_gib,price\na,2,8,0,107\n",
            "o.csv",
            "line 2: it has more values than the first line",
        ),
        ("instance_type,cpu,memory_gib,cpu\na,2,8,4\n", "o.csv", "column 'cpu' is given twice"),
        ('instance_type,cpu,memory_gib\na,2,"8"x\n', "o.csv", "line 2: this is not CSV"),
        (HEAD, "o.csv", "there is no offering"),
        ("{", "o.json", "neither JSON nor YAML"),
        ("a: 1\n", "o.yaml", "a list of mappings is expected"),
        ("[1]", "o.json", "entry 0: a mapping is expected"),
    ],
)
def test_a_file_that_is_none_of_offerings_is_refused(tmp_path: Path, text: str, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_offers(written(tmp_path, text, name))


@pytest.mark.parametrize(
    ("instance_type", "family"),
    [
        ("m5.large", "m5"), ("u-6tb1.metal", "u-6tb1"), ("n2-standard-4", "n2-standard"), ("e2-medium", "e2-medium"),
        ("Standard_D4s_v5", "Standard_D_s_v5"), ("Standard_NC24ads_A100_v4", "Standard_NC_ads_A100_v4"),
        ("odd", "odd"),
    ],
)  # fmt: skip
def test_the_name_of_a_type_says_its_family(instance_type: str, family: str) -> None:
    assert family_of(instance_type) == family


def test_what_is_left_for_pods_never_is_below_nothing() -> None:
    assert usual_allocatable(96_000, 393_216, 737) == (95_690, 355_262)
    assert usual_allocatable(100, 128, 4) == (94, 0)
