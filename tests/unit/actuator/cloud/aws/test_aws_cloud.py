"""Auto Scaling groups while AWS throttles, loses answers, lacks capacity and returns outdated lists."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.builders import aws as fake_aws
from tests.builders.aws import REGION, XML_ERROR, AwsProxy, Fault
from tests.builders.clouds import Clock, aws_cloud
from trimtab.actuator.cloud.aws.api import AwsApi, CredentialsError, Reader
from trimtab.actuator.cloud.aws.cloud import AwsCloud
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError, InstanceState, NodeGroupView
from trimtab.actuator.cloud.table import AwsSettings
from trimtab.actuator.service.group_views import GroupDetails

LOST = Fault()
SETTINGS = AwsSettings(groups=("g",), consistency_s=30)


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsProxy]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with fake_aws.aws() as made:
        fake_aws.launch_template("g", "m5.large")
        fake_aws.scaling_group("g", (1, 6, 3))
        yield made


def target(cloud: AwsCloud) -> int:
    cloud.refresh()
    return cloud.node_groups()[0].target_size


def ids(cloud: AwsCloud) -> list[str]:
    cloud.refresh()
    return [one.id for one in cloud.instances(["g"])["g"]]


def test_reads_survive_throttling_and_errors_of_the_server(proxy: AwsProxy) -> None:
    proxy.fail("DescribeAutoScalingGroups", Fault("Throttling"), Fault("RequestLimitExceeded"), Fault("x", 503))
    cloud = aws_cloud(proxy, SETTINGS)
    assert cloud.node_groups() == [NodeGroupView("g", 1, 6, 3, 3)]
    # Kept until reset.
    for _ in range(5):
        cloud.node_groups()
    assert proxy.count("DescribeAutoScalingGroups") == 4


@pytest.mark.parametrize(
    ("fault", "is_refused"),
    [
        (Fault("Throttling"), False),
        (Fault("x", 500, b"<html>not what you think</html>"), False),
        (Fault("x", 200, b"garbage"), False),
        (Fault("x", 200, b"<html>a page of a proxy</html>"), False),
        (Fault("ExpiredToken", 403), True),
        (Fault("AccessDenied", 403), True),
        (Fault("ValidationError"), True),
    ],
    ids=str,
)
def test_a_temporary_error_is_distinguished_from_a_refusal(proxy: AwsProxy, fault: Fault, is_refused: bool) -> None:
    proxy.fail("DescribeAutoScalingGroups", *[fault] * 6)
    with pytest.raises(CloudError) as caught:
        aws_cloud(proxy, SETTINGS).node_groups()
    assert isinstance(caught.value, CloudRefusedError) is is_refused
    assert proxy.count("DescribeAutoScalingGroups") == (1 if is_refused else 6)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "Unable to locate credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE"),
        ({"AWS_ACCESS_KEY_ID": "id"}, "missing: AWS_SECRET_ACCESS_KEY; set AWS_ACCESS_KEY_ID and"),
    ],
    ids=["none", "half of them"],
)
def test_missing_credentials_are_reported_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], told: str
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CredentialsError, match=told):
        AwsApi("eu-central-1", "http://127.0.0.1:9").call("autoscaling", "describe_auto_scaling_groups")


@pytest.mark.parametrize(
    ("code", "is_unknown", "told"),
    [
        ("ExpiredToken", True, "SetDesiredCapacity|set_desired_capacity.*renew AWS_SESSION_TOKEN"),
        ("InvalidClientTokenId", True, "check AWS_ACCESS_KEY_ID"),
        ("SignatureDoesNotMatch", True, "AWS_SECRET_ACCESS_KEY"),
        ("AccessDenied", False, "allow autoscaling:SetDesiredCapacity to the actuator in its IAM policy"),
    ],
)
def test_credentials_that_aws_does_not_accept_are_reported_with_what_to_do_and_change_nothing(
    proxy: AwsProxy, code: str, is_unknown: bool, told: str
) -> None:
    cloud = aws_cloud(proxy, SETTINGS)
    proxy.fail("SetDesiredCapacity", Fault(code, 403))
    with pytest.raises(CloudRefusedError, match=told) as caught:
        cloud.set_size("g", 3, 5, "token")
    assert isinstance(caught.value, CredentialsError) is is_unknown
    assert target(cloud) == 3
    cloud.set_size("g", 3, 5, "token")
    assert target(cloud) == 5, "renewed"


def test_credentials_that_expire_take_no_template_away_and_name_the_group_while_others_continue(
    proxy: AwsProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    latest = {"LaunchTemplateName": "launch-g", "Version": "$Latest"}
    for name in ("late", "new"):
        fake_aws.scaling_group(name, (0, 3, 0), LaunchTemplate=latest)
    cloud = aws_cloud(proxy, AwsSettings(groups=("g", "late", "new")))
    details = GroupDetails(cloud, 0.0)
    before = dict(details.get(["g", "late"]))
    cloud.refresh()
    proxy.fail("DescribeLaunchTemplateVersions", Fault("ExpiredToken", 403), Fault("ExpiredToken", 403))
    found = details.get(["g", "late", "new"])
    assert (found["g"], found["late"]) == (before["g"], before["late"])
    assert not found["new"].HasField("template")
    log = capsys.readouterr().out
    for name in ("late", "new"):
        assert any(f"node_group={name}" in line and "renew AWS_SESSION_TOKEN" in line for line in log.splitlines())
    assert "node_group=g " not in log
    assert details.get(["new"])["new"].HasField("template"), "renewed"


def test_a_growth_whose_answer_was_lost_is_made_once(proxy: AwsProxy) -> None:
    cloud = aws_cloud(proxy, SETTINGS)
    proxy.fail("SetDesiredCapacity", LOST)
    with pytest.raises(CloudError):
        cloud.set_size("g", 3, 5, "token")
    cloud.set_size("g", 3, 5, "token")
    assert (target(cloud), len(ids(cloud))) == (5, 5)
    assert proxy.count("SetDesiredCapacity") == 1


def test_a_termination_whose_answer_was_lost_is_not_repeated(proxy: AwsProxy) -> None:
    cloud = aws_cloud(proxy, SETTINGS)
    victim = ids(cloud)[0]
    proxy.fail("TerminateInstanceInAutoScalingGroup", LOST)
    assert type(cloud.delete_instances("g", [victim])[victim]) is CloudError
    assert cloud.delete_instances("g", [victim]) == {}
    assert (target(cloud), proxy.count("TerminateInstanceInAutoScalingGroup")) == (2, 1)
    assert cloud.instance_states("g", [victim]) == {victim: InstanceState.GONE}


def test_while_lists_may_be_old_a_termination_in_doubt_is_not_repeated_and_later_it_is(proxy: AwsProxy) -> None:
    clock = Clock()
    cloud = aws_cloud(proxy, SETTINGS, clock)
    victim = ids(cloud)[0]
    # It never reached the group: the list continues to show the instance.
    proxy.fail("TerminateInstanceInAutoScalingGroup", Fault("Throttling"))
    for _ in range(3):
        assert type(cloud.delete_instances("g", [victim])[victim]) is CloudError
    assert proxy.count("TerminateInstanceInAutoScalingGroup") == 1
    clock.now_s += 31
    assert cloud.delete_instances("g", [victim]) == {}
    assert (target(cloud), proxy.count("TerminateInstanceInAutoScalingGroup")) == (2, 2)


def test_what_was_terminated_is_deleting_though_an_older_list_shows_it(proxy: AwsProxy) -> None:
    cloud = aws_cloud(proxy, SETTINGS)
    victim = ids(cloud)[0]
    old: list[str] = []
    proxy.edits["DescribeAutoScalingGroups"] = lambda answer: old[0] if old else (old.append(answer) or answer)
    ids(cloud)
    assert cloud.delete_instances("g", [victim]) == {}
    for _ in range(3):
        assert cloud.instance_states("g", [victim]) == {victim: InstanceState.DELETING}
        assert cloud.delete_instances("g", [victim]) == {}
    assert proxy.count("TerminateInstanceInAutoScalingGroup") == 1


def test_an_instance_of_an_earlier_process_that_ec2_has_forgotten_is_gone_and_a_stranger_unknown(
    proxy: AwsProxy,
) -> None:
    cloud = aws_cloud(proxy, SETTINGS)
    old, stranger = "aws:///eu-central-1a/i-00000000000000001", "aws:///eu-central-1a/i-00000000000000002"
    cloud.remember("g", [old])
    states = cloud.instance_states("g", [old, stranger])
    assert states == {old: InstanceState.GONE, stranger: InstanceState.UNKNOWN}


def test_a_failed_activity_shows_at_once_on_the_instances_that_do_not_come(proxy: AwsProxy) -> None:
    cloud = aws_cloud(proxy, SETTINGS)
    proxy.edits["DescribeAutoScalingGroups"] = fake_aws.without_instances(2)
    proxy.edits["DescribeScalingActivities"] = fake_aws.activities(
        "We currently do not have sufficient m5.large capacity in the Availability Zone", "older"
    )
    missing = [one for one in cloud.instances(["g"])["g"] if one.state is InstanceState.CREATING]
    assert [one.error is not None and one.error.out_of_resources for one in missing] == [True, True]
    assert [(one.id, one.failed) for one in cloud.activities("g")] == [("a-2", True), ("a-1", True)]
    assert cloud.groups_of([one.id for one in missing]) == {one.id: "g" for one in missing}


def do_not_come(proxy: AwsProxy, count: int) -> None:
    """Make AWS say that the last instances do not exist."""
    proxy.edits["DescribeAutoScalingGroups"] = fake_aws.without_instances(count)
    proxy.edits["DescribeInstances"] = fake_aws.without_reservations


def test_giving_up_an_instance_that_does_not_come_lowers_the_target_once(proxy: AwsProxy) -> None:
    cloud = aws_cloud(proxy, SETTINGS)
    do_not_come(proxy, 2)
    missing = [one.id for one in cloud.instances(["g"])["g"] if one.state is InstanceState.CREATING]
    for _ in range(3):
        assert cloud.delete_instances("g", missing[:1]) == {}
    assert target(cloud) == 2
    assert proxy.count("SetDesiredCapacity") == 1
    assert cloud.instance_states("g", missing[:1]) == {missing[0]: InstanceState.GONE}


def test_a_target_is_lowered_by_what_does_not_come(proxy: AwsProxy) -> None:
    cloud = aws_cloud(proxy, SETTINGS)
    do_not_come(proxy, 1)
    cloud.decrease_target("g", 3, 2)
    assert target(cloud) == 2


def test_no_target_is_lowered_while_the_list_lacks_instances_that_run(proxy: AwsProxy) -> None:
    """AWS would terminate instances of its choice."""
    cloud = aws_cloud(proxy, SETTINGS)
    there = set(ids(cloud))
    proxy.edits["DescribeAutoScalingGroups"] = fake_aws.without_instances(2)
    cloud.refresh()
    missing = [one.id for one in cloud.instances(["g"])["g"] if one.state is InstanceState.CREATING]
    assert len(missing) == 2
    with pytest.raises(CloudError, match="its list lacks 2 instances that run"):
        cloud.decrease_target("g", 3, 1)
    failed = cloud.delete_instances("g", missing[:1])
    assert "its list lacks 2 instances that run" in str(failed[missing[0]])
    assert not isinstance(failed[missing[0]], CloudRefusedError), "it may pass"
    proxy.edits.clear()
    cloud.refresh()
    assert (set(ids(cloud)), target(cloud), proxy.count("SetDesiredCapacity")) == (there, 3, 0)


def test_groups_are_found_by_name_or_tag_over_several_pages(proxy: AwsProxy) -> None:
    for number in range(60):
        fake_aws.scaling_group(
            f"p{number:02}",
            (0, 3, 0),
            tags={"team": "a" if number < 55 else "b"},
            LaunchTemplate={"LaunchTemplateName": "launch-g", "Version": "1"},
        )
    assert len(aws_cloud(proxy, AwsSettings(tags={"team": ""})).node_groups()) == 60
    assert len(aws_cloud(proxy, AwsSettings(tags={"team": "a"})).node_groups()) == 55
    named = AwsSettings(groups=tuple(f"p{number:02}" for number in range(60)))
    assert len(aws_cloud(proxy, named).node_groups()) == 60
    assert [one.id for one in aws_cloud(proxy, AwsSettings(groups=("p01", "never"))).node_groups()] == ["p01"]


def test_a_group_that_cannot_be_read_is_named_and_the_others_continue(
    proxy: AwsProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_aws.launch_template("bare", None)
    fake_aws.scaling_group("bare", (0, 3, 0))
    fake_aws.launch_template("odd", "x9.huge")
    fake_aws.scaling_group("odd", (0, 3, 0))
    cloud = aws_cloud(proxy, AwsSettings(groups=("bare", "g", "odd")))
    found = {group.id: cloud.template(group.id) for group in cloud.node_groups()}
    assert {group: template is not None for group, template in found.items()} == {
        "bare": False,
        "g": True,
        "odd": False,
    }
    log = capsys.readouterr().out
    assert "has no instance type" in log
    assert "does not know the instance type x9.huge" in log


def test_the_template_of_a_mixed_group_has_the_least_of_all_its_types(proxy: AwsProxy) -> None:
    policy = {
        "LaunchTemplate": {
            "LaunchTemplateSpecification": {"LaunchTemplateName": "launch-g", "Version": "1"},
            "Overrides": [{"InstanceType": "c5.xlarge"}, {"InstanceType": "r5.large"}],
        }
    }
    fake_aws.scaling_group("mixed", (0, 3, 0), MixedInstancesPolicy=policy)
    template = aws_cloud(proxy, AwsSettings(groups=("mixed",))).template("mixed")
    assert template is not None
    assert (template.capacity["cpu"], template.capacity["memory"]) == ("2", "8192Mi")


def test_nothing_is_acted_on_unless_groups_are_named(proxy: AwsProxy) -> None:
    with pytest.raises(ValueError, match="--aws-groups or --aws-tags"):
        aws_cloud(proxy, AwsSettings())


def test_many_instances_that_have_left_their_group_are_looked_for_by_as_many_as_a_filter_takes(
    proxy: AwsProxy,
) -> None:
    sizes: list[int] = []
    describe = "DescribeInstances"

    def answer(body: str) -> str:
        values = [value for name, (value,) in parse_qs(body).items() if ".Value." in name]
        sizes.append(len(values))
        items = "".join(
            f"<item><instanceId>{value}</instanceId><instanceState><name>shutting-down</name></instanceState></item>"
            for value in values
        )
        found = f"<reservationSet><item><instancesSet>{items}</instancesSet></item></reservationSet>"
        return f"<{describe}Response>{found}</{describe}Response>"

    proxy.answers[describe] = answer
    cloud = aws_cloud(proxy, SETTINGS)
    gone = [f"aws:///{REGION}a/i-{number:017x}" for number in range(450)]
    cloud.remember("g", gone)
    assert set(cloud.instance_states("g", gone).values()) == {InstanceState.DELETING}
    assert sizes == [200, 200, 50]


def test_a_refusal_has_the_same_text_each_time(proxy: AwsProxy) -> None:
    cloud, texts = aws_cloud(proxy, SETTINGS), set()
    for encoded in ("abc", "xyz"):
        told = f"You are not authorized. Encoded authorization failure message: {encoded}"
        body = XML_ERROR.format(code="UnauthorizedOperation").replace("as the test wants", told)
        proxy.fail("DescribeAutoScalingGroups", Fault("UnauthorizedOperation", 403, body.encode()))
        with pytest.raises(CloudRefusedError) as caught:
            cloud.node_groups()
        texts.add(str(caught.value))
    (text,) = texts
    assert "You are not authorized.; allow autoscaling:" in text


class Repeating:
    """A proxy before AWS that gives the same page again and again."""

    region = REGION

    def call(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        return {"Things": [parameters], "NextToken": "again"}


def test_a_list_whose_pages_repeat_ends_with_an_error() -> None:
    with pytest.raises(CloudError, match="describe_things: the list does not end"):
        Reader(Repeating()).pages("ec2", "describe_things", "Things")
