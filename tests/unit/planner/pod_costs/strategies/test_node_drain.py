"""NODE_DRAIN follows the nodes that the same plan removes."""

from tests.builders.kubernetes import Json, node, node_group, pod, replica_set
from tests.builders.pod_costs import S, decide, groups, own_ranks, reasons, target, term
from trimtab.v1 import plan_pb2 as pb

WEB = replica_set("web", 9)
DRAIN = target(term(S.NODE_DRAIN))


def cluster() -> list[Json]:
    """Return nodes: "goes" is nearly empty; "full" has three pods too many; "fixed" is in no group; "held" has a bare
    pod.
    """
    nodes = [node(name, cpu="4") for name in ("fixed", "full", "goes", "held")]
    places = {"goes": ["1"], "full": ["1", "1", "1"], "held": ["1"], "fixed": ["1"]}
    pods = [
        pod(f"{name}-{i}", cpu, node=name, owner=WEB)
        for name, amounts in places.items()
        for i, cpu in enumerate(amounts)
    ]
    return [
        WEB, *nodes, *pods, pod("bare", "1", node="held"),
        node_group("g", nodes=["full", "goes", "held"]),
    ]  # fmt: skip


def settings(**fields: object) -> pb.ScaleDownSettings:
    made = pb.ScaleDownSettings(**fields)  # type: ignore[arg-type]
    made.unneeded_time.SetInParent()
    return made


def test_pods_on_nodes_that_go_come_first_and_those_on_nodes_that_never_go_last() -> None:
    answer = decide(cluster(), DRAIN, scale_down=settings())
    assert list(answer.scale_down.drain) == ["goes"]
    group = groups(answer)["ReplicaSet/default/web"]
    assert own_ranks(group) == {
        "goes-0": 1000, "full-0": 797, "full-1": 797, "full-2": 797, "held-0": 0, "fixed-0": 0,
    }  # fmt: skip
    assert [name.partition("/")[2] for name in group.pods] == [
        "goes-0", "full-0", "full-1", "full-2", "fixed-0", "held-0",
    ]  # fmt: skip
    assert not group.ranked_after_each_removal


def test_nodes_that_go_later_come_behind_those_that_go_now() -> None:
    later = pb.ScaleDownSettings()
    group = groups(decide(cluster(), DRAIN, scale_down=later))["ReplicaSet/default/web"]
    assert own_ranks(group)["goes-0"] == 900


def test_without_the_drain_set_no_group_is_ranked_by_it_and_others_are() -> None:
    db = replica_set("db", 1, namespace="data")
    objects = [*cluster(), db, pod("db", node="full", owner=db, namespace="data")]
    answer = decide(objects, target(term(S.NODE_DRAIN), namespaces=["default"]), target(term(S.YOUNGEST)))
    assert reasons(answer) == {"ReplicaSet/default/web": "SCALE_DOWN_NOT_ASKED", "ReplicaSet/data/db": ""}
