"""Which instance types a group has: by launch template, launch configuration, or attributes. An unreadable group is
named, and the others continue.
"""

import re
from collections.abc import Iterator
from urllib.parse import parse_qs

import pytest

from tests.builders import aws as fake_aws
from tests.builders.aws import AwsProxy, Fault
from tests.builders.clouds import Clock, aws_cloud
from trimtab.actuator.cloud.aws.cloud import AwsCloud
from trimtab.actuator.cloud.aws.groups import MATCHING_AGE_S
from trimtab.actuator.cloud.table import AwsSettings

TYPES_CALL = "GetInstanceTypesFromInstanceRequirements"
SPECIFICATION = {"LaunchTemplateName": "launch-g", "Version": "1"}


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsProxy]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with fake_aws.aws() as made:
        fake_aws.launch_template("g", "m5.large")
        fake_aws.scaling_group("g", (0, 6, 0))
        made.answers["DescribeImages"] = lambda _: image("x86_64")
        yield made


def cloud_of(proxy: AwsProxy, *groups: str, clock: Clock | None = None) -> AwsCloud:
    cloud = aws_cloud(proxy, AwsSettings(groups=groups), clock or Clock())
    cloud.node_groups()
    return cloud


def cpu(cloud: AwsCloud, group: str) -> str | None:
    template = cloud.template(group)
    return None if template is None else template.capacity["cpu"]


def chosen(*types: str) -> str:
    """Return AWS's answer with instance types that have the attributes."""
    items = "".join(f"<item><instanceType>{name}</instanceType></item>" for name in types)
    return (
        '<GetInstanceTypesFromInstanceRequirementsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<instanceTypeSet>{items}</instanceTypeSet></GetInstanceTypesFromInstanceRequirementsResponse>"
    )


def image(architecture: str) -> str:
    """Return AWS's answer with an image, since moto's have no architecture. "" = without image."""
    item = f"<item><imageId>ami-1</imageId><architecture>{architecture}</architecture></item>"
    return (
        '<DescribeImagesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
        f"<imagesSet>{item if architecture else ''}</imagesSet></DescribeImagesResponse>"
    )


def by_attributes(proxy: AwsProxy, name: str, *types: str, least_cpu: int = 2) -> list[str]:
    """Make a group whose instance types AWS chooses; return the list to which requests for them are added."""
    overrides = [{"InstanceRequirements": {"VCpuCount": {"Min": least_cpu}, "MemoryMiB": {"Min": 4096}}}]
    policy = {"LaunchTemplate": {"LaunchTemplateSpecification": SPECIFICATION, "Overrides": overrides}}
    fake_aws.scaling_group(name, (0, 6, 0), MixedInstancesPolicy=policy)
    # The part of the policy that moto does not store.
    requirements = (
        f"<member><InstanceRequirements><VCpuCount><Min>{least_cpu}</Min></VCpuCount>"
        "<MemoryMiB><Min>4096</Min></MemoryMiB></InstanceRequirements></member>"
    )
    proxy.edits["DescribeAutoScalingGroups"] = lambda answer: fake_aws.with_overrides(answer, name, requirements)
    requests: list[str] = []

    def answer(body: str) -> str:
        requests.append(body)
        return chosen(*types)

    proxy.answers[TYPES_CALL] = answer
    return requests


def test_types_chosen_by_attributes_are_those_that_aws_would_choose_for_the_image(proxy: AwsProxy) -> None:
    requests = by_attributes(proxy, "chosen", "c5.xlarge", "r5.large")
    cloud = cloud_of(proxy, "chosen")
    template = cloud.template("chosen")
    assert template is not None
    assert (template.capacity["cpu"], template.capacity["memory"]) == ("2", "8192Mi")
    assert [one.name for one in template.machines] == ["c5.xlarge", "r5.large"]
    asked = parse_qs(requests[0])
    assert asked["InstanceRequirements.VCpuCount.Min"] == ["2"]
    assert (asked["ArchitectureType.1"], asked["VirtualizationType.1"]) == (["x86_64"], ["hvm"])


def test_types_chosen_by_attributes_are_requested_again_after_an_hour(proxy: AwsProxy) -> None:
    requests = by_attributes(proxy, "chosen", "c5.xlarge")
    clock = Clock()
    cloud = cloud_of(proxy, "chosen", clock=clock)
    for _ in range(3):
        cloud.refresh()
        assert cpu(cloud, "chosen") == "4"
    assert len(requests) == 1
    proxy.answers[TYPES_CALL] = lambda _: chosen("c5.xlarge", "c5.2xlarge", "m5.large")
    clock.now_s += MATCHING_AGE_S + 1
    assert cpu(cloud, "chosen") == "2"


@pytest.mark.parametrize(
    ("types", "fault", "told"),
    [
        ((), None, "no instance type has the required attributes"),
        (("never.large",), None, "does not know the instance type never.large"),
        (("m5.large",), Fault("UnauthorizedOperation", 403), "allow ec2:GetInstanceTypesFromInstanceRequirements"),
    ],
    ids=["none fits", "unknown type", "not allowed"],
)
def test_attributes_without_matching_types_are_reported_and_other_groups_continue(
    proxy: AwsProxy, types: tuple[str, ...], fault: Fault | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    by_attributes(proxy, "chosen", *types)
    if fault is not None:
        proxy.fail(TYPES_CALL, fault)
    cloud = cloud_of(proxy, "chosen", "g")
    assert (cpu(cloud, "chosen"), cpu(cloud, "g")) == (None, "2")
    assert any("node_group=chosen" in line and told in line for line in capsys.readouterr().out.splitlines())


def test_a_launch_template_may_choose_by_attributes_too_and_names_the_image_that_decides(
    proxy: AwsProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    requirements = (
        "<instanceRequirements><vCpuCount><min>4</min></vCpuCount><memoryMiB><min>1</min></memoryMiB>"
        "</instanceRequirements>"
    )
    proxy.edits["DescribeLaunchTemplateVersions"] = lambda answer: answer.replace(
        "<instanceType>m5.large</instanceType>", requirements
    )
    proxy.answers[TYPES_CALL] = lambda _: chosen("m5.xlarge")
    assert cpu(cloud_of(proxy, "g"), "g") == "4"
    proxy.answers["DescribeImages"] = lambda _: image("arm64")
    arm: list[str] = []
    proxy.answers[TYPES_CALL] = lambda body: (arm.append(body), chosen("m6g.large"))[1]
    template = cloud_of(proxy, "g").template("g")
    assert template is not None
    assert (template.labels["kubernetes.io/arch"], parse_qs(arm[0])["ArchitectureType.1"]) == ("arm64", ["arm64"])
    proxy.answers["DescribeImages"] = lambda _: image("")
    assert cpu(cloud_of(proxy, "g"), "g") is None
    by_type = proxy.edits["DescribeLaunchTemplateVersions"]
    proxy.edits["DescribeLaunchTemplateVersions"] = lambda answer: fake_aws.with_image(
        by_type(answer), "resolve:ssm:/a"
    )
    assert cpu(cloud_of(proxy, "g"), "g") is None
    first, second = [line for line in capsys.readouterr().out.splitlines() if "node_group=g" in line]
    assert "AWS has no image ami-" in first
    assert "give the image's id" in second


def test_a_group_of_a_launch_configuration_has_its_type_and_its_price_is_spot_if_it_bids(proxy: AwsProxy) -> None:
    for name, more in (("old", {}), ("bid", {"SpotPrice": "0.05"})):
        fake_aws.launch_configuration(name, "m5.xlarge", **more)
        fake_aws.scaling_group(name, (0, 3, 0), LaunchConfigurationName=f"configuration-{name}")
    cloud = cloud_of(proxy, "bid", "g", "old")
    assert [cpu(cloud, group) for group in ("bid", "g", "old")] == ["4", "2", "4"]
    launches, groups = cloud._catalogue.launches, cloud._catalogue.groups()
    assert [launches.is_spot(groups[name]) for name in ("bid", "g", "old")] == [True, False, False]
    assert proxy.count("DescribeLaunchConfigurations") == 2
    cloud.refresh()
    assert cpu(cloud, "old") == "4"
    assert proxy.count("DescribeLaunchConfigurations") == 2, "they never change"


def test_a_launch_template_that_asks_for_spot_makes_a_spot_group(proxy: AwsProxy) -> None:
    proxy.edits["DescribeLaunchTemplateVersions"] = lambda answer: answer.replace(
        "<instanceType>", "<instanceMarketOptions><marketType>spot</marketType></instanceMarketOptions><instanceType>"
    )
    cloud = cloud_of(proxy, "g")
    assert cloud._catalogue.launches.is_spot(cloud._catalogue.groups()["g"])


def test_a_launch_configuration_that_is_gone_is_named_and_the_others_continue(
    proxy: AwsProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_aws.launch_configuration("old", "m5.xlarge")
    fake_aws.scaling_group("old", (0, 3, 0), LaunchConfigurationName="configuration-old")
    proxy.edits["DescribeLaunchConfigurations"] = lambda answer: re.sub(
        "(?s)<LaunchConfigurations>.*</LaunchConfigurations>", "<LaunchConfigurations/>", answer
    )
    cloud = cloud_of(proxy, "g", "old")
    assert (cpu(cloud, "g"), cpu(cloud, "old")) == ("2", None)
    log = capsys.readouterr().out
    assert "node_group=old" in log
    assert "AWS has no launch configuration configuration-old" in log
