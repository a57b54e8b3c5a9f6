"""A cluster whose large, half-empty nodes can be replaced by fewer small ones, and the request for it."""

from typing import Any

from tests.builders.actuator import Stage, place
from tests.builders.kubernetes import Json, daemon_set, node, node_group, pdb, pods_of, replica_set
from trimtab.actuator.tracker.admission import digest_of
from trimtab.actuator.tracker.replacement_states import WaveStage
from trimtab.common.kubernetes.names import SOFT_TAINT_KEY
from trimtab.places import places_of
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

BIG = ("big-0", "big-1", "big-2")
PRICES = {"big": 0.4, "small": 0.2, "spare": 0.25, "dear": 5.0}
NEW = ("small#0", "small#1")


def wasteful_cluster(small_max: int = 10, spare_max: int = 10) -> list[Json]:
    """Three nodes of group "big" with two pods each, behind a budget of one, and empty groups "small", "spare" and
    "dear", whose nodes have room for three pods each.
    """
    web = replica_set("web", 6)
    pods = pods_of(web, 6, cpu="1", memory="64Mi")
    for number, item in enumerate(pods):
        place(item, BIG[number // 2])
    budget = pdb("web-budget", labels=pods[0]["metadata"].get("labels"), max_unavailable=1)
    nodes = [node(name, cpu="8") for name in BIG]
    small = node("template", cpu="3500m")
    groups = [
        node_group("big", 0, 10, nodes=BIG, template=node("template", cpu="8"), price=PRICES["big"]),
        node_group("small", 0, small_max, nodes=(), template=small, price=PRICES["small"]),
        node_group("spare", 0, spare_max, nodes=(), template=small, price=PRICES["spare"]),
        node_group("dear", 0, 10, nodes=(), template=small, price=PRICES["dear"]),
    ]
    return [*nodes, web, daemon_set("agent"), *pods, budget, *groups]


def wave(
    uids: dict[str, list[str]], pods: dict[str, list[str]] | None = None, alternatives: tuple[str, ...] = ()
) -> plan_pb2.ReplacementWave:
    """Return a wave: the nodes leave, with these pods by node; the first goes to the first new node, the last to the
    last one, and those of nodes between to both.
    """
    new = [
        plan_pb2.ReplacementNode(name=name, node_group="small", price_per_hour=0.2, alternatives=alternatives)
        for name in NEW
    ]
    targets = {0: (0, 0), 1: (0, 1), 2: (1, 1)}
    leaving, places = [], []
    for number, (name, ids) in enumerate(sorted(uids.items())):
        names = (pods or {}).get(name) or [f"default/{uid}" for uid in ids]
        places += [(pod, name, NEW[targets[number][min(at, 1)]]) for at, pod in enumerate(names)]
        assumption = plan_pb2.NodeAssumption(pods_to_move_count=len(ids), pods_to_move_digest=digest_of(ids))
        leaving.append(plan_pb2.ReplacedNode(node=name, node_group="big", price_per_hour=0.4, assumption=assumption))
    saving = 0.4 * len(leaving) - 0.2 * len(new)
    return plan_pb2.ReplacementWave(new_nodes=new, leaving=leaving, places=places_of(places), saving_per_hour=saving)


def replacement_request(stage: Stage, request_id: str = "w1", **more: Any) -> actuator_pb2.StartReplacementRequest:
    """Return the request that replaces the large nodes; the plan assumes the present pods."""
    alternatives = more.pop("alternatives", ())
    uids = {name: stage.uids_to_move(name) for name in BIG}
    return actuator_pb2.StartReplacementRequest(
        request_id=request_id,
        wave=wave(uids, alternatives=alternatives),
        **{"max_alternatives": len(alternatives)} | more,
    )


def started(stage: Stage, request: actuator_pb2.StartReplacementRequest) -> tuple[bool, str]:
    """Start a replacement; return whether it was accepted, and the reason of a refusal."""
    answer = stage.actuator.replacements.start(request)
    return answer.accepted, reason_pb2.ReplacementReason.Code.Name(answer.reason)  # type: ignore[arg-type]


def the_replacement(stage: Stage) -> actuator_pb2.Replacement:
    """Return the only replacement of the status."""
    (found,) = stage.status().replacements
    return found


def result(stage: Stage) -> tuple[str, str]:
    """Return the stage of the only replacement, and why a part was not carried out."""
    one = the_replacement(stage)
    return WaveStage(one.stage).name, reason_pb2.ReplacementReason.Code.Name(one.reason)


def new_nodes(stage: Stage) -> dict[str, tuple[str, str]]:
    """Return node group and state of each new node, by name in the plan; those given up for another as NAME@GROUP."""
    found: dict[str, tuple[str, str]] = {}
    for one in the_replacement(stage).new_nodes:
        name = one.name if one.name not in found else f"{one.name}@{one.node_group}"
        found[name] = one.node_group, actuator_pb2.ReplacementNewNodeState.Code.Name(one.state)
    return found


def leaving(stage: Stage) -> dict[str, str]:
    """Return the state of each node that leaves."""
    return {one.node: actuator_pb2.LeavingNodeState.Code.Name(one.state) for one in the_replacement(stage).leaving}


def soft_tainted(stage: Stage) -> set[str]:
    """Return the nodes with the soft taint."""
    with stage.looking():
        return {view.name for view in stage.cluster.list_nodes() if view.taint(SOFT_TAINT_KEY)}


def nodes_of(stage: Stage, group: str) -> list[str]:
    """Return the nodes of a node group, sorted."""
    return sorted(one.name for one in stage.cluster.state.instances.values() if one.group == group)
