"""The real properties of new nodes, which scale-up considers: DaemonSets, several instance types, priorities.

Planner and actuator on virtual time. Source: the Zalando fork of CA, ZALANDO_CHANGES ("Improved handling of template
nodes", "Support for AWS autoscaling groups with multiple instance types") and its expander by labels, in our own words.
"""

import pytest

from tests.builders import aws as fake_aws
from tests.builders.cloud_rounds import Rounds
from tests.builders.clouds import aws_cloud
from tests.builders.kubernetes import Json, daemon_set, node, node_group, pod
from trimtab.actuator.cloud.table import AwsSettings

LABEL = "zalando.org/scaling-priority"


def group(name: str, most: int = 10, **template: object) -> Json:
    """Return an empty group of nodes with 4 cores."""
    model = node("x", cpu="4", memory="32Gi", **template)  # type: ignore[arg-type]
    return node_group(name, 0, most, target=0, nodes=[], template=model)


def waiting(name: str, cpu: str, memory: str = "1Gi") -> Json:
    """Return an unschedulable pod."""
    status = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    return pod(name, cpu=cpu, memory=memory, status=status)


def with_agent() -> Rounds:
    """Return an empty group, and a node full of a DaemonSet's pod that has limits and no requests."""
    agent = daemon_set("agent")
    running = pod("agent-1", None, None, limits={"cpu": "1"}, node="old", owner=agent, namespace="kube-system")
    return Rounds([group("a"), node("old", cpu="1", memory="2Gi"), agent, running])


def test_a_daemon_set_that_has_only_limits_takes_room_on_nodes_before_they_are_there() -> None:
    rounds = with_agent()
    rounds.add(waiting("p1", cpu="2"), waiting("p2", cpu="2"))
    assert rounds.run_for(10) == [("a", 2)]
    assert rounds.run_for(300) == []
    assert (rounds.pending, len(rounds.nodes("a"))) == ([], 2)


def test_no_node_is_added_in_vain_for_a_pod_that_daemon_sets_leave_no_room_for() -> None:
    rounds = with_agent()
    rounds.add(waiting("too-large", cpu="3500m"))
    assert rounds.run_for(600) == []
    rounds.add(waiting("fits", cpu="3"))
    assert rounds.run_for(60) == [("a", 1)]
    assert rounds.pending == ["too-large"]


def test_a_group_of_several_instance_types_grows_by_the_least_that_each_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    types = [{"InstanceType": "c5.xlarge"}, {"InstanceType": "r5.large"}]  # 4 cores with 8 GiB, 2 with 16
    launch = {"LaunchTemplateSpecification": {"LaunchTemplateName": "launch-g", "Version": "1"}, "Overrides": types}
    with fake_aws.aws() as proxy:
        fake_aws.launch_template("g", "c5.xlarge")
        fake_aws.scaling_group("g", (0, 5, 0), MixedInstancesPolicy={"LaunchTemplate": launch})
        pods = [waiting("many-cores", cpu="3"), waiting("much-memory", cpu="1", memory="12Gi")]
        rounds = Rounds(pods, aws_cloud(proxy, AwsSettings(groups=("g",))))
        assert rounds.run_for(60) == []
        rounds.add(*(waiting(f"p{number}", cpu="1500m", memory="4Gi") for number in range(2)))
        assert rounds.run_for(10) == [("g", 2)]
        assert rounds.target("g") == 2


def test_priorities_are_those_of_the_labels_that_the_cloud_has_now() -> None:
    rounds = Rounds(
        [group("a", labels={LABEL: "1"}), group("b", most=1, labels={LABEL: "100"}), group("c")],
        scaleUp={"expanders": ["HIGHEST_PRIORITY"]},
    )
    rounds.add(waiting("p1", cpu="3"))
    assert rounds.run_for(60) == [("b", 1)]
    rounds.add(waiting("p2", cpu="3"))
    assert rounds.run_for(60) == [("a", 1)], "the preferred group is at its maximum"
    rounds.edit_group("b", maxSize=5)
    rounds.add(waiting("p3", cpu="3"))
    assert rounds.run_for(60) == [("b", 1)]
    rounds.edit_group("b", template=node("x", cpu="4", memory="32Gi", labels={LABEL: "-1"}))
    rounds.add(waiting("p4", cpu="3"))
    assert rounds.run_for(60) == [("a", 1)]
