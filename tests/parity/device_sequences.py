"""Sequences of the device oracle, in which pods come and go and may share claims: what `CheckFit` says of each pod, in
a snapshot with the pods and claims before it, and which devices its claims would get.

`device_oracle/document.go` says what a sequence and its answers are. The next snapshot has what the oracle answered.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.builders.device_snapshots import ClaimRow, DeviceWorld
from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, write
from tests.parity.device_documents import (
    Answer,
    allocated_device,
    amounts,
    comparable,
    device_claim,
    device_class,
    device_slice,
    node_selection,
    ours,
)
from trimtab.places import on_existing
from trimtab.planner.decisions.device_plan import plan_devices
from trimtab.planner.decisions.fit import check_fit
from trimtab.planner.device_amounts.cluster_allocator import ClusterAllocator
from trimtab.planner.device_amounts.planned import planned_snapshot
from trimtab.planner.device_amounts.shared_claims import with_own_claims
from trimtab.planner.devices.model import AllocatedDevice, DeviceClaim, DeviceId, DeviceNode, NodeSelection
from trimtab.planner.devices.pools import reaches
from trimtab.planner.model.values import PodClaim, PodRequirements
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.columns import ClassOfDevices, Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

Json = Mapping[str, Any]
NAMESPACE, NOW_S = "ns", 1_700_000_000
OWN, NAMED = "own-", "shared-"
"""Beginnings of names of claims: of one pod, whose number follows, and of named ones; the others are of PodGroups."""


class Given(NamedTuple):
    """What a claim has, and the nodes that reach it, None = all."""

    devices: tuple[AllocatedDevice, ...]
    nodes: NodeSelection | None


class Said(NamedTuple):
    """What we say of a pod: the nodes on which it fits, the node on which a plan puts it, "" = none, and what its
    claims get on each node."""

    fits: frozenset[str]
    planned: str
    claims: Mapping[str, Answer]


class Sequence:
    """A cluster in which pods come and go."""

    def __init__(self, document: Json, minor: int) -> None:
        self._minor = minor
        self._nodes = {one["metadata"]["name"]: one["metadata"]["labels"] for one in document["nodes"]}
        self._slices = tuple(map(device_slice, document["slices"]))
        found = map(device_class, document["classes"])
        self._classes = tuple([ClassOfDevices(one.name, one.selectors, "", 0) for one in found])
        self._specs = {one["metadata"]["name"]: device_claim(one) for one in document["claims"]}
        self._kept = frozenset(document["kept"])
        self._held = tuple(map(allocated_device, document["allocated"]))
        self._given: dict[str, Given] = {}
        self._pods: dict[str, tuple[list[str], str]] = {}

    def leave(self, pods: list[str]) -> None:
        """Let pods go; a claim that nobody uses any more loses its devices, but for those of PodGroups."""
        for pod in pods:
            self._pods.pop(pod, None)
        used = {claim for claims, _ in self._pods.values() for claim in claims}
        self._given = {name: one for name, one in self._given.items() if name in used or name in self._kept}

    def place(self, step: Json, node: str, answer: Json) -> None:
        """Put the pod of a step on a node, as the oracle answered."""
        wanted = [name for name in step["claims"] if name not in self._given]
        for name, one in zip(wanted, answer.get("claims") or (), strict=True):
            self._given[name] = _given(one)
        self._pods[step["pod"]] = step["claims"], node

    def said(self, step: Json, *, whole: bool) -> Said:
        """Return what we say of the pod of a step. whole : by `CheckFit` and a plan, otherwise by their parts for
        claims alone, which is quicker."""
        pod = step["pod"]
        sent = canonicalize(write(self._cluster(step)))
        found = _claims(sent, pod)
        if not whole:
            return Said(self._with_claims(sent, pod, found), "", found)
        planned = planned_snapshot(sent)
        one_by_one = planned_snapshot(sent, is_together=False) if planned.has_pods_together else planned
        request = plan_pb2.PlanRequest(fit_pods=[f"{NAMESPACE}/{pod}"], decisions=[plan_pb2.Decision.SCALE_UP])
        request.now.seconds = NOW_S
        (fit,) = check_fit(one_by_one.snapshot, request, Work(), sent)
        placed = on_existing(plan_devices(planned, request, None, Work()).answer.scale_up)
        fits = frozenset([one.node for one in fit.nodes if one.fits])
        return Said(fits, placed.get(f"{NAMESPACE}/{pod}", ""), found)

    def _with_claims(self, sent: Snapshot, pod: str, found: Mapping[str, Answer]) -> frozenset[str]:
        """Return the nodes where claims without devices get some, and those of the others are reached."""
        own = with_own_claims(sent, is_together=False)
        terms = [one.nodes for one in own.specs[own.spec[_row(sent, pod)]].claims if one.nodes is not None]
        nodes = {name: DeviceNode(name, tuple(sorted(labels.items()))) for name, labels in self._nodes.items()}
        return frozenset([
            name
            for name, answer in found.items()
            if "error" not in answer
            and (answer.get("claims") or not self._wanted(sent, pod))
            and all(reaches(NodeSelection(selector=one), nodes[name], self._nodes[name]) for one in terms)
        ])  # fmt: skip

    @staticmethod
    def _wanted(sent: Snapshot, pod: str) -> bool:
        return bool(ClusterAllocator(sent).claims_of(_row(sent, pod)).wanted)

    def _cluster(self, step: Json) -> Cluster:
        pods = {
            (NAMESPACE, name): PodRow(spec=self._spec(name, claims), node=node)
            for name, (claims, node) in (self._pods | {step["pod"]: (step["claims"], "")}).items()
        }
        users: dict[str, tuple[str, ...]] = {}
        for name, (claims, _) in self._pods.items():
            for claim in claims:
                users[claim] = (*users.get(claim, ()), name)
        rows = [self._row(name, users.get(name, ())) for name in self._specs if self._is_there(name)]
        if self._held:
            rows.append(ClaimRow(NAMESPACE, "held", DeviceClaim("", ()), devices=self._held, consumers=("",)))
        nodes = {name: NodeRow(labels=labels) for name, labels in self._nodes.items()}
        world = DeviceWorld(self._slices, self._classes, tuple(rows), minor=self._minor)
        return Cluster(pods=pods, nodes=nodes, devices=world)

    def _is_there(self, claim: str) -> bool:
        """Return whether a claim has been made: named ones always, others with their devices."""
        return claim in self._given or claim.startswith(NAMED)

    def _row(self, claim: str, users: tuple[str, ...]) -> ClaimRow:
        given = self._given.get(claim)
        owner = f"p{claim.removeprefix(OWN)}" if claim.startswith(OWN) else ""
        return ClaimRow(
            NAMESPACE, claim, self._specs[claim], owner, claim if owner else "",
            None if given is None else given.devices, None if given is None else given.nodes, users,
        )  # fmt: skip

    def _spec(self, pod: str, claims: list[str]) -> PodRequirements:
        made = []
        for name in claims:
            is_own = name.startswith(OWN)
            known = self._specs[name] if is_own or not self._is_there(name) else None
            made.append(PodClaim(name, "" if is_own else name, known, ""))
        return PodRequirements(claims=tuple(made))


def _given(answer: Json) -> Given:
    consumed = answer.get("consumed") or [None] * len(answer["devices"])
    admin = answer.get("admin") or ()
    devices = [
        AllocatedDevice(
            request, DeviceId(*device), at in admin, consumed[at] is not None, amounts(consumed[at] or {})
        )
        for at, (request, *device) in enumerate(answer["devices"])
    ]  # fmt: skip
    nodes = answer.get("nodes")
    return Given(tuple(devices), None if nodes is None else _selection(nodes))


def _selection(nodes: Json) -> NodeSelection:
    """Return a node selector as snapshots have it: the name of the only node, where it is that."""
    found = node_selection({"nodeSelector": nodes})
    (term,) = found.selector or ((),)
    if not term.match_expressions and len(term.match_fields) == 1:
        return NodeSelection(term.match_fields[0].values[0])
    return found


def _claims(sent: Snapshot, pod: str) -> dict[str, Answer]:
    """Return what the claims of a pod that have no devices get on each node, as `comparable` has it."""
    found = ClusterAllocator(sent).outcomes(_row(sent, pod), range(len(sent.nodes.name)))
    return {sent.nodes.name[node]: ours(outcome) for node, outcome in found.items()}


def _row(sent: Snapshot, pod: str) -> int:
    return next(at for at in range(len(sent.pods.spec)) if sent.pods.name.get(at) == pod)


class Difference(NamedTuple):
    """Where we and the oracle differ. what : "fits", "devices" or "plan"."""

    step: str
    node: str
    what: str


def differences(document: Json, found: Json, minor: int, *, whole: bool = True) -> list[Difference] | None:
    """Return where our answers differ from the oracle's, None = a search took too long, here or there.
    whole : as in `Sequence.said`."""
    nodes = [one["metadata"]["name"] for one in document["nodes"]]
    sequence, out = Sequence(document, minor), list[Difference]()
    for step, tried in zip(document["steps"], found["steps"], strict=True):
        sequence.leave(step["leaves"])
        said = sequence.said(step, whole=whole)
        if any(one.get("timeout") for one in tried) or any("timeout" in one for one in said.claims.values()):
            return None
        for node, answer in zip(nodes, tried, strict=False):
            fits = bool(answer.get("placed"))
            if (node in said.fits) != fits:
                out.append(Difference(step["pod"], node, "fits"))
            expected = comparable(answer)
            if said.claims[node] != expected and not answer.get("elsewhere"):
                out.append(Difference(step["pod"], node, "devices"))
            if fits:
                sequence.place(step, node, answer)
        if said.planned and said.planned not in said.fits:
            out.append(Difference(step["pod"], said.planned, "plan"))
    return out
