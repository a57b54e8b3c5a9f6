"""`--decision`: names of decisions as typed by users, the default without it, and annotations that decisions read."""

from collections.abc import Iterable, Sequence

from trimtab.clients.cli.failures import UsageError
from trimtab.clients.decisions import FIELDS, Code, decision_of
from trimtab.v1 import plan_pb2, snapshot_pb2

Codes = list[Code]


def read_decisions(names: Sequence[str]) -> Codes:
    """Read names such as "scale-down" or "SCALE_DOWN"; repetitions count once."""
    chosen: Codes = []
    for name in names:
        try:
            code = decision_of(name)
        except ValueError as error:
            raise UsageError(f"--decision {name}: {error}") from None
        if code not in chosen:
            chosen.append(code)
    return chosen


def asking(
    request: plan_pb2.PlanRequest, decisions: Iterable[Code] = (), *, fit_pods: Iterable[str] = ()
) -> plan_pb2.PlanRequest:
    """Return a copy of a request for these decisions alone, or for where some pods fit."""
    asked = plan_pb2.PlanRequest()
    asked.CopyFrom(request)
    del asked.decisions[:]
    asked.decisions.extend(dict.fromkeys(decisions))
    asked.fit_pods.extend(fit_pods)
    return asked


def default_decisions(settings: plan_pb2.PlanSettings, snapshot: snapshot_pb2.ClusterSnapshot) -> Codes:
    """Return the default decisions: scale-up and scale-down, and every other one that has settings. Slack is also
    requested by workloads, pod groups and CapacityBuffers, the answer to requests by ProvisioningRequests.
    """
    decision = plan_pb2.Decision
    chosen: Codes = [decision.SCALE_UP, decision.SCALE_DOWN]
    of_groups = any(group.slack for group in snapshot.pod_groups)
    requested = {decision.SLACK} if of_groups or snapshot.slack_requests.requests else set()
    if snapshot.capacity_requests.requests:
        requested.add(decision.CAPACITY_REQUESTS)
    for field, code in FIELDS.items():
        if code not in chosen and (code in requested or settings.HasField(field)):  # type: ignore[arg-type]
            chosen.append(code)
    return chosen
