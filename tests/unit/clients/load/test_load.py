"""`trimtab admin load`: the order of creations and deletions, the measurements, and that nothing is left behind."""

from typing import Any

import msgspec
import pytest

from trimtab.clients.load.bursts import Around, InUseError, LoadSettings, MeasuredBurst, PodTimes, deployment, run
from trimtab.clients.load.cluster import LoadedCluster
from trimtab.common.kubernetes.connection import ApiRequest
from trimtab.common.kubernetes.errors import ApiError, MalformedAnswerError, UnreachableError

Json = dict[str, Any]
SETTINGS = LoadSettings(burst_count=2, deployment_count=2, replicas=2, length_s=6.0, quiet_s=4.0)


class ClusterWithOneNode:
    """A cluster with room for two pods on its only node; another node joins 3 s after a burst begins and leaves with
    it.
    """

    def __init__(self, fails_at: str = "") -> None:
        self.now_s, self.begun_s, self.burst = 100.0, 0.0, 0
        self.done: list[str] = []
        self.fails_at = fails_at

    def _note(self, what: str) -> None:
        self.done.append(what)
        if what == self.fails_at:
            raise UnreachableError("no answer")

    def prepare(self) -> None:
        self._note("prepare")

    def begin(self, burst: int) -> None:
        self.burst, self.begun_s = burst, self.now_s
        self._note(f"begin {burst}")

    def end(self) -> None:
        self.burst = 0
        self._note("end")

    def clean(self) -> None:
        self.burst = 0
        self._note("clean")

    def pods(self) -> list[PodTimes]:
        if not self.burst:
            return []
        bound_s = self.begun_s + 3 if self.now_s >= self.begun_s + 3 else None
        begun = [PodTimes(f"p{n}", self.begun_s, self.begun_s) for n in (1, 2)]
        return begun + [PodTimes(f"p{n}", self.begun_s, bound_s) for n in (3, 4)]

    def node_count(self) -> int:
        return 2 if self.burst and self.now_s >= self.begun_s + 3 else 1

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds


def played(cluster: ClusterWithOneNode, said: list[str]) -> list[MeasuredBurst]:
    return run(cluster, SETTINGS, Around(lambda: cluster.now_s, cluster.sleep, said.append))


def test_bursts_come_and_go_one_after_the_other_and_are_measured() -> None:
    cluster, said = ClusterWithOneNode(), []
    bursts = played(cluster, said)
    assert cluster.done == ["prepare", "begin 1", "end", "begin 2", "end", "clean"]
    assert [one.document() for one in bursts] == [
        {
            "number": number, "pods": 4, "scheduled": 4, "atOnce": 2, "medianWaitS": 0.0, "longestWaitS": 3.0,
            "nodesBefore": 1, "nodesMost": 2, "nodesAfter": 1,
        }
        for number in (1, 2)
    ]  # fmt: skip
    assert cluster.now_s == 100 + 2 * (6 + 4)
    # Reported once each: unchanged values are not repeated.
    assert said[:3] == [
        "burst 1 of 2: 4 pods, 2 of them wait; 1 node",
        "burst 1 of 2: 4 pods, 0 of them wait; 2 nodes",
        "quiet after burst 1: 0 pods, 0 of them wait; 1 node",
    ]
    assert len(said) == 6


def test_a_burst_of_which_no_pod_is_bound_has_no_waits() -> None:
    burst = MeasuredBurst(1, 4, 1)
    burst.see([PodTimes("p", 5.0, None)], 1)
    document = burst.document()
    assert (document["scheduled"], document["medianWaitS"], document["longestWaitS"]) == (0, None, None)


@pytest.mark.parametrize("fails_at", ["begin 1", "end", "begin 2"])
def test_whatever_happens_all_is_taken_away(fails_at: str) -> None:
    cluster = ClusterWithOneNode(fails_at)
    with pytest.raises(UnreachableError):
        played(cluster, [])
    assert cluster.done[-1] == "clean"


def test_an_interrupt_takes_all_away_too() -> None:
    cluster = ClusterWithOneNode()

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(cluster, SETTINGS, Around(lambda: cluster.now_s, interrupt, lambda _: None))
    assert cluster.done == ["prepare", "begin 1", "clean"]


def test_pods_of_another_load_are_left_alone() -> None:
    cluster = ClusterWithOneNode()
    cluster.burst = 7
    with pytest.raises(InUseError, match="--namespace"):
        played(cluster, [])
    assert cluster.done == ["prepare"]


class FakeApi:
    """Answers by method and path; records the requests."""

    def __init__(self, answers: dict[tuple[str, str], Any]) -> None:
        self.answers, self.asked = answers, []  # type: ignore[var-annotated]

    def _answer(self, method: str, path: str) -> Any:
        found = self.answers.get((method, path), {})
        if isinstance(found, Exception):
            raise found
        return found

    def json(self, method: str, path: str, body: Json) -> Json:
        self.asked.append((method, path, body))
        return dict(self._answer(method, path))

    def read_with_retries(self, request: ApiRequest) -> bytes:
        self.asked.append((request.method, request.path, dict(request.query)))
        found = self._answer(request.method, request.path)
        return found if isinstance(found, bytes) else msgspec.json.encode(found)


NAMESPACE = "/api/v1/namespaces/trimtab-load"
OURS = {"labelSelector": "app.kubernetes.io/managed-by=trimtab-load"}


def over(settings: LoadSettings = SETTINGS, **answers: Any) -> tuple[LoadedCluster, FakeApi]:
    paths = {
        "namespace": ("GET", NAMESPACE), "pods": ("GET", f"{NAMESPACE}/pods"), "nodes": ("GET", "/api/v1/nodes"),
        "create": ("POST", "/api/v1/namespaces"),
    }  # fmt: skip
    api = FakeApi({paths[key]: answer for key, answer in answers.items()})
    return LoadedCluster(api, settings), api  # type: ignore[arg-type]


def test_a_burst_is_deployments_that_every_security_standard_permits() -> None:
    cluster, api = over()
    cluster.begin(3)
    path = "/apis/apps/v1/namespaces/trimtab-load/deployments"
    assert [(method, where, body["metadata"]["name"]) for method, where, body in api.asked] == [
        ("POST", path, "burst-3-1"), ("POST", path, "burst-3-2"),
    ]  # fmt: skip
    made = deployment(LoadSettings(node_selector={"pool": "a"}, cpu="2"), 1, 1)
    pod = made["spec"]["template"]["spec"]
    assert (pod["nodeSelector"], pod["containers"][0]["resources"]["requests"]["cpu"]) == ({"pool": "a"}, "2")
    assert made["spec"]["selector"]["matchLabels"].items() <= made["spec"]["template"]["metadata"]["labels"].items()
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False


def test_the_namespace_may_be_there_already() -> None:
    over(create=ApiError(409, "AlreadyExists", "it is there"))[0].prepare()
    with pytest.raises(ApiError):
        over(create=ApiError(403, "Forbidden", "no"))[0].prepare()


@pytest.mark.parametrize(
    ("answer", "goes"),
    [
        pytest.param({"metadata": {"labels": {"app.kubernetes.io/managed-by": "trimtab-load"}}}, True, id="ours"),
        pytest.param({"metadata": {"name": "trimtab-load"}}, False, id="somebody else's"),
        pytest.param(ApiError(404, "NotFound", "gone"), False, id="gone"),
    ],
)
def test_only_what_the_load_has_made_is_deleted(answer: Any, goes: bool) -> None:
    cluster, api = over(namespace=answer)
    cluster.clean()
    deleted = [(path, query) for method, path, query in api.asked if method == "DELETE"]
    assert deleted[0] == ("/apis/apps/v1/namespaces/trimtab-load/deployments", OURS)
    assert deleted[1:] == ([(NAMESPACE, {})] if goes else [])


def pod(name: str, bound: str | None, **metadata: Any) -> Json:
    conditions = [{"type": "Ready", "status": "False"}]
    if bound is not None:
        status = "True" if bound else "False"
        conditions.append(
            {"type": "PodScheduled", "status": status, "lastTransitionTime": bound or "2026-01-01T00:00:09Z"}
        )
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:01Z", **metadata},
        "status": {"conditions": conditions},
    }


def test_waits_are_read_from_the_pods_themselves() -> None:
    items = [
        pod("c", None), pod("b", ""), pod("a", "2026-01-01T00:00:04Z"),
        pod("going", None, deletionTimestamp="2026-01-01T00:00:05Z"),
    ]  # fmt: skip
    cluster, api = over(pods={"items": items})
    found = cluster.pods()
    assert [(one.name, one.bound_s and one.bound_s - one.created_s) for one in found] == [
        ("a", 3.0), ("b", None), ("c", None),
    ]  # fmt: skip
    assert api.asked == [("GET", f"{NAMESPACE}/pods", OURS)]
    with pytest.raises(MalformedAnswerError, match="pods"):
        over(pods=b"<html>")[0].pods()


@pytest.mark.parametrize(("selector", "query"), [({}, {}), ({"b": "2", "a": "1"}, {"labelSelector": "a=1,b=2"})])
def test_nodes_that_the_pods_may_run_on_are_counted(selector: dict[str, str], query: Json) -> None:
    cluster, api = over(LoadSettings(node_selector=selector), nodes={"items": [{"metadata": {}}] * 3})
    assert cluster.node_count() == 3
    assert api.asked == [("GET", "/api/v1/nodes", query)]
