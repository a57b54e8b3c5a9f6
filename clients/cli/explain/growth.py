"""Which node groups would help a waiting pod, and why the others would not. Built from the planner's scale-up answers.
The plan shows where the pod goes: to an existing node, to a requested one, to a new one of some group, or nowhere, with
a reason for each group. If it goes to a new node, the plan is requested again with a limit that allows no new nodes.
The reason for each group is then a predicate, the group's state, or that limit; groups with only the limit as a reason
would help.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from trimtab.clients.cli.amounts import amount, counted, maximum, named_amount, some
from trimtab.clients.cli.answers.answer import Costs
from trimtab.clients.cli.answers.expansion import chosen_because, lost_because
from trimtab.clients.cli.answers.scale_up import gang_of, gang_sentence
from trimtab.clients.cli.blocks import Sentence, Style, led
from trimtab.clients.cli.causes import OF_DEVICES, cause, domains_cause
from trimtab.clients.cli.decisions import asking, default_decisions
from trimtab.clients.cli.explain.new_devices import device_causes_on_new_nodes
from trimtab.clients.cli.prices import Prices
from trimtab.clients.cli.sentences import NODE_GROUP_SENTENCES, SKIPPED_SENTENCES
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.clients.planner_client import PlannerClient
from trimtab.places import destinations, is_upcoming, node_group
from trimtab.reason_texts import PREDICATE_TEXTS
from trimtab.v1 import plan_pb2, reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

_Reason = reason_pb2.NodeGroupReason
_Predicate = reason_pb2.PredicateReason
_FIRST = (plan_pb2.Decision.CAPACITY_REQUESTS, plan_pb2.Decision.SLACK, plan_pb2.Decision.SCALE_UP)
"""The decisions that determine where waiting pods go; later ones do not change that."""


@dataclass(frozen=True)
class GrowthExplanation:
    """How scale-up serves one pod. `reasons` and `predicates` by node group, as in `Shortfall`; `helping` are
    the groups whose new node would take it. `view` : the snapshot; `decision` : the planner's; `device_causes` : why
    claims get no devices on a new node, by node group; `held` : what holds the room of existing nodes that the pod
    would fit, by node; `costs` : prices, for their currency.
    """

    view: ClusterView
    pod: ShownPod
    decision: plan_pb2.ScaleUpDecision
    reasons: Mapping[str, int]
    predicates: Mapping[str, int]
    helping: tuple[str, ...]
    device_causes: Mapping[str, str]
    held: Mapping[str, str]
    costs: Costs

    @property
    def split(self) -> plan_pb2.ScaleUpSplit | None:
        """The growth that serves the pod."""
        group = "" if is_upcoming(self.place) else node_group(self.place)
        return next((split for split in self.decision.splits if split.node_group == group), None)

    @cached_property
    def place(self) -> str:
        """The node that it gets, as `Places` names it; "" = none."""
        return destinations(self.decision.places).get(self.pod.key, "")

    @property
    def skipped(self) -> int:
        """Why scale-up does not serve it; 0 = it does."""
        return next((one.reason for one in self.decision.skipped if one.pod == self.pod.key), 0)


def explain_growth(
    planner: PlannerClient,
    view: ClusterView,
    pod: ShownPod,
    request: plan_pb2.PlanRequest,
    fits: Collection[str] = (),
    prices: Prices | None = None,
) -> GrowthExplanation:
    """Ask the planner what scale-up does for a waiting pod. fits : existing nodes with room for it, if none is held;
    prices : of a file.
    """
    usual = default_decisions(request.settings, view.snapshot)
    wanted = asking(request, (one for one in usual if one in _FIRST))
    answer = planner.plan(view.snapshot, wanted)
    decision = answer.scale_up
    refusals, helping = _refusals(decision, pod), list[str]()
    at = destinations(decision.places).get(pod.key, "")
    if node_group(at) and not is_upcoming(at):
        wanted.settings.planner.limits.add(resource="nodes", maximum_added=0)
        refusals = _refusals(planner.plan(view.snapshot, wanted).scale_up, pod)
        helping = [group for group, reason in refusals.reasons.items() if reason == _Reason.RESOURCE_LIMIT_REACHED]
    predicates = refusals.failed_predicates
    lacking = [group for group, failed in sorted(predicates.items()) if failed in OF_DEVICES]
    causes = device_causes_on_new_nodes(planner, view, pod, lacking, request)
    held, costs = _held(answer, fits), Costs(answer, view, prices)
    return GrowthExplanation(
        view, pod, decision, refusals.reasons, predicates, tuple(sorted(helping)), causes, held, costs
    )


def _held(answer: plan_pb2.PlanResponse, nodes: Collection[str]) -> dict[str, str]:
    """Return what holds room on some nodes, which kubectl shows as free: bookings of ProvisioningRequests, slack."""
    found: dict[str, list[str]] = {}
    for request in answer.capacity_requests.requests:
        for place in request.places:
            if place.node in nodes:
                text = f"ProvisioningRequest {request.namespace}/{request.name} ({counted(place.pod_count, 'pod')})"
                found.setdefault(place.node, []).append(text)
    slack = Counter(placeholder.node for placeholder in answer.slack.placeholders if placeholder.node in nodes)
    for node, count in slack.items():
        found.setdefault(node, []).append(f"slack ({counted(count, 'placeholder')})")
    return {node: " and ".join(texts) for node, texts in sorted(found.items())}


def _refusals(decision: plan_pb2.ScaleUpDecision, pod: ShownPod) -> plan_pb2.Shortfall:
    """Return the reasons of a pod that stays pending; none if it does not."""
    found = (one for one in decision.unschedulable if pod.key in one.pods)
    return next(found, plan_pb2.Shortfall())


def growth_sentences(explanation: GrowthExplanation) -> Iterator[Sentence]:
    """Yield the explanation as sentences."""
    decision, key = explanation.decision, explanation.pod.key
    split = explanation.split
    gang = gang_of(explanation.view, explanation.pod, decision)
    if gang is not None:
        yield Sentence(f"Gang {gang_sentence(gang)}")
    if explanation.place and not node_group(explanation.place):
        yield led(
            Style.GOOD, "No node is added for it", f": with all pending pods placed, it fits {explanation.place}."
        )
        if key in decision.after_new_nodes:
            yield Sentence(
                "It can be bound there only after pods run on the nodes added for others: its topology spread, "
                "affinity or gang depends on them."
            )
    elif is_upcoming(explanation.place):
        group = node_group(explanation.place)
        yield led(Style.GOOD, "No node is added for it", f": it fits a node that {group} is already adding.")
    elif explanation.skipped:
        why = SKIPPED_SENTENCES[reason_pb2.SkippedPodReason.Code.ValueType(explanation.skipped)]
        code = reason_pb2.SkippedPodReason.Code.Name(explanation.skipped)  # type: ignore[arg-type]
        yield led(Style.WARNING, "No node is added for it", f": {why} ({code}).")
    elif split is not None:
        yield from _split_sentences(explanation, split)
    elif explanation.reasons:
        filled = any(_is_filled(explanation, group) for group in explanation.reasons)
        yield led(Style.BAD, f"No node group {'has room left for' if filled else 'helps'} it", ":")
    elif not explanation.view.snapshot.node_groups:
        yield led(Style.BAD, "No node group helps it", ": the input has none.")
    else:
        yield Sentence(f"Scale-up does not mention it{': ' + decision.detail if decision.detail else ''}.")
    yield from _held_sentences(explanation)
    yield from refusal_sentences(explanation)


def _held_sentences(explanation: GrowthExplanation) -> Iterator[Sentence]:
    """Yield what holds room that the pod would fit, unless it gets a place on an existing node."""
    if not explanation.place or node_group(explanation.place):
        for node, holder in explanation.held.items():
            yield Sentence(f"Room on {node}, which kubectl shows as free, is held for {holder}.", indent=2)


def refusal_sentences(explanation: GrowthExplanation) -> Iterator[Sentence]:
    """Yield why the node groups that would not help do not, as sentences."""
    for (reason, text), groups in refusal_groups(explanation):
        failed = explanation.predicates.get(groups[0])
        code = _Predicate.Code.Name(failed) if failed else _Reason.Code.Name(reason)  # type: ignore[arg-type]
        yield Sentence(f"{counted(len(groups), 'node group')} ({some(groups)}): {text} ({code})", indent=2)


def _split_sentences(explanation: GrowthExplanation, split: plan_pb2.ScaleUpSplit) -> Iterator[Sentence]:
    """Yield which group grows for the pod, the cost, which other groups would help, and why they lost."""
    group = split.node_group
    count, most = split.new_size - split.current_size, maximum(split.max_size)
    yield led(
        Style.GOOD,
        f"Node group {group} grows for it",
        f", from {split.current_size:,} to {counted(split.new_size, 'node')}{f' (at most {most})' if most else ''}: "
        f"{chosen_because(explanation.decision, group)}.",
    )
    beside = list(destinations(explanation.decision.places).values()).count(explanation.place) - 1
    shared = f"It shares its new node with {counted(beside, 'pod')}." if beside > 0 else "It is alone on its new node."
    price = split.price_per_hour / count if count else 0.0
    each = f" Such a node costs {explanation.costs.rate(price)}." if price else ""
    yield Sentence(f"{shared}{each}")
    others = [one for one in explanation.helping if one != group]
    for one in others:
        yield Sentence(f"{one} would also help: {_not_taken(explanation.decision, one)}", indent=2)
    if any(one not in explanation.helping for one in explanation.reasons):
        yield Sentence("Other node groups would not help:")


def _not_taken(decision: plan_pb2.ScaleUpDecision, group: str) -> str:
    """Return why another group that would also help does not grow for the pod."""
    if any(split.node_group == group for split in decision.splits):
        return "it grows for other pods"
    lost = next((option for option in decision.options if option.node_group == group and not option.chosen), None)
    return lost_because(lost) if lost else "another node group was enough"


def refusal_groups(explanation: GrowthExplanation) -> list[tuple[tuple[int, str], list[str]]]:
    """Return the groups that do not help, by reason and cause, those with the most groups first."""
    new_nodes = _new_nodes(explanation.view)
    found: dict[tuple[int, str], list[str]] = defaultdict(list)
    for group, reason in sorted(explanation.reasons.items()):
        if group not in explanation.helping:
            found[reason, _why(explanation, new_nodes, group)].append(group)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[1]))


def _why(explanation: GrowthExplanation, new_nodes: ClusterView, group: str) -> str:
    """Return in one clause why a group does not help, with amounts and labels of its new nodes if relevant."""
    failed = explanation.predicates.get(group)
    if not failed and _is_filled(explanation, group):
        return _FILLED[explanation.reasons[group]]
    if not failed:
        return NODE_GROUP_SENTENCES[_Reason.Code.ValueType(explanation.reasons[group])]
    text = ""
    if group in new_nodes.nodes and failed == _Predicate.INSUFFICIENT_RESOURCES:
        text = _lacking(explanation, new_nodes, group)
    elif group in new_nodes.nodes and failed in _SHOWN:
        text = cause(new_nodes, explanation.pod, group, failed)
    elif failed == _Predicate.TOPOLOGY_SPREAD_VIOLATED:
        text = domains_cause(explanation.view, explanation.pod)
    elif group in explanation.device_causes:
        text = f"on a new node: {_of_templates(explanation.pod, explanation.device_causes[group])}"
    return text or f"on a new node: {PREDICATE_TEXTS[failed].clause}"


def _of_templates(pod: ShownPod, text: str) -> str:
    """Return a text on claims where those that are made from a template, and may not exist yet, are named as such."""
    for claim in pod.spec.claims:
        if not claim.shared_claim:
            text = text.replace(f"ResourceClaim {claim.name},", f"claim {claim.name} from its template,")
    return text


def _is_filled(explanation: GrowthExplanation, group: str) -> bool:
    """Return whether the plan grows a group as far as it may, for other pods: no node of it is left for this one."""
    grows = any(split.node_group == group for split in explanation.decision.splits)
    return explanation.split is None and grows and explanation.reasons[group] in _FILLED


_FILLED: Mapping[int, str] = {
    _Reason.MAX_SIZE_REACHED: "this plan fills it up to its maximum size",
    _Reason.RESOURCE_LIMIT_REACHED: "this plan fills it as far as a limit on resources or nodes allows",
    _Reason.MAX_NEW_NODES_REACHED: "this plan fills it, and adds as many nodes as one plan may",
}


def _lacking(explanation: GrowthExplanation, new_nodes: ClusterView, group: str) -> str:
    """Return the resources that even a new node without other pods lacks; "" if there are none."""
    has, wanted = new_nodes.allocatable(group), new_nodes.requests(explanation.pod)
    of_daemon_sets = _daemon_sets(explanation.view, new_nodes, group)
    return "; ".join(
        f"wants {named_amount(name, value)}, a new node has {amount(name, has.get(name, 0))}"
        + (f", of which DaemonSets take {amount(name, taken)}" if taken else "")
        for name, value in wanted.items()
        if value > has.get(name, 0) - (taken := of_daemon_sets.get(name, 0))
    )


def _daemon_sets(view: ClusterView, new_nodes: ClusterView, group: str) -> Counter[str]:
    """Return what the pods of DaemonSets request on a new node of a group."""
    taken = Counter[str]()
    for owner in view.snapshot.owners:
        if owner.HasField("pod_template"):
            spec = view.snapshot.pod_specs[owner.pod_template.spec]
            if new_nodes.is_wanted(spec, group) and not new_nodes.refused_taints(spec, group):
                taken.update({view.snapshot.resources[request.resource]: request.amount for request in spec.requests})
    return taken


_SHOWN = (_Predicate.TAINT_NOT_TOLERATED, _Predicate.NODE_AFFINITY_NOT_MATCHED)
"""Predicates whose cause can be seen on a node without pods."""


def _new_nodes(view: ClusterView) -> ClusterView:
    """Return a view of one node without pods for each group with a template, by the name of the group."""
    snapshot = view.snapshot
    made = pb.ClusterSnapshot(
        strings=snapshot.strings, resources=snapshot.resources, label_sets=snapshot.label_sets
    )  # fmt: skip
    for group in snapshot.node_groups:
        if group.HasField("template"):
            template = group.template
            made.nodes.add(
                name=group.id,
                label_set=template.label_set,
                taints=template.taints,
                allocatable=template.allocatable,
                ready=True,
            )
    return ClusterView(made)
