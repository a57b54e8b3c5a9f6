"""The cloud's data on node groups override files; the settings file overrides the cloud's tags."""

from google.protobuf.duration_pb2 import Duration

from tests.builders import kubernetes as k8s
from trimtab.common.kubernetes.kinds.nodes import Node, NodeGroup
from trimtab.common.objects.decode import decode_objects
from trimtab.common.objects.dictionary import Dictionary
from trimtab.common.objects.node_groups import group_row
from trimtab.common.watched.cloud_groups import cloud_groups, group_of_instance, with_cloud_settings
from trimtab.common.watched.snapshot_maker import SnapshotMaker
from trimtab.common.watched.watched_objects import WatchedObjects
from trimtab.v1 import actuator_pb2, plan_pb2


def declared(*groups: k8s.Json) -> list[NodeGroup]:
    found: list[NodeGroup] = decode_objects(list(groups)).of("NodeGroup")
    return found


def status_of(**fields: object) -> actuator_pb2.ActuatorStatus:
    status = actuator_pb2.ActuatorStatus()
    status.node_groups.add(id="a", max_size=9, **fields)  # type: ignore[arg-type]
    return status


def test_template_and_price_are_the_cloud_s_where_it_knows_them() -> None:
    template = k8s.node("old", cpu="4", memory="16Gi")
    files = declared(k8s.node_group("a", 0, 5, selector={"pool": "a"}, price=1.5, template=template))
    amounts = {"cpu": "8", "memory": "64Gi"}
    of_cloud = actuator_pb2.CloudTemplate(
        labels={"pool": "a"},
        taints=[actuator_pb2.CloudTaint(key="team", value="web", effect="NoSchedule")],
        capacity=amounts,
        allocatable=amounts,
    )
    (known,) = cloud_groups(files, status_of(template=of_cloud, price_per_hour=0.7, zero_or_max=True))
    dictionary = Dictionary(["cpu", "memory"])
    row = group_row(known, 0, dictionary)
    assert (row.price_per_hour, row.zero_or_max) == (0.7, True)
    assert list(row.template.allocatable) == [8000, 64 << 30]
    assert len(row.template.taints) == 1
    (unknown,) = cloud_groups(files, status_of())
    row = group_row(unknown, 0, Dictionary(["cpu", "memory"]))
    assert (row.price_per_hour, row.zero_or_max, list(row.template.allocatable)[:2]) == (1.5, False, [4000, 16 << 30])


def store_of(*nodes: k8s.Json) -> WatchedObjects:
    store = WatchedObjects()
    for item in nodes:
        name = item["metadata"]["name"]
        item["spec"]["providerID"] = f"cloud:///{name}"
        (node,) = decode_objects([item]).of("Node")
        assert isinstance(node, Node)
        store.put_struct("Node", node)
    return store


def test_nodes_belong_to_the_group_that_has_their_instance_and_follow_it_in_a_delta() -> None:
    maker = SnapshotMaker(store_of(k8s.node("n1"), k8s.node("n2"), k8s.node("n3", labels={"pool": "a"})))
    status = status_of(instances=["cloud:///n1"])
    status.node_groups.add(id="b", max_size=9, instances=["cloud:///n3"])
    files = declared(k8s.node_group("a", 0, 5, selector={"pool": "a"}))

    def update() -> object:
        return maker.next_update(cloud_groups(files, status), None, group_of_instance(status))

    whole = update().snapshot  # type: ignore[attr-defined]
    assert {one.name: one.node_group for one in whole.nodes} == {"n1": "a", "n2": "", "n3": "b"}
    assert update().is_empty  # type: ignore[attr-defined]
    status.node_groups[0].instances.append("cloud:///n2")
    del status.node_groups[1].instances[:]
    delta = update().delta  # type: ignore[attr-defined]
    assert {one.name: one.node_group for one in delta.changed.nodes} == {"n2": "a", "n3": "a"}


def test_settings_of_a_group_are_the_file_s_then_the_cloud_s() -> None:
    settings = plan_pb2.PlanSettings()
    settings.scale_down.utilization_threshold = 0.4
    settings.node_groups["a"].unneeded_time.FromSeconds(60)
    of_cloud = plan_pb2.NodeGroupSettings(utilization_threshold=0.7, unneeded_time=Duration(seconds=90))
    merged = with_cloud_settings(settings, status_of(settings=of_cloud))
    assert merged.node_groups["a"].unneeded_time.ToSeconds() == 60
    assert merged.node_groups["a"].utilization_threshold == 0.7
    assert merged.scale_down.utilization_threshold == 0.4
    assert settings.node_groups["a"].utilization_threshold == 0
    assert with_cloud_settings(settings, status_of()) is settings
