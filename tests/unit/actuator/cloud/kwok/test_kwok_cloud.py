"""The cloud kwok: sizes and nodes agree, growth counts once, failures come from the seed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actuator.cloud.kwok.cloud import KwokCloud
from actuator.cloud.kwok.groups import CAPACITY_ANNOTATION, load_groups, read_group
from actuator.cloud.kwok.settings import KwokSettings
from actuator.cloud.memory.objects import ObjectError
from actuator.cloud.provider import CloudError, CloudRefusedError, InstanceState
from tests.builders.json_api import Fault, JsonApiServer
from tests.builders.kubernetes import node, node_group

START_S = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now_s = START_S

    def __call__(self) -> float:
        return self.now_s


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
    return KwokCloud(server.api(), read, KwokSettings(node_start_s=3, instance_delete_s=2, **settings), clock=clock)


def pass_time(cloud: KwokCloud, clock: Clock, seconds: float) -> None:
    clock.now_s += seconds
    cloud.let_pass()


def sizes(cloud: KwokCloud) -> list[tuple[str, int, int]]:
    return [(one.id, one.target_size, one.instance_count) for one in cloud.node_groups()]


def opened(server: JsonApiServer, clock: Clock, *groups: Any, **settings: Any) -> KwokCloud:
    """A cloud whose first nodes are there."""
    made = cloud(server, clock, *groups, **settings)
    made.open()
    pass_time(made, clock, 3)
    return made


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


def test_growth_counts_once_for_each_token_and_not_beyond_the_maximum(server: JsonApiServer, clock: Clock) -> None:
    made = opened(server, clock)
    for _ in range(2):
        made.grow("g", 2, "token")
    assert sizes(made) == [("g", 5, 3)]
    with pytest.raises(CloudRefusedError, match=r"5 \+ 2 exceeds the maximum 6"):
        made.grow("g", 2, "other")
    with pytest.raises(CloudRefusedError, match="nowhere does not exist"):
        made.grow("nowhere", 1, "third")
    pass_time(cloud(server, clock), clock, 3)
    assert sizes(made) == [("g", 5, 5)]


def test_a_deletion_lowers_the_target_at_once_and_the_node_goes_later(server: JsonApiServer, clock: Clock) -> None:
    made = opened(server, clock)
    for _ in range(2):
        assert made.delete_instances("g", ["g-1", "never"]) == {}
        assert sizes(made) == [("g", 2, 3)]
    states = made.instance_states("g", ["g-1", "g-2", "never"])
    assert states == {"g-1": InstanceState.DELETING, "g-2": InstanceState.RUNNING, "never": InstanceState.GONE}
    pass_time(cloud(server, clock), clock, 2)
    assert sizes(made) == [("g", 2, 2)]
    assert made.instance_states("g", ["g-1"]) == {"g-1": InstanceState.GONE}


def test_a_group_keeps_its_minimum_and_only_its_own_nodes(server: JsonApiServer, clock: Clock) -> None:
    made = opened(server, clock, group("g"), group("h"))
    assert made.groups_of(["g-1", "h-2", "never"]) == {"g-1": "g", "h-2": "h"}
    failed = made.delete_instances("g", ["g-1", "h-1", "g-2", "g-3"])
    assert {name: str(error) for name, error in failed.items()} == {
        "h-1": "h-1 belongs to node group h, not g",
        "g-3": "node group g is at its minimum 1",
    }
    assert sizes(made) == [("g", 1, 3), ("h", 3, 3)]


def test_a_shortage_keeps_the_target_and_ends_when_there_is_room(server: JsonApiServer, clock: Clock) -> None:
    made = opened(server, clock, group(**{CAPACITY_ANNOTATION: "4"}))
    made.grow("g", 3, "token")
    pass_time(made, clock, 3)
    assert sizes(made) == [("g", 6, 4)]
    made.delete_instances("g", ["g-1"])
    pass_time(made, clock, 2)
    made.let_pass()
    assert sizes(made) == [("g", 5, 4)]


def test_instances_that_never_come_depend_on_the_seed_alone(server: JsonApiServer, clock: Clock) -> None:
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
            made.instance_states("g", ["g-1"])
        except CloudError:
            failed += 1
    assert 10 <= failed <= 30


@pytest.mark.parametrize("fault", [Fault(409), Fault(500), Fault(0), Fault(0, after=True)], ids=str)
def test_books_are_changed_once_in_spite_of(server: JsonApiServer, clock: Clock, fault: Fault) -> None:
    made = opened(server, clock)
    server.fail("PUT", fault)
    try:
        made.grow("g", 2, "token")
    except CloudError:
        made.grow("g", 2, "token")
    assert sizes(made) == [("g", 5, 3)]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"maxSize": None}, "spec.maxSize must be a whole number", id="no number"),
        pytest.param({"minSize": 5, "targetSize": 2}, "not 5/2/6", id="order"),
        pytest.param({"nodeSelector": {"matchExpressions": []}}, "must be labels", id="expressions"),
    ],
)
def test_a_group_that_cannot_be_is_named(spec: dict[str, Any], message: str) -> None:
    item = group()
    item["spec"] |= spec
    with pytest.raises(ObjectError, match=message):
        read_group(item)


def test_a_file_without_groups_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    with pytest.raises(ObjectError, match="has no NodeGroup"):
        load_groups(tmp_path / "x.json")
