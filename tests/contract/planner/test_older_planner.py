"""A planner of an earlier release refuses what it would ignore: settings that restrict, and devices."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders.planner_service import ONCE, asking, make_shell, refused
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.planner_client import GrpcLink, PlannerClient
from trimtab.common.rpc.errors import Reason
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.planner.decisions import requests
from trimtab.planner.service.warm_up import small_cluster
from trimtab.v1 import plan_pb2, snapshot_pb2

WHOLE = SnapshotUpdate(small_cluster(), None)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with make_shell() as shell:
        yield shell.address


def with_setting(**fields: Any) -> plan_pb2.PlanRequest:
    """Return a request with settings of scale-down."""
    request = asking()
    for name, value in fields.items():
        setattr(request.settings.scale_down, name, value)
    return request


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda address, request: PlannerClient(address, ONCE).plan(small_cluster(), request), id="plan"),
        pytest.param(
            lambda address, request: list(PlannerClient(address, ONCE).check_fit(small_cluster(), request)), id="fit"
        ),
        pytest.param(
            lambda address, request: PlannerSession(GrpcLink(address, policy=ONCE)).plan(request, WHOLE, lambda: WHOLE),
            id="a session, as of run and replay",
        ),
    ],
)
def test_an_older_planner_refuses_a_restricting_setting_that_it_would_ignore_whichever_client_sends_it(
    address: str, monkeypatch: pytest.MonkeyPatch, call: Callable[[str, plan_pb2.PlanRequest], Any]
) -> None:
    request = with_setting(unready_enabled=False)
    assert call(address, request)
    older = [feature for feature in requests.FEATURES if feature != "unready-nodes"]
    monkeypatch.setattr(requests, "FEATURES", tuple(older))
    error = refused(lambda: call(address, with_setting(unready_enabled=False)))
    assert (error.reason, error.metadata) == (Reason.FEATURE_UNKNOWN, {"feature": "unready-nodes"})
    assert call(address, with_setting(max_drain_parallelism=3))


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda address, rows: PlannerClient(address, ONCE).plan(rows, asking()), id="plan"),
        pytest.param(lambda address, rows: list(PlannerClient(address, ONCE).check_fit(rows, asking())), id="fit"),
        pytest.param(
            lambda address, rows: PlannerSession(GrpcLink(address, policy=ONCE)).ask(
                asking(), SnapshotUpdate(rows, None)
            ),
            id="a session, as of run and replay",
        ),
    ],
)
def test_an_older_planner_refuses_a_pod_with_a_claim_that_it_would_place_anywhere_whichever_client_sends_it(
    address: str, monkeypatch: pytest.MonkeyPatch, call: Callable[[str, snapshot_pb2.ClusterSnapshot], Any]
) -> None:
    cluster = small_cluster()
    cluster.pod_specs[0].claims.add(name="gpu", problem="the claim is missing")
    assert call(address, cluster)
    older = [feature for feature in requests.FEATURES if feature != "devices"]
    monkeypatch.setattr(requests, "FEATURES", tuple(older))
    error = refused(lambda: call(address, cluster))
    assert (error.reason, error.metadata) == (Reason.FEATURE_UNKNOWN, {"feature": "devices"})
    assert call(address, small_cluster())
