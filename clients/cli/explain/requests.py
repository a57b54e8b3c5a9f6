"""What a ProvisioningRequest has, or what it lacks, and why no node group helps."""

from collections.abc import Iterator

from trimtab.clients.cli.answers.capacity_requests import OUTCOMES
from trimtab.clients.cli.blocks import Sentence, Style, led
from trimtab.clients.cli.decisions import asking, default_decisions
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.planner_client import PlannerClient
from trimtab.reason_texts import PREDICATE_TEXTS
from trimtab.v1 import plan_pb2, reason_pb2


def answer_to_request(
    planner: PlannerClient, view: ClusterView, key: str, request: plan_pb2.PlanRequest
) -> plan_pb2.CapacityRequestAnswer:
    """Ask the planner for the answer to one request. key : "namespace/name". Errors: UsageError."""
    known = {f"{one.namespace}/{one.name}": one for one in view.snapshot.capacity_requests.requests}
    if key not in known:
        raise UsageError(f"there is no ProvisioningRequest {key} in these files")
    usual = default_decisions(request.settings, view.snapshot)
    asked = asking(request, (plan_pb2.Decision.CAPACITY_REQUESTS, *usual))
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


def request_sentences(one: plan_pb2.CapacityRequestAnswer) -> Iterator[Sentence]:
    """Yield the explanation as sentences."""
    yield led(Style.HEADLINE, f"ProvisioningRequest {one.namespace}/{one.name}", f" {OUTCOMES[one.outcome]}.")
    yield Sentence(one.detail, indent=2)
    if one.pod_count:
        counts = f"{one.started_count:,} have started, room is held for {one.booked_count:,}"
        yield Sentence(f"{one.pod_count:,} pods, {counts}.", indent=2)
    for place in one.places:
        where = place.node or f"node {place.number + 1} of those that are coming in {place.node_group}"
        yield Sentence(f"{place.pod_count:,} of set {place.pod_set} on {where}", indent=2)
    for group, reason in sorted(one.shortfall.reasons.items()):
        failed = one.shortfall.failed_predicates.get(group)
        why = PREDICATE_TEXTS[failed].on_new_node if failed else reason_pb2.NodeGroupReason.Code.Name(reason)
        yield Sentence(f"node group {group}: {why}", indent=2)
