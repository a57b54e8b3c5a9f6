"""Replacements on a real control plane: large, half-empty nodes give way to fewer small ones, the real scheduler binds
their pods there, and the real API server holds the budget, also if the actuator is killed in the middle.
"""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import watch_log, workloads
from tests.e2e.actuator_process import all_ready, apply, command, kill, running, until
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.rounds_over_plane import rounds_over
from trimtab.actuator.tracker.admission import digest_of
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.loop.replacing import in_progress
from trimtab.clients.loop.rounds import RoundSettings
from trimtab.common.kubernetes.names import SOFT_TAINT_KEY
from trimtab.places import places_of
from trimtab.v1 import actuator_pb2, plan_pb2

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
Stage = actuator_pb2.ReplacementStage
PODS, SLOW_S = 6, 120.0
PRICES = {"large": 0.4, "small": 0.15, "spare": 0.18}
CPUS = {"large": "8", "small": "3500m", "spare": "3500m"}


def groups_of(pool: str, small_max: int = 10) -> list[Json]:
    """Return the node groups POOL-large, POOL-small and POOL-spare."""
    groups = []
    for kind, price in PRICES.items():
        one = workloads.group(f"{pool}-{kind}", small_max if kind == "small" else 10, pool, CPUS[kind])
        one["spec"]["nodeSelector"]["kind"] = kind
        one["spec"]["template"]["metadata"]["labels"]["kind"] = kind
        one["spec"]["price"] = price
        groups.append(one)
    return groups


def fill(plane: ControlPlane, pool: str) -> list[str]:
    """Create three large nodes with two pods each, behind a budget of one; return the nodes."""
    nodes = workloads.nodes(f"{pool}-l", 3, "8", pool)
    for node in nodes:
        node["metadata"]["labels"]["kind"] = "large"
    deployment = workloads.deployment(pool, PODS, "1", pool)
    deployment["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": pool}},
        }
    ]
    apply(plane, *nodes, deployment, workloads.budget(pool, pool, maxUnavailable=1))
    until(lambda: all_ready(plane), SLOW_S, "all pods ready")
    return [node["metadata"]["name"] for node in nodes]


def listed(plane: ControlPlane, kind: str, labels: str) -> list[Json]:
    items: list[Json] = json.loads(plane.kubectl("get", kind, "-n", "default", "-l", labels, "-o", "json"))["items"]
    return items


def order(plane: ControlPlane, pool: str, nodes: Sequence[str], alternatives: int = 0) -> Any:
    """Return the request that replaces the nodes by two small ones, three pods on each, with the present pods."""
    new = [
        plan_pb2.ReplacementNode(
            name=f"{pool}-small#{number}",
            node_group=f"{pool}-small",
            price_per_hour=PRICES["small"],
            alternatives=[f"{pool}-spare"],
        )
        for number in range(2)
    ]
    wave = plan_pb2.ReplacementWave(new_nodes=new)
    places: list[tuple[str, str, str]] = []
    for name in nodes:
        pods = [pod for pod in listed(plane, "pods", f"app={pool}") if pod["spec"].get("nodeName") == name]
        one = wave.leaving.add(node=name, node_group=f"{pool}-large", price_per_hour=PRICES["large"])
        one.assumption.pods_to_move_count = len(pods)
        one.assumption.pods_to_move_digest = digest_of(pod["metadata"]["uid"] for pod in pods)
        for pod in pods:
            places.append((f"default/{pod['metadata']['name']}", name, new[len(places) // 3].name))
    assert len(places) == PODS
    wave.places.CopyFrom(places_of(places))
    return actuator_pb2.StartReplacementRequest(request_id=pool, wave=wave, max_alternatives=alternatives)


def stage_of(client: ActuatorClient) -> actuator_pb2.Replacement:
    (one,) = client.get_status().replacements
    return one


def sizes_of(client: ActuatorClient) -> dict[str, int]:
    """Return the target size of each node group."""
    return {group.id: group.target_size for group in client.get_status().node_groups}


def check_pods(plane: ControlPlane, pool: str, kind: str) -> None:
    """Check that two nodes of a kind have all pods, without taints of ours."""
    nodes = {node["metadata"]["name"]: node for node in listed(plane, "nodes", f"pool={pool}")}
    assert {node["metadata"]["labels"]["kind"] for node in nodes.values()} == {kind}
    places = Counter(pod["spec"]["nodeName"] for pod in listed(plane, "pods", f"app={pool}"))
    assert sorted(places.values()) == [3, 3]
    assert places.keys() == nodes.keys()
    keys = {taint["key"] for node in nodes.values() for taint in node["spec"].get("taints", ())}
    assert not keys & {SOFT_TAINT_KEY, watch_log.HARD_TAINT}


@pytest.mark.parametrize("deaths", [0, 2], ids=["alive", "killed twice"])
def test_large_nodes_give_way_to_small_ones_within_their_budget(
    plane: ControlPlane, tmp_path: Path, deaths: int
) -> None:
    pool = f"swap{deaths}"
    gone, new = f"{pool}-large", f"{pool}-small"
    nodes = fill(plane, pool)
    options = command(plane, tmp_path / "actuator", groups_of(pool), "--replace-poll=0.2")
    request = order(plane, pool, nodes)
    stages = [Stage.ORDERING, Stage.DRAINING][:deaths]
    with watch_log.WatchLog(plane, tmp_path) as log:
        until(log.has_begun, 60, "the watches")
        for stage in (*stages, None):
            with running(tmp_path / "actuator", options) as (process, client):
                client.wait_until_serving(60)
                assert client.start_replacement(request).accepted
                until(lambda s=stage, c=client: stage_of(c).stage >= (s or Stage.DONE), SLOW_S, "the stage")  # type: ignore[misc]
                if stage is not None:
                    os.kill(process.pid, signal.SIGKILL)
                    kill(process)
                    continue
                one = stage_of(client)
                until(lambda c=client: (sizes_of(c)[gone], sizes_of(c)[new]) == (0, 2), SLOW_S, "sizes")  # type: ignore[misc]
        until(lambda: all_ready(plane), SLOW_S, "all pods ready")
        until(lambda: len(listed(plane, "nodes", f"pool={pool}")) == 2, SLOW_S, "two nodes")
        changes = log.changes()
    assert one.stage == Stage.DONE
    assert one.achieved_saving_per_hour == pytest.approx(3 * PRICES["large"] - 2 * PRICES["small"])
    assert watch_log.lowest_health(changes, "default", {"app": pool}) >= PODS - 1
    assert watch_log.unprotected_evictions(changes) == []
    assert watch_log.gone_nodes(changes) == set(nodes)
    assert len(watch_log.ended_pods(changes)) == PODS, "each pod was moved once"
    assert watch_log.overfull_nodes(changes) == []
    check_pods(plane, pool, "small")


def test_the_loop_has_the_planners_own_waves_carried_out_and_then_rests(plane: ControlPlane, tmp_path: Path) -> None:
    pool = "loop"
    nodes = fill(plane, pool)
    settings = RoundSettings("e2e", (plan_pb2.Decision.SCALE_UP,), replace=True)
    with watch_log.WatchLog(plane, tmp_path) as log:
        until(log.has_begun, 60, "the watches")
        with rounds_over(plane, tmp_path / "actuator", settings, groups_of(pool)) as rounds:
            first = rounds.run()
            assert first.replaced, first.answer.replacement
            until(lambda: not in_progress(rounds.actuator.get_status()), SLOW_S, "the end of the wave")
            while rounds.run().replaced or in_progress(rounds.actuator.get_status()):
                time.sleep(1.0)
            until(lambda: all_ready(plane), SLOW_S, "all pods ready")
            last, ended = rounds.run(), rounds.actuator.get_status().replacements
        changes = log.changes()
    assert {one.stage for one in ended} == {Stage.DONE}
    assert (last.replaced, list(last.answer.replacement.waves)) == ([], [])
    left = {node["metadata"]["name"] for node in listed(plane, "nodes", f"pool={pool}")}
    assert not left & set(nodes)
    assert {node["metadata"]["labels"]["kind"] for node in listed(plane, "nodes", f"pool={pool}")} == {"small"}
    assert watch_log.lowest_health(changes, "default", {"app": pool}) >= PODS - 1
    assert watch_log.unprotected_evictions(changes) == []


def test_a_group_at_its_maximum_is_followed_by_an_alternative(plane: ControlPlane, tmp_path: Path) -> None:
    pool = "other"
    nodes = fill(plane, pool)
    options = command(plane, tmp_path / "actuator", groups_of(pool, small_max=0), "--replace-poll=0.2")
    with running(tmp_path / "actuator", options) as (_, client):
        client.wait_until_serving(60)
        assert client.start_replacement(order(plane, pool, nodes, alternatives=1)).accepted
        until(lambda: stage_of(client).stage >= Stage.DONE, SLOW_S, "the end")
        one = stage_of(client)
    assert one.stage == Stage.DONE
    assert {node.node_group for node in one.new_nodes} == {f"{pool}-spare"}
    until(lambda: all_ready(plane), SLOW_S, "all pods ready")
    check_pods(plane, pool, "spare")


def test_a_cancelled_replacement_leaves_the_nodes_and_no_taint(plane: ControlPlane, tmp_path: Path) -> None:
    pool = "keep"
    nodes = fill(plane, pool)
    options = command(plane, tmp_path / "actuator", groups_of(pool), "--replace-poll=0.2", "--node-start=5")
    with running(tmp_path / "actuator", options) as (_, client):
        client.wait_until_serving(60)
        assert client.start_replacement(order(plane, pool, nodes)).accepted
        until(lambda: stage_of(client).stage == Stage.WAITING, SLOW_S, "the order")
        tainted = [node for node in listed(plane, "nodes", f"pool={pool}") if node["spec"].get("taints")]
        assert {taint["effect"] for node in tainted for taint in node["spec"]["taints"]} == {"PreferNoSchedule"}
        assert list(client.cancel_replacement([pool]).cancelled) == [pool]
        until(lambda: stage_of(client).stage >= Stage.DONE, SLOW_S, "the roll-back")
        assert stage_of(client).stage == Stage.CANCELLED
        until(lambda: sizes_of(client)[f"{pool}-small"] == 0, SLOW_S, "no new node")
    left = [node for node in listed(plane, "nodes", f"pool={pool}") if node["metadata"]["name"] in nodes]
    assert [node["spec"].get("taints") for node in left] == [None] * 3
