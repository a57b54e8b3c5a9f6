"""Templates, prices and groups of AWS, from the answers of its calls."""

from pathlib import Path
from typing import Any

import pytest

from trimtab.actuator.cloud.aws.catalogue import TAGS, InstanceType, group_options, group_template, read_type
from trimtab.actuator.cloud.aws.groups import instance_id, read_group
from trimtab.actuator.cloud.aws.prices import Price, group_price, load_prices
from trimtab.actuator.cloud.provider import InstanceState, Reservation
from trimtab.actuator.cloud.table import read_tags

SMALL = InstanceType("c5.xlarge", 4, 7680, 58, 0, "", "amd64")
LARGE = InstanceType("r5.large", 2, 15616, 29, 0, "", "amd64")
GPU = InstanceType("g4dn.xlarge", 4, 16384, 29, 1, "nvidia-t4", "amd64")


def test_each_amount_is_the_smallest_over_all_instance_types() -> None:
    template = group_template([SMALL, LARGE], ["eu-central-1a"], {})
    assert dict(template.capacity) == {"cpu": "2", "memory": "7680Mi", "pods": "29"}
    assert template.allocatable == template.capacity
    assert "node.kubernetes.io/instance-type" not in template.labels


def test_a_template_names_its_machines_and_what_tags_declare_of_nodes() -> None:
    many = LARGE._replace(pods=234)
    template = group_template([SMALL, many], [], {TAGS + "resources/memory": "6Gi", TAGS + "label/pool": "web"})
    assert template.declared == {"memory"}
    assert template.capacity["pods"] == "58"
    assert group_template([many], [], {}).capacity["pods"] == "110"
    assert [(one.name, one.cpu_milli, one.memory_bytes >> 20, one.pods) for one in template.machines] == [
        ("c5.xlarge", 4000, 7680, 58),
        ("r5.large", 2000, 15616, 234),
    ]
    assert {one.reservation for one in template.machines} == {Reservation.EKS}


def test_a_label_stands_only_where_all_nodes_have_it() -> None:
    one = group_template([SMALL], ["eu-central-1a"], {}).labels
    assert (one["topology.kubernetes.io/zone"], one["topology.kubernetes.io/region"]) == (
        "eu-central-1a",
        "eu-central-1",
    )
    assert (one["node.kubernetes.io/instance-type"], one["kubernetes.io/arch"]) == ("c5.xlarge", "amd64")
    many = group_template([SMALL, LARGE._replace(architecture="arm64")], ["eu-central-1a", "eu-central-1b"], {}).labels
    assert {"topology.kubernetes.io/zone", "kubernetes.io/arch"} & many.keys() == set()
    assert many["topology.kubernetes.io/region"] == "eu-central-1"


def test_gpus_count_where_every_type_has_some() -> None:
    assert group_template([GPU], [], {}).capacity["nvidia.com/gpu"] == "1"
    assert group_template([GPU], [], {}).labels["k8s.amazonaws.com/accelerator"] == "nvidia-t4"
    assert "nvidia.com/gpu" not in group_template([GPU, SMALL], [], {}).capacity


def test_tags_win_over_what_aws_says() -> None:
    tags = {
        TAGS + "label/pool": "web",
        TAGS + "label/example.com/team": "a",
        TAGS + "taint/dedicated": "web:NoExecute",
        TAGS + "resources/memory": "6Gi",
        TAGS + "resources/ephemeral-storage": "100Gi",
        TAGS + "autoscaling-options/scaledownutilizationthreshold": "0.7",
        "Name": "of no meaning",
    }
    template = group_template([SMALL], [], tags)
    assert (template.labels["pool"], template.labels["example.com/team"]) == ("web", "a")
    assert [tuple(taint) for taint in template.taints] == [("dedicated", "web", "NoExecute")]
    assert (template.capacity["memory"], template.capacity["ephemeral-storage"]) == ("6Gi", "100Gi")
    assert group_options(tags).scale_down_utilization_threshold == 0.7


@pytest.mark.parametrize(
    "tag", [(TAGS + "label/", "x"), (TAGS + "colour/x", "red"), (TAGS + "taint/x", "web:Never"), (TAGS + "taint/x", "")]
)
def test_a_tag_that_cannot_be_read_is_named(tag: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=f"tag {tag[0]}"):
        group_template([SMALL], [], dict([tag]))


def test_a_type_is_read_with_the_pods_that_its_interfaces_have_addresses_for() -> None:
    entry: dict[str, Any] = {
        "InstanceType": "m5.large",
        "VCpuInfo": {"DefaultVCpus": 2},
        "MemoryInfo": {"SizeInMiB": 8192},
        "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10},
        "ProcessorInfo": {"SupportedArchitectures": ["arm64"]},
        "GpuInfo": {"Gpus": [{"Name": "T4", "Manufacturer": "NVIDIA", "Count": 2}]},
    }
    assert read_type(entry) == InstanceType("m5.large", 2, 8192, 29, 2, "nvidia-t4", "arm64")


def group(**more: Any) -> Any:
    return {"AutoScalingGroupName": "g", "MinSize": 0, "MaxSize": 5, "DesiredCapacity": 3, **more}


def test_instances_of_a_warm_pool_are_none_and_those_with_a_hook_do_not_run_yet() -> None:
    states = ["InService", "Pending:Wait", "Terminating:Wait", "Warmed:Stopped", "Standby"]
    entries = [
        {"InstanceId": f"i-{number}", "AvailabilityZone": "a", "LifecycleState": state}
        for number, state in enumerate(states)
    ]
    found = read_group(group(Instances=entries))
    assert [member.state for member in found.members] == [
        InstanceState.RUNNING,
        InstanceState.CREATING,
        InstanceState.DELETING,
        InstanceState.RUNNING,
    ]
    assert found.staying_count == 3


def test_placeholders_stand_for_what_is_wanted_and_missing() -> None:
    found = read_group(group(AvailabilityZones=["b", "a"]))
    names = found.placeholders(())
    assert names == [f"aws:///a/i-placeholder-g-{number}" for number in range(3)]
    assert found.placeholders(names[:1])[-1] == "aws:///a/i-placeholder-g-3"


def test_types_of_a_mixed_instances_policy_replace_that_of_the_launch_template() -> None:
    policy: dict[str, Any] = {
        "LaunchTemplate": {
            "LaunchTemplateSpecification": {"LaunchTemplateName": "l", "Version": "1"},
            "Overrides": [{"InstanceType": "r5.large"}, {"InstanceType": "c5.xlarge"}],
        },
        "InstancesDistribution": {"OnDemandBaseCapacity": 0, "OnDemandPercentageAboveBaseCapacity": 0},
    }
    found = read_group(group(MixedInstancesPolicy=policy))
    assert (found.types, found.launch["LaunchTemplateName"], found.spot) == (("c5.xlarge", "r5.large"), "l", True)
    policy["InstancesDistribution"]["OnDemandBaseCapacity"] = 1
    assert not read_group(group(MixedInstancesPolicy=policy)).spot
    assert not read_group(group()).spot


@pytest.mark.parametrize(
    ("provider_id", "found"),
    [("aws:///eu-central-1a/i-0abc", "i-0abc"), ("i-0abc", ""), ("gce:///z/i-0", ""), ("aws:///z/fargate-1", "")],
)
def test_only_provider_ids_of_aws_are_instances(provider_id: str, found: str) -> None:
    assert instance_id(provider_id) == found


def test_a_group_costs_as_much_as_its_most_expensive_type_and_nothing_is_guessed(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("a: 0.1\nb: {onDemand: 0.3, spot: 0.05}\nc: {spot: 0.02}\n")
    prices = load_prices(tmp_path / "p.yaml")
    assert prices["a"] == Price(0.1, None)
    assert group_price(prices, ["a", "b"], spot=False) == 0.3
    assert group_price(prices, ["b", "c"], spot=True) == 0.05
    assert group_price(prices, ["a", "c"], spot=False) is None
    assert group_price(prices, ["never"], spot=False) is None


@pytest.mark.parametrize("text", ["[1]", "a: cheap", "a: -1", "a: {weekly: 1}", "a: true", "a: {spot: .nan}", "a: ["])
def test_a_file_of_prices_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"p\.yaml"):
        load_prices(tmp_path / "p.yaml")


def test_tags_to_discover_by_have_a_key_and_perhaps_a_value() -> None:
    assert read_tags("a=1, b ,c=") == {"a": "1", "b": "", "c": ""}
    with pytest.raises(ValueError, match="'=x' is not KEY"):
        read_tags("a,=x")
