"""`--decision`: names of decisions as typed by users, and the default without the option."""

from collections.abc import Sequence

from trimtab.v1 import plan_pb2, snapshot_pb2

from clients.cli.failures import InputError

Codes = list[plan_pb2.Decision.Code.ValueType]


def read_decisions(names: Sequence[str]) -> Codes:
    """Read names such as "scale-down" or "SCALE_DOWN"; repetitions count once."""
    known = {name: value for name, value in plan_pb2.Decision.Code.items() if value}
    chosen: Codes = []
    for name in names:
        key = name.strip().upper().replace("-", "_")
        if key not in known:
            names_known = ", ".join(one.lower().replace("_", "-") for one in known)
            raise InputError(f"--decision {name}: there is no such decision; there are {names_known}")
        if known[key] not in chosen:
            chosen.append(known[key])
    return chosen


def default_decisions(settings: plan_pb2.PlanSettings, snapshot: snapshot_pb2.ClusterSnapshot) -> Codes:
    """Return the default decisions: scale-up and scale-down, and slack and pod costs if they are configured. Slack is
    configured by its settings, by workloads and by CapacityBuffers; pod costs by targets in the settings.
    """
    decision = plan_pb2.Decision
    chosen: Codes = [decision.SCALE_UP, decision.SCALE_DOWN]
    if settings.HasField("slack") or snapshot.slack_requests.requests:
        chosen.append(decision.SLACK)
    if settings.pod_costs.targets:
        chosen.append(decision.POD_COSTS)
    return chosen
