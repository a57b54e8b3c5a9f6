"""The time of the cloud `aws` without AWS itself: 200 Auto Scaling groups with 10,000 instances, in 40 instance types.

Synthetic: answers are made once, of the sizes that AWS gives them, and no byte goes over a network. `refresh` and all
that follows get them as boto3 would have read them; `boto3` is the same refresh from the answers' XML.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tests.benchmarks.registry import Stages, scenario

GROUPS, INSTANCES, PAGE, CALLS = 200, 50, 50, 200
MIB = 1 << 20
SIZES = (("large", 2, 8), ("xlarge", 4, 16), ("2xlarge", 8, 32), ("4xlarge", 16, 64))
FAMILIES = tuple(f"m{generation}{kind}" for generation in (5, 6) for kind in ("", "a", "d", "g", "i"))
LABEL = "k8s.io/cluster-autoscaler/node-template/label/pool"
NAMESPACE = "http://autoscaling.amazonaws.com/doc/2011-01-01/"


class Answers:
    """AWS as it answers, read already; `count` calls were made."""

    region = "eu-central-1"

    def __init__(self) -> None:
        self.count = 0
        self.pages = [[_group(number) for number in range(at, at + PAGE)] for at in range(0, GROUPS, PAGE)]
        self._types = {entry["InstanceType"]: entry for entry in _types()}

    def call(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """Answer one call."""
        del service
        self.count += 1
        if operation == "describe_instance_types":
            names = parameters["Filters"][0]["Values"]
            return {"InstanceTypes": [self._types[name] for name in names]}
        assert operation == "describe_auto_scaling_groups", operation
        page = int(parameters.get("NextToken") or 0)
        more = {"NextToken": str(page + 1)} if page + 1 < len(self.pages) else {}
        return {"AutoScalingGroups": self.pages[page], **more}


class Groups:
    """The cloud over these answers, and over their XML."""

    def __init__(self) -> None:
        # Imported late: other scenarios do without, and their memory is measured.
        from trimtab.actuator.cloud.aws.cloud import AwsCloud
        from trimtab.actuator.cloud.table import AwsSettings

        self.answers = Answers()
        settings = AwsSettings(tags={"owner": "trimtab"}, max_age_s=3600)
        self.cloud = AwsCloud(self.answers, settings)
        self.names = [_name(number) for number in range(GROUPS)]
        self.over_xml = AwsCloud(
            _api_over([_xml(page, self.answers.pages) for page in range(GROUPS // PAGE)]), settings
        )


def run(made: Groups, stages: Stages) -> dict[str, Any]:
    """Read everything once, and look nodes up."""
    cloud = made.cloud
    with stages.stage("refresh"):
        cloud.refresh()
        views = cloud.node_groups()
        instances = cloud.instances(made.names)
        group_of = cloud.groups_of(["aws:///eu-central-1a/i-000000"])
    with stages.stage("templates"):
        templates = [(cloud.options(name), cloud.template(name)) for name in made.names]
    begun_s = time.perf_counter()
    for at in range(CALLS):
        group_of |= cloud.groups_of([_provider_id(at * (GROUPS * INSTANCES // CALLS))])
    stages.add("node to group", (time.perf_counter() - begun_s) / CALLS)
    with stages.stage("boto3"):
        made.over_xml.refresh()
        by_xml = made.over_xml.node_groups()
    return {"views": views, "instances": instances, "templates": templates, "group_of": group_of, "by_xml": by_xml}


def verify(made: Groups, answer: dict[str, Any]) -> None:
    """All groups and instances, each node's group, and a template of each."""
    assert [one.id for one in answer["views"]] == made.names == [one.id for one in answer["by_xml"]]
    assert (
        {one.target_size for one in answer["views"]} == {INSTANCES} == {one.instance_count for one in answer["by_xml"]}
    )
    assert sum(len(members) for members in answer["instances"].values()) == GROUPS * INSTANCES
    step = GROUPS * INSTANCES // CALLS
    assert all(answer["group_of"][_provider_id(at)] == _name(at // INSTANCES) for at in range(0, CALLS * step, step))
    cpus = {template.capacity["cpu"] for _, template in answer["templates"]}
    assert cpus == {str(cpu) for _, cpu, _ in SIZES}


def _name(number: int) -> str:
    return f"group-{number:03}"


def _provider_id(at: int) -> str:
    return f"aws:///eu-central-1a/i-{at:06}"


def _type(number: int) -> str:
    return f"{FAMILIES[number % len(FAMILIES)]}.{SIZES[number // len(FAMILIES) % len(SIZES)][0]}"


def _group(number: int) -> dict[str, Any]:
    """Return a group as boto3 reads it, with all fields that AWS gives its instances."""
    launch = {"LaunchTemplateId": "lt-0a", "LaunchTemplateName": "launch", "Version": "1"}
    instances = [
        {
            "InstanceId": f"i-{at:06}",
            "InstanceType": _type(number),
            "AvailabilityZone": "eu-central-1a",
            "LifecycleState": "InService",
            "HealthStatus": "Healthy",
            "LaunchTemplate": launch,
            "ProtectedFromScaleIn": False,
        }
        for at in range(number * INSTANCES, (number + 1) * INSTANCES)
    ]
    policy = {"LaunchTemplateSpecification": launch, "Overrides": [{"InstanceType": _type(number)}]}
    return {
        "AutoScalingGroupName": _name(number),
        "MinSize": 0,
        "MaxSize": 100,
        "DesiredCapacity": INSTANCES,
        "AvailabilityZones": ["eu-central-1a"],
        "CreatedTime": datetime(2026, 1, 1, tzinfo=UTC),
        "MixedInstancesPolicy": {"LaunchTemplate": policy},
        "Instances": instances,
        "Tags": [{"Key": "owner", "Value": "trimtab"}, {"Key": LABEL, "Value": "a"}],
    }


def _types() -> list[dict[str, Any]]:
    return [
        {
            "InstanceType": f"{family}.{size}",
            "VCpuInfo": {"DefaultVCpus": cpu},
            "MemoryInfo": {"SizeInMiB": gib << 10},
            "NetworkInfo": {"MaximumNetworkInterfaces": 4, "Ipv4AddressesPerInterface": 15},
            "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        }
        for family in FAMILIES
        for size, cpu, gib in SIZES
    ]


def _api_over(answers: list[bytes]) -> Any:
    """Return boto3's AWS, whose calls get these answers in turn in place of the network's."""
    from botocore.awsrequest import AWSResponse
    from botocore.credentials import Credentials

    from trimtab.actuator.cloud.aws.api import AwsApi

    class Raw:
        def __init__(self, content: bytes) -> None:
            self.content = content

        def stream(self, **_: Any) -> Any:
            yield self.content

    sent: list[int] = []

    def send(request: Any, **_: Any) -> Any:
        content = answers[len(sent) % len(answers)]
        sent.append(1)
        return AWSResponse(request.url, 200, {"Content-Type": "text/xml"}, Raw(content))

    api = AwsApi("eu-central-1")
    client = api._clients["autoscaling"]
    client._request_signer._credentials = Credentials("id", "secret")
    client.meta.events.register("before-send", send)
    return api


def _xml(page: int, pages: list[list[dict[str, Any]]]) -> bytes:
    """Return a page as AWS writes it."""
    more = f"<NextToken>{page + 1}</NextToken>" if page + 1 < len(pages) else ""
    groups = "".join(f"<member>{_fields(group)}</member>" for group in pages[page])
    return (
        f'<DescribeAutoScalingGroupsResponse xmlns="{NAMESPACE}"><DescribeAutoScalingGroupsResult>'
        f"<AutoScalingGroups>{groups}</AutoScalingGroups>{more}</DescribeAutoScalingGroupsResult>"
        "</DescribeAutoScalingGroupsResponse>"
    ).encode()


def _fields(value: dict[str, Any]) -> str:
    return "".join(f"<{name}>{_element(one)}</{name}>" for name, one in value.items())


def _element(value: Any) -> str:
    if isinstance(value, dict):
        return _fields(value)
    if isinstance(value, list):
        return "".join(f"<member>{_element(one)}</member>" for one in value)
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, datetime) else str(value)


scenario(
    name="aws-groups-10000",
    what="read 200 Auto Scaling groups of 10,000 instances, their templates and options, and look nodes up",
    setup=Groups,
    run=run,
    verify=verify,
    aims={"refresh": 0.2, "node to group": 0.001, "peak": 300 * MIB},
    reference="boto3 alone takes the stage of its name to read the same answers from XML",
)
