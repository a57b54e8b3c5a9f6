"""The cloud's configuration of groups reaches the status, even if one of them is broken."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from tests.builders.actuator import Stage, small_cluster
from tests.builders.kubernetes import node, node_group
from trimtab.actuator.cloud.options import ANNOTATION_PREFIX
from trimtab.actuator.cloud.provider import CloudError, CloudNodeTemplate
from trimtab.actuator.service.group_views import GroupDetails
from trimtab.clients.simulation.cloud.provider import MemoryCloud


class Cloud(MemoryCloud):
    """The simulated cluster's cloud; templates of some groups are unreadable or invalid."""

    away: frozenset[str] = frozenset()
    odd: Mapping[str, str] = MappingProxyType({})
    count = 0

    def template(self, group: str) -> CloudNodeTemplate | None:
        self.count += 1
        if group in self.away:
            raise CloudError("throttled")
        found = super().template(group)
        assert found is not None
        return found._replace(capacity={"cpu": self.odd[group]}) if group in self.odd else found


def staged() -> tuple[Stage, Cloud]:
    template = node("x", cpu="4", memory="16Gi", labels={"pool": "a"}, taints=["team=web:NoSchedule"])
    tagged = node_group("tagged", 0, 3, target=0, nodes=[], template=template, price=0.25)
    tagged["metadata"]["annotations"] = {
        ANNOTATION_PREFIX + "scaledownunneededtime": "90s",
        ANNOTATION_PREFIX + "scaledownutilizationthreshold": "0.7",
        ANNOTATION_PREFIX + "zeroormaxnodescaling": "true",
        ANNOTATION_PREFIX + "jobpodsunmovable": "true",
    }
    stage = Stage([*small_cluster(), tagged])
    return stage, Cloud(stage.cluster)


def test_the_status_has_template_price_and_options_of_each_group_and_its_instances_when_asked() -> None:
    stage, _ = staged()
    with stage.looking():
        plain, tagged = stage.actuator.status(True, with_instances=True).message().node_groups
    assert len(plain.instances) == plain.instance_count == 8
    assert not plain.HasField("price_per_hour")
    assert not plain.settings.ListFields()
    assert (tagged.template.labels["pool"], tagged.template.capacity["memory"]) == ("a", "16Gi")
    assert [(one.key, one.value, one.effect) for one in tagged.template.taints] == [("team", "web", "NoSchedule")]
    assert (tagged.price_per_hour, tagged.zero_or_max) == (0.25, True)
    assert tagged.settings.unneeded_time.ToSeconds() == 90
    assert not tagged.settings.HasField("unready_time")
    assert (tagged.settings.utilization_threshold, tagged.settings.job_pods_unmovable) == (0.7, True)
    assert not any(one.instances for one in stage.status().node_groups)


def test_a_group_that_cannot_be_read_keeps_what_was_read_and_the_others_continue() -> None:
    _, cloud = staged()
    details = GroupDetails(cloud, 0.0)
    before = dict(details.get(["g", "tagged"]))
    cloud.away = frozenset({"tagged"})
    assert dict(details.get(["g", "tagged"])) == before
    fresh = GroupDetails(cloud, 0.0).get(["g", "tagged"])
    assert fresh["g"] == before["g"]
    assert not fresh["tagged"].ListFields()


@pytest.mark.parametrize("text", ["four", "-4", "1e30"])
def test_an_amount_that_no_snapshot_takes_removes_only_the_template_of_its_own_group(text: str) -> None:
    _, cloud = staged()
    cloud.odd = {"tagged": text}
    found = GroupDetails(cloud, 0.0).get(["g", "tagged"])
    assert found["g"].HasField("template")
    assert not found["tagged"].HasField("template")


def test_templates_are_kept_for_their_age() -> None:
    _, cloud = staged()
    now_s = [0.0]
    details = GroupDetails(cloud, 60.0, lambda: now_s[0])
    for now_s[0] in (0.0, 59.0):
        details.get(["g", "tagged"])
    assert cloud.count == 2
    now_s[0] = 60.0
    details.get(["g"])
    details.get(["g", "tagged"])
    assert cloud.count == 4, "a group that was gone is read anew"
