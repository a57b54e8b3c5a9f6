"""The cloud kwok: sizes and nodes agree, a scale-up counts once, failures depend on the seed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.clouds import Clock
from tests.builders.json_api import Fault, JsonApiServer
from tests.builders.kubernetes import node, node_group
from trimtab.actuator.cloud.kwok.cloud import KwokCloud
from trimtab.actuator.cloud.kwok.groups import CAPACITY_ANNOTATION, load_groups, read_group
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError, InstanceState
from trimtab.actuator.cloud.table import KwokSettings
from trimtab.common.kubernetes.object_files import ObjectFileError

START_S = 1_800_000_000.0


@pytest.fixture
def server() -> Iterator[JsonApiServer]:
    with JsonApiServer() as started:
        yield started


@pytest.fixture
def clock() -> Clock:
    return Clock()


def group(name: str = "g", target: int = 3, **annotations: str) -> Any:
    item = node_group(name, 1, 6, target=target, template=node("t", cpu="8", taints=["a=b:NoSchedule"]))
    item["metadata"]["annotations"] = annotations
    return item


def cloud(server: JsonApiServer, clock: Clock, *groups: Any, **settings: Any) -> KwokCloud:
    read = {one.name: one for one in map(read_group, groups or (group(),))}
    return KwokCloud(server.api(), read, KwokSettings(node_start_s=3, instance_delete_s=2, **settings), clock, clock)


def pass_time(cloud: KwokCloud, clock: Clock, seconds: float) -> None:
    clock.now_s += seconds
    cloud.resync()


def sizes(cloud: KwokCloud) -> list[tuple[str, int, int]]:
    return [(one.id, one.target_size, one.instance_count) for one in cloud.node_groups()]


def opened(server: JsonApiServer, clock: Clock, *groups: Any, **settings: Any) -> KwokCloud:
    """Return a cloud whose initial nodes exist."""
    made = cloud(server, clock, *groups, **settings)
    made.open()
    pass_time(made, clock, 3)
    return made


def instance(node_name: str, group_name: str = "g") -> str:
    """Return the provider id of an instance of the cloud."""
    return f"kwok://{group_name}/{node_name}"


def nodes(server: JsonApiServer) -> list[str]:
    return sorted(path.rpartition("/")[2] for path in server.objects if "/nodes/" in path)


def test_a_group_starts_with_its_target_size_and_once_only(server: JsonApiServer, clock: Clock) -> None:
    made = cloud(server, clock)
    made.open()
    assert sizes(made) == [("g", 3, 0)]
    pass_time(made, clock, 2.9)
    assert sizes(made) == [("g", 3, 0)]
    pass_time(made, clock, 0.1)
    assert sizes(made) == [("g", 3, 3)]
    cloud(server, clock).open()
    pass_time(made, clock, 10)
    assert nodes(server) == ["g-1", "g-2", "g-3"]


def test_a_new_node_is_as_the_template_says_and_kwoks(server: JsonApiServer, clock: Clock) -> None:
    opened(server, clock)
    made = server.objects["/api/v1/nodes/g-1"]
    labels = made["metadata"]["labels"]
    assert (labels["kwok"], labels["trimtab.dev/node-group"], labels["kubernetes.io/hostname"]) == ("on", "g", "g-1")
    assert made["spec"]["providerID"] == "kwok://g/g-1"
    assert [taint["key"] for taint in made["spec"]["taints"]] == ["a"]
    assert made["status"]["allocatable"]["cpu"] == "8"


def test_an_unknown_instance_is_not_deleted(server: JsonApiServer, clock: Clock) -> None:
    made = opened(server, clock)
    for never in (instance("g-9"), "aws:///eu-1a/i-0", "g-1", ""):
        assert made.instance_states("g", [never]) == {never: InstanceState.UNKNOWN}
        assert isinstance(made.delete_instances("g", [never])[never], CloudRefusedError)
    assert sizes(made) == [("g", 3, 3)]


def test_the_name_of_a_node_older_than_the_cloud_is_not_reused(server: JsonApiServer, clock: Clock) -> None:
    for number in (1, 2, 3):
        found = node(f"g-{number}", labels={"kwok": "on", "trimtab.dev/node-group": "g"})
        found["spec"]["providerID"] = instance(f"g-{number}")
        server.put("/api/v1/nodes", found)
    made = opened(server, clock)
    assert made.delete_instances("g", [instance("g-2")]) == {}
    pass_time(made, clock, 2)
    made.set_size("g", 2, 3, "token")
    pass_time(made, clock, 3)
    assert nodes(server) == ["g-1", "g-3", "g-4"]
    assert made.delete_instances("g", [instance("g-4")]) == {}
    assert sizes(made) == [("g", 2, 3)]


def test_a_new_machine_under_an_old_name_is_another_instance(server: JsonApiServer, clock: Clock) -> None:
    made = opened(server, clock)
    made.delete_instances("g", [instance("g-1")])
    pass_time(made, clock, 2)
    again = node("g-1", labels={"kwok": "on", "trimtab.dev/node-group": "g"})
    again["spec"]["providerID"] = "kwok://g/g-1#2"
    server.put("/api/v1/nodes", again)
    states = made.instance_states("g", [instance("g-1"), "kwok://g/g-1#2"])
    assert list(states.values()) == [InstanceState.GONE, InstanceState.RUNNING]


def test_a_machine_that_comes_back_under_its_provider_id_runs_and_can_be_deleted_again(
    server: JsonApiServer, clock: Clock
) -> None:
    made = opened(server, clock)
    machine = server.objects["/api/v1/nodes/g-2"]
    for _ in range(2):
        assert made.delete_instances("g", [instance("g-2")]) == {}
        assert made.instance_states("g", [instance("g-2")]) == {instance("g-2"): InstanceState.DELETING}
        pass_time(made, clock, 2)
        assert made.instance_states("g", [instance("g-2")]) == {instance("g-2"): InstanceState.GONE}
        server.put("/api/v1/nodes", machine)
        assert made.instance_states("g", [instance("g-2")]) == {instance("g-2"): InstanceState.RUNNING}
        assert sizes(made) == [("g", 3, 3)]


def test_nodes_without_provider_id_get_one_when_the_cloud_is_opened(server: JsonApiServer, clock: Clock) -> None:
    item = node("bare", labels={"kwok": "on", "trimtab.dev/node-group": "g"}, provider_id="")
    server.put("/api/v1/nodes", item)
    made = opened(server, clock)
    assert made.groups_of([instance("bare"), ""]) == {instance("bare"): "g"}


def test_a_superseded_process_gives_the_cloud_no_orders(server: JsonApiServer, clock: Clock) -> None:
    old = opened(server, clock)
    new = opened(server, clock)
    with pytest.raises(CloudError, match="taken over the cloud"):
        old.set_size("g", 3, 4, "token")
    with pytest.raises(CloudError, match="taken over the cloud"):
        old.delete_instances("g", [instance("g-1")])
    new.set_size("g", 3, 4, "token")
    assert sizes(new) == [("g", 4, 3)]


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_wall_clock_that_jumps_makes_no_node_early_or_late(
    server: JsonApiServer, clock: Clock, jump_s: float
) -> None:
    made, wall = opened(server, clock), Clock()
    wall.now_s = clock.now_s
    jumping = KwokCloud(server.api(), made._groups, KwokSettings(node_start_s=3), wall, clock)
    jumping.set_size("g", 3, 4, "token")
    wall.now_s += jump_s
    pass_time(jumping, clock, 2.9)
    assert sizes(jumping) == [("g", 4, 3)]
    pass_time(jumping, clock, 0.1)
    assert sizes(jumping) == [("g", 4, 4)]


def test_work_begun_with_a_clock_ahead_takes_no_longer_after_a_restart(server: JsonApiServer, clock: Clock) -> None:
    made = opened(server, clock)
    made.set_size("g", 3, 4, "token")
    made.delete_instances("g", [instance("g-1")])
    clock.now_s -= 3600
    later = cloud(server, clock)
    later.open()
    pass_time(later, clock, 3)
    assert sizes(later) == [("g", 3, 3)]


def test_a_group_keeps_its_minimum_and_only_its_own_nodes(server: JsonApiServer, clock: Clock) -> None:
    made = opened(server, clock, group("g"), group("h"))
    first, second = instance("g-1"), instance("h-2", "h")
    assert made.groups_of([first, second, "never"]) == {first: "g", second: "h"}
    failed = made.delete_instances("g", [first, instance("h-1", "h"), instance("g-2"), instance("g-3")])
    assert {name: str(error) for name, error in failed.items()} == {
        instance("h-1", "h"): "h-1 belongs to node group h, not g",
        instance("g-3"): "node group g is at its minimum 1",
    }
    assert sizes(made) == [("g", 1, 3), ("h", 3, 3)]


def test_a_shortage_keeps_the_target_and_ends_when_there_is_room(server: JsonApiServer, clock: Clock) -> None:
    made = opened(server, clock, group(**{CAPACITY_ANNOTATION: "4"}))
    made.set_size("g", 3, 6, "token")
    pass_time(made, clock, 3)
    assert sizes(made) == [("g", 6, 4)]
    made.delete_instances("g", [instance("g-1")])
    pass_time(made, clock, 2)
    made.resync()
    assert sizes(made) == [("g", 5, 4)]


def test_instances_that_never_start_depend_only_on_the_seed(server: JsonApiServer, clock: Clock) -> None:
    came = {}
    for seed in (1, 1, 2, 3):
        server.objects.clear()
        opened(server, clock, group(target=6), start_failure_rate=0.5, seed=seed)
        assert came.setdefault(seed, nodes(server)) == nodes(server)
    assert len({tuple(names) for names in came.values()}) > 1


def test_calls_fail_as_often_as_the_settings_say(server: JsonApiServer, clock: Clock) -> None:
    made = opened(server, clock, call_failure_rate=0.5)
    failed = 0
    for _ in range(40):
        try:
            made.instance_states("g", [instance("g-1")])
        except CloudError:
            failed += 1
    assert 10 <= failed <= 30


@pytest.mark.parametrize("fault", [Fault(409), Fault(500), Fault(0), Fault(0, after=True)], ids=str)
def test_the_ledger_is_changed_once_in_spite_of(server: JsonApiServer, clock: Clock, fault: Fault) -> None:
    made = opened(server, clock)
    server.fail("PUT", fault)
    try:
        made.set_size("g", 3, 5, "token")
    except CloudError:
        made.set_size("g", 3, 5, "token")
    assert sizes(made) == [("g", 5, 3)]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"maxSize": None}, "spec.maxSize must be a whole number", id="no number"),
        pytest.param({"minSize": 5, "targetSize": 2}, "not 5/2/6", id="order"),
        pytest.param({"nodeSelector": {"matchExpressions": []}}, "must be labels", id="expressions"),
    ],
)
def test_an_invalid_group_is_named(spec: dict[str, Any], message: str) -> None:
    item = group()
    item["spec"] |= spec
    with pytest.raises(ObjectFileError, match=message):
        read_group(item)


def test_a_file_without_groups_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    with pytest.raises(ObjectFileError, match="has no NodeGroup"):
        load_groups(tmp_path / "x.json")
