"""Costs that hold until the next removal, and groups that must not be ranked, on a real control plane."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import workloads
from tests.e2e.actuator_process import apply, until
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.helm.binary import rendered
from tests.e2e.ranked_pods import SLOW_S, Json, S, pods_of, targets
from tests.e2e.rounds_over_plane import Rounds, rounds_over
from tests.reference.pod_costs import anti_affinity
from tests.reference.pod_removal import Choice, Group, Moment, Ranking, choose, of_object
from trimtab.clients.loop.rounds import RoundSettings
from trimtab.v1 import plan_pb2
from trimtab.v1.reason_pb2 import PodCostGroupReason

pytestmark = pytest.mark.e2e
HOST = "kubernetes.io/hostname"
APART = anti_affinity.Term((("app", "apart"),), HOST, 10)


@pytest.fixture(scope="module", autouse=True)
def content(plane: ControlPlane) -> None:
    apply(plane, *rendered(template="pod-group-costs.yaml"))


def asked(settings: plan_pb2.PlanSettings) -> RoundSettings:
    return RoundSettings("e2e", (plan_pb2.Decision.POD_COSTS,), settings, apply_pod_costs=True)


def pods_apart(part: str, replicas: int) -> Json:
    """A ReplicaSet whose pods would rather share no node with pods of its app, of whatever part."""
    made = workloads.deployment(f"apart-{part}", replicas, "250m", "apart")
    pods = workloads.template("apart", "250m", "apart", part=part)
    away = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "apart"}}}
    preferred = [{"weight": APART.weight, "podAffinityTerm": away}]
    pods["spec"]["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    made["spec"] |= {"selector": {"matchLabels": {"app": "apart", "part": part}}, "template": pods}
    return made | {"kind": "ReplicaSet"}


class OwnController:
    """A custom controller: it asks which pods may go, removes them, and never falls back."""

    def __init__(self, plane: ControlPlane, wanted: dict[str, int]) -> None:
        self._plane, self._wanted = plane, wanted
        self.removed: list[tuple[str, str]] = []

    def ranking(self, part: str) -> Ranking:
        """The ranks of one part as they are in the cluster."""
        found = self._plane.kubectl("get", "pgc", "-n", "default", f"replicaset-apart-{part}", "-o", "json")
        return of_object(json.loads(found))

    def of_part(self, part: str) -> list[Json]:
        return [pod for pod in pods_of(self._plane, "apart") if pod["metadata"]["labels"]["part"] == part]

    def surplus(self, part: str) -> int:
        return len(self.of_part(part)) - self._wanted[part]

    def choice(self, part: str, now_s: float | None = None) -> Choice:
        """Which pods of a part go now."""
        now_s = time.time() if now_s is None else now_s
        names = sorted(pod["metadata"]["name"] for pod in self.of_part(part))
        group = Group(names, self.surplus(part))
        return choose(group, self.ranking(part), Moment(now_s, now_s))

    def act(self) -> list[str]:
        """Remove what may go of every part; return the names."""
        gone = []
        for part in self._wanted:
            for name in self.choice(part).victims if self.surplus(part) else ():
                self.check_best(part, name)
                self._plane.kubectl("delete", "pod", "-n", "default", name, "--wait=false")
                self.removed.append((part, name))
                gone.append(name)
        return gone

    def check_best(self, part: str, victim: str) -> None:
        """No other pod of the part would take more off the terms that are violated, all pods looked at."""
        pods = [
            anti_affinity.PlacedPod(
                pod["metadata"]["name"],
                tuple(pod["metadata"]["labels"].items()),
                ((HOST, pod["spec"]["nodeName"]),),
                (APART,),
            )
            for pod in pods_of(self._plane, "apart")
        ]
        gain = anti_affinity.ranks(pods)
        assert gain[victim] == max(gain[pod["metadata"]["name"]] for pod in self.of_part(part))


def shrink(rounds: Rounds, controller: OwnController, wanted: dict[str, int]) -> None:
    """Rank, then let the controller act, until it has what it wants."""
    end = time.monotonic() + SLOW_S
    while any(controller.surplus(part) for part in wanted):
        assert time.monotonic() < end, f"only {controller.removed} within {SLOW_S} s"
        rounds.run()
        gone = controller.act()
        assert len(gone) <= 1, "one pod of one group at a time"
        if gone:
            # Nothing has been ranked since: no pod may go, however often the controller asks.
            assert controller.act() == []
        for part in wanted:
            waits_for = controller.ranking(part).waits_for
            assert not (gone and waits_for and controller.removed[-1][0] == part), "it was another group's turn"


def test_of_groups_that_share_terms_one_pod_goes_at_a_time_and_none_before_ranks_are_made_again(
    plane: ControlPlane, tmp_path: Path
) -> None:
    apply(plane, *workloads.nodes("apart", 1, "8", "apart"), pods_apart("a", 4))
    until(lambda: are_running(plane, "apart", 4), SLOW_S, "four pods on one node")
    apply(plane, *workloads.nodes("more", 3, "8", "apart"), pods_apart("b", 4))
    until(lambda: are_running(plane, "apart", 8), SLOW_S, "four pods more")
    wanted = {"a": 2, "b": 3}
    controller = OwnController(plane, wanted)
    settings = targets("apart", plan_pb2.PodCostTerm(strategy=S.ANTI_AFFINITY))
    # The real ReplicaSet controller does not read PodGroupCost: another one stands in for it, over its objects.
    plane.kill("kube-controller-manager")
    try:
        for part, replicas in wanted.items():
            plane.kubectl("scale", "-n", "default", f"rs/apart-{part}", f"--replicas={replicas}")
        with rounds_over(plane, tmp_path / "actuator", asked(settings), [workloads.group("g", 10, "apart")]) as rounds:
            rounds.run()
            # The ranking process may have died meanwhile.
            late = controller.choice("a", time.time() + 400)
            assert (late.victims, late.wait) == ((), True)
            assert "nobody has confirmed the ranks" in late.why
            shrink(rounds, controller, wanted)
    finally:
        plane.start_controller_manager()
    assert [part for part, _ in controller.removed] == ["a", "a", "b"]
    left = {pod["metadata"]["name"] for pod in pods_of(plane, "apart")}
    # The real controller finds what it wants, and neither removes nor creates any.
    until(lambda: all(status_of(plane, part) == replicas for part, replicas in wanted.items()), SLOW_S, "it agrees")
    assert {pod["metadata"]["name"] for pod in pods_of(plane, "apart")} == left


def are_running(plane: ControlPlane, app: str, count: int) -> bool:
    found = pods_of(plane, app)
    return len(found) == count and all(pod["status"].get("phase") == "Running" for pod in found)


def status_of(plane: ControlPlane, part: str) -> int:
    item = json.loads(plane.kubectl("get", "rs", "-n", "default", f"apart-{part}", "-o", "json"))
    is_current = item["status"].get("observedGeneration") == item["metadata"]["generation"]
    return int(item["status"]["replicas"]) if is_current else -1


def overlapping(name: str, also: dict[str, str]) -> Json:
    """A ReplicaSet that selects every pod of the app "shared", also those of others."""
    made = workloads.deployment(name, 2, pool="hard")
    pods = workloads.template("shared", "250m", "hard", **also)
    made["spec"] |= {"selector": {"matchLabels": {"app": "shared"} | also}, "template": pods}
    return made | {"kind": "ReplicaSet"}


def test_pods_of_two_controllers_and_of_an_update_are_left_to_their_controllers(
    plane: ControlPlane, tmp_path: Path
) -> None:
    apply(plane, *workloads.nodes("hard", 2, "4", "hard"))
    apply(plane, overlapping("narrow", {"side": "left"}), workloads.deployment("rolls", 2, pool="hard"))
    until(lambda: are_running(plane, "shared", 2) and are_running(plane, "rolls", 2), SLOW_S, "pods run")
    apply(plane, overlapping("wide", {}))
    # The new pods find no node: both revisions stay.
    change: Json = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "nowhere"}}}}}
    plane.kubectl("patch", "deployment", "-n", "default", "rolls", "-p", json.dumps(change))
    until(lambda: len(pods_of(plane, "rolls")) == 3, SLOW_S, "a pod of the new revision")
    settings = targets("shared", plan_pb2.PodCostTerm(strategy=S.YOUNGEST))
    rolls = targets("rolls", plan_pb2.PodCostTerm(strategy=S.YOUNGEST))
    settings.pod_costs.targets.extend(rolls.pod_costs.targets)
    with rounds_over(plane, tmp_path / "a", asked(settings), [workloads.group("g", 10, "hard")]) as rounds:
        found: dict[str, Any] = {}

        def is_seen() -> bool:
            groups = rounds.run().answer.pod_costs.groups
            found.clear()
            found.update({group.owner.rpartition("/")[2]: group for group in groups})
            return len(found) >= 4

        until(is_seen, SLOW_S, "all four groups")
    old = next(name for name in found if name.startswith("rolls-") and len(found[name].costs) == 0)
    new = next(name for name in found if name.startswith("rolls-") and name != old)
    name = PodCostGroupReason.Code.Name
    assert {one: name(found[one].reason) for one in ("narrow", "wide", old)} == {
        "narrow": "SEVERAL_CONTROLLERS", "wide": "SEVERAL_CONTROLLERS", old: "ROLLING_UPDATE",
    }  # fmt: skip
    assert found[new].complete
    assert "ReplicaSet/default/wide" in found["narrow"].detail
    ranked = [pod for app in ("shared", "rolls") for pod in pods_of(plane, app) if is_ranked(pod)]
    assert [pod["metadata"]["name"].startswith(f"{new}-") for pod in ranked] == [True]


def is_ranked(pod: Json) -> bool:
    return "trimtab.dev/pod-cost-time" in (pod["metadata"].get("annotations") or {})
