"""Instances that have not started, in the clouds where that takes time."""

import pytest

from tests.builders import clouds
from tests.builders.clouds import WORLDS
from trimtab.actuator.cloud.kwok.groups import CAPACITY_ANNOTATION
from trimtab.actuator.cloud.provider import InstanceState


@pytest.mark.parametrize("name", ["memory", "kwok"])
def test_a_lower_target_drops_the_latest_requests_and_no_running_instance(name: str) -> None:
    with WORLDS[name]() as world:
        running = {one.id for one in world.cloud.instances(["g"])["g"]}
        world.cloud.set_size("g", 3, 6, "token")
        for _ in range(2):
            world.cloud.decrease_target("g", 6, 4)
            assert world.cloud.node_groups()[0].target_size == 4
        world.settle()
        left = world.cloud.instances(["g"])["g"]
        assert {one.state for one in left} == {InstanceState.RUNNING}
        assert (len(left), running < {one.id for one in left}) == (4, True)


def test_kwok_says_which_instances_do_not_start_and_why() -> None:
    with clouds.kwok(start_failure_rate=1.0) as world:
        failed = [one.error for one in world.cloud.instances(["g"])["g"]]
        assert [error is not None and error.code for error in failed] == ["StartFailed"] * 3
        activities = world.cloud.activities("g")
        assert [one.failed for one in activities] == [True] * 3
        assert len({one.id for one in activities}) == 3


def test_kwok_says_that_it_has_no_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = clouds.cloud_groups(nodes=False)
    large["metadata"]["annotations"][CAPACITY_ANNOTATION] = "3"
    monkeypatch.setattr(clouds, "cloud_groups", lambda nodes: [large, small])
    with clouds.kwok() as world:
        world.cloud.set_size("g", 3, 4, "token")
        world.settle()
        (waiting,) = [one for one in world.cloud.instances(["g"])["g"] if one.state is InstanceState.CREATING]
        assert waiting.error is not None
        assert waiting.error.out_of_resources
