"""Node groups that only the cloud knows: no file declares them, but they grow, even from size 0."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.builders import aws as fake_aws
from tests.builders.cloud_rounds import Rounds
from tests.builders.clouds import aws_cloud
from tests.builders.kubernetes import Json, node, node_group, pod
from trimtab.actuator.cloud.aws.catalogue import TAGS
from trimtab.actuator.cloud.options import ANNOTATION_PREFIX
from trimtab.actuator.cloud.table import AwsSettings


def waiting() -> list[Json]:
    """Return pods that fit only nodes of the group: by label, taint and size."""
    return [
        pod(
            f"web-{number}",
            cpu="3",
            memory="2Gi",
            node_selector={"pool": "a"},
            tolerations=[{"key": "team", "operator": "Exists"}],
            status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        )
        for number in range(2)
    ]


@contextmanager
def memory() -> Iterator[Rounds]:
    template = node("x", cpu="4", memory="16Gi", labels={"pool": "a"}, taints=["team=web:NoSchedule"])
    group = node_group("g", 0, 5, target=0, nodes=[], template=template, price=0.2)
    group["metadata"]["annotations"] = {ANNOTATION_PREFIX + "scaledownunneededtime": "90s"}
    yield Rounds([*waiting(), group])


@contextmanager
def aws() -> Iterator[Rounds]:
    with fake_aws.aws() as proxy:
        tags = {
            "owner": "trimtab",
            TAGS + "label/pool": "a",
            TAGS + "taint/team": "web:NoSchedule",
            TAGS + "autoscaling-options/scaledownunneededtime": "90s",
        }
        fake_aws.launch_template("g", "m5.xlarge")
        fake_aws.scaling_group("g", (0, 5, 0), tags=tags)
        yield Rounds(waiting(), aws_cloud(proxy, AwsSettings(tags={"owner": "trimtab"})))


@pytest.mark.parametrize("world", [memory, aws], ids=["memory", "aws"])
def test_a_group_without_nodes_grows_by_the_template_of_its_cloud(
    world: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with world() as rounds:  # type: ignore[operator]
        done = rounds.round()
        assert [(one.node_group, one.new_size) for one in done.answer.scale_up.splits] == [("g", 2)]
        assert done.grown == ["g"]
        assert rounds.target("g") == 2
        # The nodes are starting: nothing more is added for the same pods.
        assert not rounds.round().answer.scale_up.splits
        assert done.request.settings.node_groups["g"].unneeded_time.ToSeconds() == 90


def test_nodes_that_join_belong_to_their_group_use_its_options_and_are_not_requested_again() -> None:
    with memory() as rounds:
        rounds.round()
        for _ in range(4):
            last = rounds.round()
        assert not last.answer.scale_up.splits
        with rounds.cluster.transaction() as state:
            assert len(state.nodes) == 2
            assert not state.pending
            for one in list(state.pods.values()):
                rounds.cluster.controllers.terminate(one, 1)
        gone: list[str] = []
        for _ in range(16):
            gone += rounds.round().accepted
        assert len(gone) == 2, "unneeded for the 90 s of the group's annotation, not for the default of ten minutes"
        assert rounds.target("g") == 0
