"""Lists of an external provider that are outdated: nothing follows from one, nor from several within one moment."""

from typing import Any

import pytest

from tests.builders.clouds import Clock
from trimtab.actuator.cloud.externalgrpc.cloud import MISSING_S, SECONDS_UNTIL_GONE_IF_DISPUTED, ExternalCloud
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError, InstanceState
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb

DELETING, GONE, RUNNING, UNKNOWN = (
    InstanceState.DELETING,
    InstanceState.GONE,
    InstanceState.RUNNING,
    InstanceState.UNKNOWN,
)


class Provider:
    """A provider with one group, whose lists, target and claims are set by a test."""

    def __init__(self, *listed: str) -> None:
        self.listed = list(listed)
        self.target = len(listed)
        self.claims = False
        # Deletions as requested, and whether they have any effect.
        self.deleted: list[str] = []
        self.obeys = True

    def one(self, method: str, request: Any) -> Any:
        match method:
            case "NodeGroups":
                return pb.NodeGroupsResponse(node_groups=[pb.NodeGroup(id="g", min_size=0, max_size=9)])
            case "NodeGroupTargetSize":
                return pb.NodeGroupTargetSizeResponse(target_size=self.target)
            case "NodeGroupForNode":
                return pb.NodeGroupForNodeResponse(node_group=pb.NodeGroup(id="g" if self.claims else ""))
            case "NodeGroupDeleteNodes":
                self.deleted += [one.provider_id for one in request.nodes]
                self.target -= len(request.nodes) if self.obeys else 0
                return pb.NodeGroupDeleteNodesResponse()
            case _:
                raise AssertionError(method)

    def many(self, method: str, requests: Any) -> list[Any]:
        assert method == "NodeGroupNodes"
        # Many providers list instances without state.
        answer = pb.NodeGroupNodesResponse(instances=[pb.Instance(id=one) for one in self.listed])
        return [answer for _ in requests]


def setup(*listed: str) -> tuple[Provider, Clock, ExternalCloud]:
    provider, clock = Provider(*listed), Clock()
    cloud = ExternalCloud(provider, clock=clock, steady=clock)  # type: ignore[arg-type]
    cloud.instances(["g"])
    return provider, clock, cloud


def state(cloud: ExternalCloud, instance: str = "x/a") -> InstanceState:
    return cloud.instance_states("g", [instance])[instance]


def test_one_list_without_an_instance_neither_begins_nor_ends_its_deletion() -> None:
    provider, clock, cloud = setup("x/a", "x/b")
    provider.listed = ["x/b"]
    assert state(cloud) is UNKNOWN
    assert isinstance(cloud.delete_instances("g", ["x/a"])["x/a"], CloudError)
    provider.listed = ["x/a", "x/b"]
    clock.now_s += 60
    assert state(cloud) is RUNNING
    assert cloud.delete_instances("g", ["x/a"]) == {}
    assert provider.deleted == ["x/a"]


def test_many_lists_of_one_moment_end_nothing_and_time_alone_does_not_either() -> None:
    provider, clock, cloud = setup("x/a", "x/b")
    provider.listed = ["x/b"]
    assert [state(cloud) for _ in range(20)] == [UNKNOWN] * 20
    clock.now_s += MISSING_S
    assert state(cloud) is GONE
    provider.listed = ["x/a", "x/b"]
    assert state(cloud) is RUNNING
    provider.listed = ["x/b"]
    clock.now_s += 600
    assert state(cloud) is UNKNOWN, "the first list without it again"


def test_a_provider_that_has_a_group_for_every_id_is_believed_for_half_a_minute() -> None:
    provider, clock, cloud = setup("x/a")
    provider.listed, provider.claims = [], True
    for _ in range(20):
        assert state(cloud) is UNKNOWN
        clock.now_s += 1.0
    clock.now_s += SECONDS_UNTIL_GONE_IF_DISPUTED - 20
    assert state(cloud) is GONE


def test_a_requested_deletion_counts_as_made_while_the_list_still_has_the_instance() -> None:
    provider, _, cloud = setup("x/a", "x/b")
    assert cloud.delete_instances("g", ["x/a"]) == {}
    assert cloud.delete_instances("g", ["x/a"]) == {}
    assert (provider.deleted, provider.target) == (["x/a"], 1)
    provider.listed = ["x/b"]
    assert state(cloud) is DELETING


def test_a_deletion_that_the_provider_has_forgotten_is_requested_again() -> None:
    provider, _, cloud = setup("x/a", "x/b")
    provider.obeys = False
    cloud.delete_instances("g", ["x/a"])
    provider.obeys = True
    assert cloud.delete_instances("g", ["x/a"]) == {}
    assert (provider.deleted, provider.target) == (["x/a", "x/a"], 1)


def test_of_two_requested_deletions_none_is_repeated_while_one_is_still_in_progress() -> None:
    provider, _, cloud = setup("x/a", "x/b", "x/c")
    cloud.delete_instances("g", ["x/a", "x/b"])
    assert cloud.delete_instances("g", ["x/a", "x/b"]) == {}
    assert (provider.deleted, provider.target) == (["x/a", "x/b"], 1)


def test_an_instance_that_was_never_listed_is_refused() -> None:
    _, _, cloud = setup("x/a")
    assert isinstance(cloud.delete_instances("g", ["x/z"])["x/z"], CloudRefusedError)
    with pytest.raises(KeyError):
        cloud.delete_instances("g", ["x/a"])["x/a"]
