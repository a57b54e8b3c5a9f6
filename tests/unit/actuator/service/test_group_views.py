"""Node groups in the status: when the cloud is called, and that the actuator's own changes are always visible."""

from collections.abc import Sequence

import pytest

from tests.builders.actuator import Stage, small_cluster
from trimtab.actuator.cloud.provider import CloudError, GroupOptions, NodeGroupView
from trimtab.actuator.service.group_views import GroupViews
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.tracker import Tracker


class Cloud:
    """A cloud that returns its number of calls as the group's size."""

    def __init__(self) -> None:
        self.count = 0
        self.away = False
        self.now_s = 0.0

    def node_groups(self) -> Sequence[NodeGroupView]:
        self.count += 1
        if self.away:
            raise CloudError("away")
        return [NodeGroupView("g", 0, 10, self.count, self.count)]

    def template(self, group: str) -> None:
        del group

    def price_per_hour(self, group: str) -> None:
        del group

    def options(self, group: str) -> GroupOptions:
        del group
        return GroupOptions()


def sizes(cloud: Cloud, views: GroupViews, *times_s: float) -> list[int]:
    found = []
    for cloud.now_s in times_s:
        found.append(views.get().views[0].target_size)
        # Reading in advance has ended.
        with views._asking:
            pass
    return found


def test_the_cloud_is_asked_when_its_answer_is_too_old_and_ahead_of_that() -> None:
    cloud = Cloud()
    views = GroupViews(cloud, 2.0, lambda: cloud.now_s)
    assert sizes(cloud, views, 0, 0.9, 1.0) == [1, 1, 1]
    # Over half of the time is over: this call gets the kept answer, later ones get the new one.
    assert sizes(cloud, views, 1.5, 1.6, 2.1) == [1, 2, 2]
    assert sizes(cloud, views, 60) == [3]


def test_without_an_age_the_cloud_is_asked_each_time() -> None:
    cloud = Cloud()
    assert sizes(cloud, GroupViews(cloud, 0.0, lambda: cloud.now_s), 0, 0, 0) == [1, 2, 3]  # type: ignore[arg-type]


@pytest.mark.parametrize("event", [e.DeleteAccepted("n1"), e.InstanceGone("n1"), e.GrowthAnswered("r", ())])
def test_what_was_done_here_is_seen_at_once(event: e.Event) -> None:
    cloud = Cloud()
    views = GroupViews(cloud, 2.0, lambda: cloud.now_s)
    assert sizes(cloud, views, 0, 0) == [1, 1]
    views.on_event(event, Tracker(), 0)
    assert sizes(cloud, views, 0, 0) == [2, 2]
    views.on_event(e.Drained("n1"), Tracker(), 0)
    assert sizes(cloud, views, 0) == [2]


def test_an_unavailable_cloud_is_reported_only_when_its_answer_is_too_old() -> None:
    cloud = Cloud()
    views = GroupViews(cloud, 2.0, lambda: cloud.now_s)
    assert sizes(cloud, views, 0) == [1]
    cloud.away = True
    assert sizes(cloud, views, 1.5, 1.9) == [1, 1]
    with pytest.raises(CloudError):
        sizes(cloud, views, 2.0)


def test_an_actuator_tells_its_views_of_what_it_does() -> None:
    stage = Stage(small_cluster())
    stage.actuator._groups._max_age_s = 1e9
    assert stage.status().node_groups[0].target_size == 8
    stage.start(stage.request("r", "n6", drain=False))
    stage.run()
    assert stage.status().node_groups[0].target_size == 7
    assert stage.status().node_groups[0].instance_count == 7
