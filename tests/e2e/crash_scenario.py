"""One scenario on a real control plane: nodes are drained while the actuator dies repeatedly.

Three nodes are drained, one goes empty, the drain of one with a pod that its budget holds is cancelled, and the group
grows by two. Every scenario has its own namespace, nodes and ledger, so several may run in parallel. What
happened is read from the API server's watches.

A caller that dies within an eviction may leave the API server with a budget that counts a pod as disrupted which stays;
Kubernetes forgets that after two minutes. The budget is wide enough that a scenario seldom has to wait for it.
"""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.e2e import watch_log, workloads
from tests.e2e.actuator_process import EndedError, Json, command, living, serving, until
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.crash_points import Point, deaths
from tests.e2e.dying_actuator import MOMENTS, POINTS
from tests.e2e.fork_server import ForkedProcess, ForkServer
from trimtab.actuator.kube.api import Call, KubeApi
from trimtab.actuator.kube.cluster import ConflictError, NotFoundError
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.common.rpc.errors import TrimtabError
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

DRAINED, STUCK, EMPTY, STAYING = (1, 2, 3), 4, 5, (6, 7)
GROWTH = 2
WEB, DB, FLOOR = 12, 4, 4
QUICK = (
    "--delay-after-taint=0.1", "--drain-poll=0.1", "--eviction-retry=0.3", "--delete-poll=0.1", "--node-start=0.5",
    "--instance-delete=0.3", "--keep-evictions=7200", "--keep-finished=7200",
)  # fmt: skip
LEASE = ("--leader-elect", "--lease-duration=3", "--renew-deadline=2", "--lease-retry=0.2")
LIMIT_S = 240


class CrashEnvironment(NamedTuple):
    """The environment of scenarios."""

    plane: ControlPlane
    api: KubeApi
    fork_server: ForkServer
    directory: Path


class Scenario:
    """One scenario, named so that no other disturbs it."""

    def __init__(
        self, environment: CrashEnvironment, name: str, points: Sequence[Point], options: Sequence[str] = ()
    ) -> None:
        """The actuator dies at the points it reaches. `options` are further ones of it."""
        self._environment = environment
        self.name = name
        self._points = points
        self._directory = environment.directory / name
        self._directory.mkdir()
        self.moments = self._directory / "moments"
        self._elects = "--leader-elect" in options
        self._size = STAYING[-1]
        group = workloads.group(name, 20, pool=name)
        more = (*QUICK, f"--namespace={name}", *options)
        self._options = command(environment.plane, self._directory / "actuator", [group], *more)

    def run(self) -> list[Point]:
        """All of it; returns where it died."""
        try:
            self._fill()
            with watch_log.WatchLog(
                self._environment.plane,
                self._directory,
                {"Pod": f"/api/v1/namespaces/{self.name}/pods", "Node": "/api/v1/nodes"},
                {"Node": f"pool={self.name}"},
            ) as log:
                until(log.has_begun, 60, "the watches")
                status = self._live_and_die()
                until(self._all_ready, 60, "workloads ready again")
                self._settle(log)
                changes = log.changes()
            self._check(status, changes)
        finally:
            self._tidy()
        return deaths(self.moments)

    def node(self, number: int) -> str:
        """Return the name of a node."""
        return f"{self.name}-{number}"

    def _fill(self) -> None:
        api, name = self._environment.api, self.name
        api.call(Call("POST", "/api/v1/namespaces", body={"metadata": {"name": name}}))
        until(lambda: self._exists(f"/api/v1/namespaces/{name}/serviceaccounts/default"), 60, "the service account")
        nodes = workloads.nodes(name, STAYING[-1], pool=name)
        nodes[EMPTY - 1]["spec"] = {"taints": [{"key": "kept", "value": "free", "effect": "NoSchedule"}]}
        stuck = workloads.bare_pod("stuck", pool=name)
        stuck["spec"]["nodeName"] = self.node(STUCK)
        for node in nodes:
            api.call(Call("POST", "/api/v1/nodes", body=node))
        for item in (
            stuck,
            workloads.deployment("web", WEB, pool=name),
            workloads.stateful_set("db", DB, pool=name),
            workloads.budget("web", "web", maxUnavailable=WEB - FLOOR),
            workloads.budget("stuck", "stuck", minAvailable=1),
        ):
            api.call(
                Call("POST", self._collection(item), body=item | {"metadata": item["metadata"] | {"namespace": name}})
            )
        until(self._all_ready, 120, "workloads ready")

    def _collection(self, item: Json) -> str:
        root = "/api/v1" if item["apiVersion"] == "v1" else f"/apis/{item['apiVersion']}"
        return f"{root}/namespaces/{self.name}/{item['kind'].lower()}s"

    def _exists(self, path: str) -> bool:
        try:
            return bool(self._environment.api.json(Call("GET", path)))
        except NotFoundError:
            return False

    def _all_ready(self) -> bool:
        for path, replicas in (("deployments/web", WEB), ("statefulsets/db", DB)):
            item = self._environment.api.json(Call("GET", f"/apis/apps/v1/namespaces/{self.name}/{path}"))
            status = item.get("status", {})
            if (status.get("readyReplicas", 0), status.get("replicas", 0)) != (replicas, replicas):
                return False
        budgets = self._environment.api.json(
            Call("GET", f"/apis/policy/v1/namespaces/{self.name}/poddisruptionbudgets")
        )
        return all(one.get("status", {}).get("currentHealthy", 0) for one in budgets["items"])

    def _live_and_die(self) -> actuator_pb2.ActuatorStatus:
        """Make the same requests in each life, as a caller does, until one has seen the end. Return its last status."""
        directory = self._directory / "actuator"
        environment = {MOMENTS: str(self.moments), POINTS: json.dumps([str(point) for point in self._points])}
        seen = 0
        start = partial(self._environment.fork_server.start, self._options, environment, directory / "log")
        while True:
            try:
                with living(directory, start, 1) as (process, client):
                    try:
                        return self._live(process, client)
                    except TrimtabError:
                        process.wait(LIMIT_S)
                        raise
            except (TrimtabError, EndedError) as error:
                seen = self._later_end(seen, error)

    def _later_end(self, seen: int, error: Exception) -> int:
        """How many lives have ended as they may: by a crash of this test, or as the Lease was not renewed."""
        deposed = (self._directory / "actuator" / "log").read_text().count("exiting, to follow after a restart")
        ends = len(deaths(self.moments)) + deposed
        assert ends > seen, f"it has ended, and nobody killed it: {error!r}"
        return ends

    def _live(self, process: ForkedProcess, client: ActuatorClient) -> actuator_pb2.ActuatorStatus:
        """One life, until there is nothing left to do. Raises `EndedError`, `TrimtabError` when it ends before."""
        serving(process, client)
        if self._elects:
            self._wait(process, lambda: client.get_info().leader)
        nodes = [actuator_pb2.NodeToDelete(node=self.node(number), drain=True) for number in (*DRAINED, STUCK)]
        nodes.append(actuator_pb2.NodeToDelete(node=self.node(EMPTY)))
        answer = client.start_deletion(actuator_pb2.StartDeletionRequest(request_id="go", nodes=nodes))
        assert [one.detail for one in answer.nodes if not one.accepted] == []
        self._grow(client)
        client.cancel_deletion([self.node(STUCK)], "changed our mind")
        self._wait(process, lambda: not client.get_status(without_finished=True).deletions)
        self._wait(process, lambda: client.get_status().node_groups[0].instance_count == self._size_after)
        # The status may be a moment older than the last of its deletions.
        self._wait(process, self._nodes_are_there)
        return client.get_status()

    def _nodes_are_there(self) -> bool:
        """Whether all nodes that stay or were asked for are there, and none of the others."""
        listed = self._environment.api.json(Call("GET", f"/api/v1/nodes?labelSelector=pool%3D{self.name}"))
        names = {item["metadata"]["name"] for item in listed["items"]}
        return len(names) == self._size_after and not names & {self.node(number) for number in (*DRAINED, EMPTY)}

    def _grow(self, client: ActuatorClient) -> None:
        """Ask for the same growth in each life; from the size reported, once a deletion has changed the one known."""
        while True:
            split = plan_pb2.ScaleUpSplit(node_group=self.name, current_size=self._size, new_size=self._size + GROWTH)
            (answer,) = client.scale_up(f"grow from {self._size}", [split]).splits
            if answer.accepted:
                return
            assert answer.reason == reason_pb2.GrowthReason.SIZE_CHANGED, answer.detail
            self._size = client.get_status().node_groups[0].target_size

    def _wait(self, process: ForkedProcess, reached: Callable[[], bool]) -> None:
        """Wait for something while the process lives."""
        end = time.monotonic() + LIMIT_S
        while not reached():
            if process.poll() is not None:
                raise EndedError("died")
            assert time.monotonic() < end, "not over in time"
            time.sleep(0.1)

    def _settle(self, log: watch_log.WatchLog) -> None:
        """Wait until all writes are in the log."""
        patch = {"metadata": {"annotations": {"seen": "yes"}}}
        for kind, path in (
            ("Node", f"/api/v1/nodes/{self.node(STUCK)}"),
            ("Pod", f"/api/v1/namespaces/{self.name}/pods/stuck"),
        ):
            marked = self._environment.api.json(
                Call("PATCH", path, body=patch, content_type="application/merge-patch+json")
            )
            log.wait_for(kind, marked["metadata"]["resourceVersion"])

    @property
    def _size_after(self) -> int:
        return 1 + len(STAYING) + GROWTH

    def _check(self, status: actuator_pb2.ActuatorStatus, changes: list[watch_log.Change]) -> None:
        drained = {self.node(number) for number in DRAINED}
        gone = {*drained, self.node(EMPTY)}
        ended = [(one.node, actuator_pb2.DeletionState.Code.Name(one.state)) for one in status.finished]
        assert sorted(ended) == sorted([*((node, "DELETED") for node in gone), (self.node(STUCK), "CANCELLED")])
        assert status.node_groups[0].target_size == self._size_after
        assert watch_log.gone_nodes(changes) == gone
        flips = watch_log.taint_flips(changes)
        tainted = {name: count for name, count in flips.items() if count}
        # One whose deletion was cancelled before its taint was written never has it.
        assert tainted.pop(self.node(STUCK), 1) == 1, "tainted once"
        assert tainted == dict.fromkeys(gone, 1), "tainted once"
        assert watch_log.unprotected_evictions(changes) == []
        moved = watch_log.ended_pods(changes)
        assert {pod["spec"].get("nodeName") for pod in moved.values()} <= {*drained, self.node(STUCK)}
        uids = [one.uid for one in status.recent_evictions]
        assert sorted(uids) == sorted(moved), "the evictions remembered are those that were granted"
        assert watch_log.lowest_health(changes, self.name, {"app": "web"}) >= FLOOR
        assert watch_log.lowest_health(changes, self.name, {"app": "stuck"}) == 1
        left = {change.item["metadata"]["name"]: change.item for change in changes if change.kind == "Node"}
        staying = [item for name, item in left.items() if name not in gone]
        assert len(staying) == self._size_after, [item["metadata"]["name"] for item in staying]
        # A node that the cloud has just added has this taint of the API server until its kubelet has reported.
        taints = {(item["metadata"]["name"], one["key"]) for item in staying for one in item["spec"].get("taints", ())}
        assert [(name, key) for name, key in sorted(taints) if key != "node.kubernetes.io/not-ready"] == []

    def _tidy(self) -> None:
        """Remove the scenario's objects."""
        api = self._environment.api
        api.call(Call("DELETE", "/api/v1/nodes", {"labelSelector": f"pool={self.name}"}))
        try:
            api.call(Call("DELETE", f"/api/v1/namespaces/{self.name}"))
        except ConflictError:  # it is already being deleted
            return
