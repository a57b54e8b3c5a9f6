"""What a pod group has, or what it lacks to start whole: its pods, their places in the plan, and why node groups do not
help those without one; and the same of a ProvisioningRequest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trimtab.clients.cli.amounts import counted, some
from trimtab.clients.cli.answers.capacity_requests import OUTCOMES
from trimtab.clients.cli.answers.scale_up import gang_sentence, result_of
from trimtab.clients.cli.blocks import Sentence, Style, led
from trimtab.clients.cli.decisions import asking, default_decisions
from trimtab.clients.cli.explain.growth import GrowthExplanation, explain_growth, refusal_sentences
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.clients.planner_client import PlannerClient
from trimtab.clients.verdicts import staying
from trimtab.places import destinations, is_upcoming, node_group
from trimtab.reason_texts import PREDICATE_TEXTS
from trimtab.v1 import plan_pb2, reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

_MOST_KINDS = 3
"""Most kinds of waiting pods whose node groups are explained; each takes a plan of its own."""


@dataclass(frozen=True)
class GangExplanation:
    """One pod group. `result` : what the plan says of it, None = nothing, as none of its pods waits or it is no gang;
    `places` : by pod that waits, where it goes ("" = nowhere); `kinds` : of pods without place, those that differ in
    spec, with how many there are of each; `kept` : of its nodes that scale-down keeps, the reason, by name.
    """

    group: pb.PodGroup
    running: Sequence[ShownPod]
    waiting: Sequence[ShownPod]
    result: plan_pb2.GangResult | None
    places: dict[str, str]
    kinds: Sequence[tuple[int, GrowthExplanation]]
    kept: Mapping[str, int]

    @property
    def key(self) -> str:
        """ "namespace/name"."""
        return f"{self.group.namespace}/{self.group.name}"

    @property
    def kept_reasons(self) -> dict[str, str]:
        """Why scale-down keeps nodes of the group, by name of the node."""
        name = reason_pb2.UnremovableReason.Code.Name
        return {node: name(reason) for node, reason in sorted(self.kept.items())}  # type: ignore[arg-type]


def group_keys(view: ClusterView) -> list[str]:
    """Return all pod groups as "namespace/name"."""
    return [f"{pod_group.namespace}/{pod_group.name}" for pod_group in view.snapshot.pod_groups]


def explain_gang(planner: PlannerClient, view: ClusterView, key: str, request: plan_pb2.PlanRequest) -> GangExplanation:
    """Ask the planner about a pod group that exists. key : "namespace/name"."""
    group = view.snapshot.pod_groups[group_keys(view).index(key)]
    pods = view.pods_in_group(key)
    running, waiting = [one for one in pods if one.node], [one for one in pods if not one.node]
    answer = planner.plan(view.snapshot, asking(request, default_decisions(request.settings, view.snapshot)))
    at = destinations(answer.scale_up.places)
    places = {one.key: _place(at.get(one.key, "")) for one in waiting}
    of_kind: dict[int, list[ShownPod]] = {}
    for one in waiting:
        if not places[one.key]:
            of_kind.setdefault(view.spec_of(one.row), []).append(one)
    most = sorted(of_kind.values(), key=lambda alike: (-len(alike), alike[0].key))[:_MOST_KINDS]
    kinds = [(len(alike), explain_growth(planner, view, alike[0], request)) for alike in most]
    nodes = {one.node for one in running}
    kept = {one.node: one.reason for one in staying(answer) if one.node in nodes}
    return GangExplanation(group, running, waiting, result_of(key, answer.scale_up), places, kinds, kept)


def _place(node: str) -> str:
    """Return in words where a plan puts a pod. node : as `Places` names it, "" = nowhere."""
    group = node_group(node)
    if not group:
        return f"node {node}" if node else ""
    return f"a {'requested' if is_upcoming(node) else 'new'} node of {group}"


def pod_group_sentences(view: ClusterView, explanation: GangExplanation) -> Iterator[Sentence]:
    """Yield the explanation as sentences."""
    group = explanation.group
    yield led(Style.HEADLINE, f"Pod group {explanation.key}", f" {_needs(view, group)}.")
    yield Sentence(f"Of its pods, {len(explanation.running):,} are on nodes and {len(explanation.waiting):,} wait.")
    if group.problem:
        yield led(Style.BAD, "It cannot be read, so its pods wait", f": {group.problem}")
    elif explanation.result is not None:
        yield Sentence(f"Gang {gang_sentence(explanation.result)}")
    elif explanation.waiting and group.policy == pb.PodGroupPolicy.BASIC:
        yield Sentence("Its pods get their places one by one.")
    for text, pods in _by_place(explanation):
        yield Sentence(f"{counted(len(pods), 'pod')}: {text} ({some(pods)})", indent=2)
    for count, growth in explanation.kinds:
        if not growth.reasons:
            continue
        alike = f"{counted(count, 'pod')} like {growth.pod.key}" if count > 1 else f"pod {growth.pod.key}"
        yield Sentence(f"No place for {alike}:")
        yield from refusal_sentences(growth)


def _needs(view: ClusterView, group: pb.PodGroup) -> str:
    """Return what the group asks for."""
    whole = group.policy == pb.PodGroupPolicy.GANG
    text = f"starts whole or not at all: at least {counted(group.min_count, 'pod')}" if whole else "is no gang"
    if group.topology_key:
        text += f", all on nodes with one {view.text(group.topology_key)}"
    if group.disruption_mode == pb.PodGroupDisruptionMode.POD_GROUP:
        text += "; it moves as a whole"
    return text


def _by_place(explanation: GangExplanation) -> list[tuple[str, list[str]]]:
    """Return where pods are and where those that wait go, with the pods; places with most pods first."""
    kept = explanation.kept_reasons
    found: dict[str, list[str]] = {}
    for one in explanation.running:
        stays = f", which stays ({kept[one.node]})" if one.node in kept else ""
        found.setdefault(f"on node {one.node}{stays}", []).append(one.key)
    for pod, place in explanation.places.items():
        if place:
            found.setdefault(f"to {place}", []).append(pod)
    return sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))


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


def request_sentences(answer: plan_pb2.CapacityRequestAnswer) -> Iterator[Sentence]:
    """Yield the explanation as sentences."""
    yield led(Style.HEADLINE, f"ProvisioningRequest {answer.namespace}/{answer.name}", f" {OUTCOMES[answer.outcome]}.")
    yield Sentence(answer.detail, indent=2)
    if answer.pod_count:
        counts = f"{answer.started_count:,} have started, room is held for {answer.booked_count:,}"
        yield Sentence(f"{answer.pod_count:,} pods, {counts}.", indent=2)
    for place in answer.places:
        where = place.node or f"node {place.number + 1} of those that are coming in {place.node_group}"
        yield Sentence(f"{place.pod_count:,} of set {place.pod_set} on {where}", indent=2)
    for group, reason in sorted(answer.shortfall.reasons.items()):
        failed = answer.shortfall.failed_predicates.get(group)
        why = PREDICATE_TEXTS[failed].on_new_node if failed else reason_pb2.NodeGroupReason.Code.Name(reason)
        yield Sentence(f"node group {group}: {why}", indent=2)
