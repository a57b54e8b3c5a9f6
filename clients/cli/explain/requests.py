"""What a ProvisioningRequest has, or what it lacks, and why no node group helps."""

from collections.abc import Iterator

from rich.markup import escape

from trimtab.clients.cli.answers.capacity_requests import OUTCOMES
from trimtab.clients.cli.decisions import default_decisions
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.output import Format, as_document, print_document, print_lines, stdout_console
from trimtab.clients.cli.planners import PlannerAccess
from trimtab.clients.cluster_view import ClusterView
from trimtab.reason_texts import PREDICATE_TEXTS
from trimtab.v1 import plan_pb2, reason_pb2


def print_request(
    planner: PlannerAccess, view: ClusterView, key: str, request: plan_pb2.PlanRequest, output: Format
) -> None:
    """Print the explanation of a request. key : "namespace/name". Errors: UsageError."""
    one = _answer(planner, view, key, request)
    if output is not Format.TABLE:
        print_document(as_document(one), output)
        return
    print_lines(stdout_console(), request_lines(one))


def _answer(
    planner: PlannerAccess, view: ClusterView, key: str, request: plan_pb2.PlanRequest
) -> plan_pb2.CapacityRequestAnswer:
    """Ask the planner for the answer to one request."""
    known = {f"{one.namespace}/{one.name}": one for one in view.snapshot.capacity_requests.requests}
    if key not in known:
        raise UsageError(f"there is no ProvisioningRequest {key} in these files")
    asked = plan_pb2.PlanRequest()
    asked.CopyFrom(request)
    del asked.decisions[:]
    asked.decisions.extend({plan_pb2.Decision.CAPACITY_REQUESTS, *default_decisions(request.settings, view.snapshot)})
    for one in planner.plan(view.snapshot, asked).capacity_requests.requests:
        if f"{one.namespace}/{one.name}" == key:
            return one
    row = known[key]
    if row.failed or row.booking_expired or row.capacity_revoked:
        raise UsageError(f"ProvisioningRequest {key} has ended, as its conditions say: nothing is decided about it")
    raise UsageError(
        f"ProvisioningRequest {key} is not answered: the settings do not name its class {row.class_name}, or not its "
        "processorInstance (capacityRequests)"
    )


def request_lines(one: plan_pb2.CapacityRequestAnswer) -> Iterator[str]:
    """Yield the explanation as lines of rich text."""
    name = escape(f"{one.namespace}/{one.name}")
    yield f"[bold]ProvisioningRequest {name}[/bold] {OUTCOMES[one.outcome]}."
    yield escape(f"  {one.detail}")
    if one.pod_count:
        yield f"  {one.pod_count:,} pods, {one.started_count:,} have started, room is held for {one.booked_count:,}."
    for place in one.places:
        where = place.node or f"node {place.number + 1} of those that are coming in {place.node_group}"
        yield escape(f"  {place.pod_count:,} of set {place.pod_set} on {where}")
    for group, reason in sorted(one.shortfall.reasons.items()):
        failed = one.shortfall.failed_predicates.get(group)
        why = PREDICATE_TEXTS[failed].on_new_node if failed else reason_pb2.NodeGroupReason.Code.Name(reason)
        yield escape(f"  node group {group}: {why}")
