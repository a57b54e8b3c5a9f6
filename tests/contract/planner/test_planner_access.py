"""The planner and its callers: for which clusters each may plan, and that none sees another's data."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders.tls import OwnCa, make_ca
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.rpc.access import Access
from trimtab.common.rpc.access_policy import read_policy
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.common.rpc.server import Registration, ServerSettings, Shell
from trimtab.common.rpc.telemetry import start_telemetry
from trimtab.planner.service.request_handler import RequestHandler
from trimtab.planner.service.servicer import PlannerServicer
from trimtab.planner.service.settings import PlannerOptions
from trimtab.planner.service.warm_up import NOW_S, small_cluster
from trimtab.v1 import plan_pb2, planner_pb2_grpc, snapshot_pb2

ONCE = RetryPolicy(attempts=1)
POLICY = """
apiVersion: trimtab.dev/v1
kind: AccessPolicy
callers:
  - {identities: ["spiffe://trimtab/client"], rights: [plan], clusters: [prod-*]}
  - {identities: ["spiffe://trimtab/other"], rights: [plan], clusters: ["*"]}
"""


@pytest.fixture
def ca(tmp_path: Path) -> OwnCa:
    ca = make_ca(tmp_path / "ca")
    ca.issue("other", hosts=())
    return ca


def make_shell(**settings: object) -> Shell:
    telemetry, options = start_telemetry("test"), PlannerOptions()
    made = ServerSettings(**settings)  # type: ignore[arg-type]
    servicer = PlannerServicer(RequestHandler(telemetry.meter, options.cache_bytes), options, made.access)
    registration = Registration(planner_pb2_grpc.add_PlannerServicer_to_server, servicer, "trimtab.v1.Planner")
    return Shell("test", [registration], made, telemetry)


@pytest.fixture
def shell(ca: OwnCa, tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "policy.yaml").write_text(POLICY)
    policy = read_policy(tmp_path / "policy.yaml")
    with make_shell(security=ca.port(), access=Access(lambda: policy)) as running:
        yield running


def asking(cluster: str) -> plan_pb2.PlanRequest:
    return plan_pb2.PlanRequest(
        cluster=cluster, now=Timestamp(seconds=NOW_S), decisions=[plan_pb2.Decision.SCALE_DOWN], request_id="r"
    )


def reused(client: PlannerClient, cluster: str, version: str) -> Reason.ValueType | None:
    """Refer to a version without having sent it; return the reason of the refusal."""
    try:
        client.plan_delta(snapshot_pb2.SnapshotDelta(), version, asking(cluster))
    except TrimtabError as error:
        return error.reason
    return None


def test_a_caller_may_plan_only_for_the_clusters_of_its_rule(ca: OwnCa, shell: Shell) -> None:
    with PlannerClient(shell.address, ONCE, security=ca.channel("client")) as client:
        client.info()
        client.plan(small_cluster(), asking("prod-1"))
        for cluster in ("test", ""):
            with pytest.raises(TrimtabError) as caught:
                client.plan(small_cluster(), asking(cluster))
            assert (caught.value.code, caught.value.reason) == (
                grpc.StatusCode.PERMISSION_DENIED,
                Reason.CALLER_NOT_ALLOWED,
            )
            assert caught.value.metadata["right"] == "plan"
            with pytest.raises(TrimtabError, match="CALLER_NOT_ALLOWED"):
                list(client.check_fit(small_cluster(), asking(cluster)))


def test_a_known_version_shows_nothing_to_another_caller_or_about_another_cluster(ca: OwnCa, shell: Shell) -> None:
    with PlannerClient(shell.address, ONCE, security=ca.channel("client")) as client:
        version = client.plan(small_cluster(), asking("prod-1")).snapshot_version
        assert reused(client, "prod-1", version) is None
        assert reused(client, "prod-2", version) == Reason.SNAPSHOT_BASE_UNKNOWN
    for name in ("other", "client"):
        # The second has the same identity, as callers behind one proxy may have.
        with PlannerClient(shell.address, ONCE, security=ca.channel(name)) as stranger:
            assert reused(stranger, "prod-1", version) == Reason.SNAPSHOT_BASE_UNKNOWN


def test_anonymous_callers_from_one_host_share_nothing() -> None:
    with (
        make_shell() as shell,
        PlannerClient(shell.address, ONCE) as first,
        PlannerClient(shell.address, ONCE) as second,
    ):
        version = first.plan(small_cluster(), asking("c")).snapshot_version
        assert reused(first, "c", version) is None
        assert reused(second, "c", version) == Reason.SNAPSHOT_BASE_UNKNOWN
