"""The readers of external bytes as functions, each with valid bytes to start from.

A reader returns what it has read, or None if it refused the bytes. It raises every other error.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError, Message

from tests.fuzz import objects
from tests.fuzz.external_calls import best_options_seeds, calls_type, external_seeds, read_best_options, read_calls
from tests.fuzz.targets import BASE, DELTA, SNAPSHOT, asking, check_state, planned
from trimtab.clusterautoscaler import expander_pb2
from trimtab.common.rpc.access_policy import read_policy
from trimtab.common.rpc.errors import ServiceError
from trimtab.planner.decisions.requests import DecisionUnavailableError, RequestError, check_decisions, check_request
from trimtab.planner.decisions.table import TABLE
from trimtab.planner.expander.question import ClusterPlan, question
from trimtab.planner.model.settings import SettingsError, resolve_planner
from trimtab.planner.scale_up.option_choice import choose_option
from trimtab.planner.service.warm_up import NOW_S
from trimtab.planner.snapshot.checks import SnapshotError, SnapshotMalformedError
from trimtab.planner.snapshot.decode import canonicalize, parse_snapshot
from trimtab.planner.snapshot.delta import apply_delta, parse_delta
from trimtab.v1 import plan_pb2, planner_pb2, snapshot_pb2

REFUSALS: Final = (SnapshotError, SnapshotMalformedError, SettingsError, RequestError, DecisionUnavailableError)
POLICY: Final = b"""apiVersion: trimtab.dev/v1
kind: AccessPolicy
anonymous: [choose]
callers:
- identities: ["spiffe://trimtab/loop", "system:serviceaccount:a:*"]
  rights: [plan]
  clusters: ["*", a]
deletions: {requireAssumption: true, maxNodesPerHour: 5, maxSharePerHour: 0.5}
"""


GONE: Final = snapshot_pb2.SnapshotDelta(changed=snapshot_pb2.ClusterSnapshot(), deleted_pods=["default/gone"])


class Reader(NamedTuple):
    """message : the type of the bytes, None = text; seeds : returns valid bytes."""

    read: Callable[[bytes], object]
    message: type[Message] | None
    seeds: Callable[[], Sequence[bytes]]


def read_snapshot(data: bytes) -> object:
    """Read a whole snapshot."""
    return canonicalize(parse_snapshot(data))


def read_delta(data: bytes) -> object:
    """Read a delta against a base."""
    return apply_delta(BASE, parse_delta(data))


def read_request(data: bytes) -> object:
    """Read the header of a request: decisions, settings, and the state of the last answer."""
    request = plan_pb2.PlanRequest()
    try:
        request.ParseFromString(data)
    except DecodeError:
        return None
    check_request(request)
    check_decisions(request)
    resolve_planner(request.settings)
    check_state(request.state)
    return [decision.resolve(request.settings) for decision in TABLE]


def read_options(data: bytes) -> object:
    """Read a Cluster Autoscaler's request to its expander."""
    request = expander_pb2.BestOptionsRequest()
    try:
        request.ParseFromString(data)
    except DecodeError:
        return None
    settings = plan_pb2.PlanSettings()
    return choose_option(question(request, ClusterPlan(None), settings, NOW_S * 10**9))


def read_access_policy(data: bytes) -> object:
    """Read the access policy."""
    with NamedTemporaryFile(prefix="trimtab-policy-") as file:
        file.write(data)
        file.flush()
        try:
            return read_policy(Path(file.name))
        except ValueError:
            return None


def refused(read: Callable[[bytes], object], data: bytes) -> bool:
    """Read; return whether the bytes were refused by an error of the contract."""
    try:
        return read(data) is None
    except (ServiceError, *REFUSALS):
        return True


def head() -> plan_pb2.PlanRequest:
    """Return a request with a state, a delta's base and settings of all kinds."""
    request = asking()
    request.decisions[:] = [decision.code for decision in TABLE]
    request.state.CopyFrom(planned())
    request.base_version = "0" * 32
    down, up = request.settings.scale_down, request.settings.scale_up
    down.utilization_threshold = 0.5
    up.expanders.extend((plan_pb2.Expander.PRICE, plan_pb2.Expander.LEAST_WASTE))
    request.settings.slack.extra_capacity_min_rate = 0.1
    target = request.settings.pod_costs.targets.add(namespaces=["default"], owner_kinds=["ReplicaSet"])
    target.strategies.add(strategy=plan_pb2.PodCostStrategy.BALANCE_DOMAINS, weight=1.0, topology_key="zone")
    return request


def encoded(messages: Sequence[Message]) -> list[bytes]:
    """Return messages as bytes."""
    return [one.SerializeToString() for one in messages]


READERS: Final[Mapping[str, Reader]] = {
    "snapshot": Reader(read_snapshot, snapshot_pb2.ClusterSnapshot, lambda: [SNAPSHOT.SerializeToString()]),
    "delta": Reader(
        read_delta, snapshot_pb2.SnapshotDelta, lambda: [DELTA.SerializeToString(), GONE.SerializeToString()]
    ),
    "request": Reader(read_request, plan_pb2.PlanRequest, lambda: [head().SerializeToString()]),
    "options": Reader(read_options, expander_pb2.BestOptionsRequest, lambda: encoded(best_options_seeds())),
    "expander": Reader(read_best_options, expander_pb2.BestOptionsRequest, lambda: encoded(best_options_seeds())),
    "external": Reader(read_calls, calls_type(), lambda: encoded(external_seeds())),
    "objects": Reader(objects.read_part, planner_pb2.ObjectsPart, objects.seeds),
    "policy": Reader(read_access_policy, None, lambda: [POLICY]),
}
