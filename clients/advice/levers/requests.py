"""Requests far above a known use: a lever for each workload, and one for all of them.

The new request of a container is the largest use of that container in any pod of the workload, plus a margin that the
caller chooses, and at least what the Vertical Pod Autoscaler recommends for any pod. A resource is lowered only if the
sum over the containers is then far below the present request of every pod of the workload. The sum is taken as the
pod's request: a snapshot does not tell what init containers and the overhead of a runtime class add to it.
Amounts: cpu in milli-cores, memory in bytes.

Source: Vertical Pod Autoscaler, recommender flags recommendation-margin-fraction, pod-recommendation-min-cpu-millicores
and pod-recommendation-min-memory-mb.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from trimtab.clients.advice.changes import AdvisedChange, Edit, RequestChange
from trimtab.clients.advice.levers.lever import BasePlan, Lever, joined
from trimtab.clients.advice.result import Blocker
from trimtab.clients.advice.workloads import WorkloadName
from trimtab.clients.verdicts import staying

Finder = Callable[[BasePlan], Iterator[Lever]]
DEFAULT_MARGIN: Final = 0.15
"""Share of the use that a request keeps above it: the Vertical Pod Autoscaler's."""
MOST_WORKLOADS: Final = 40
"""Workloads with a lever of their own: those that request most above their use."""
_KINDS: Final = ("Deployment", "StatefulSet")
"""Kinds whose controllers replace pods when the template changes, and whose pods move."""
_LEAST: Final = {"cpu": 25, "memory": 250 << 20}
"""Of a pod, shared by its containers: the Vertical Pod Autoscaler's."""
_FAR: Final = 0.8
"""Requests are far above use if the new one is at most this share of them."""
_LEAST_MEASURED: Final = 0.5
"""Share of a workload's placed pods whose use must be known."""
_MIB: Final = 1 << 20


class ContainerUse(NamedTuple):
    """What one container uses."""

    cpu_milli: int
    memory_bytes: int


PodContainers = Mapping[str, Mapping[str, ContainerUse]]
"""Use by pod as "namespace/name", and in it by container; container "" = that of the whole pod, its containers are not
known."""


class _NewRequests(NamedTuple):
    """The lowered requests of a workload. amounts : by resource and container; now : the largest of its pods; excess :
    the share of the cluster's resources that its pods would give back; is_least : the use and the margin are less.
    """

    workload: WorkloadName
    amounts: Mapping[str, Mapping[str, int]]
    now: Mapping[str, int]
    excess: float
    is_least: bool


def requests_above_use(use: PodContainers, margin: float = DEFAULT_MARGIN) -> Finder:
    """Return the finder of these levers. use : of the pods with figures; margin : at least 0."""

    def find(base: BasePlan) -> Iterator[Lever]:
        found = sorted(_lowered(base, use, margin), key=lambda one: (-one.excess, one.workload))
        stays = {one.node for one in staying(base.answer)}
        levers = [_lever(base, one, margin, stays) for one in found]
        yield from levers[:MOST_WORKLOADS]
        if len(levers) > 1:
            condition = f"the requests of {len(levers)} workloads were their use and {_percent(margin)}"
            yield joined(Blocker.REQUESTS, condition, levers)

    return find


def _lowered(base: BasePlan, use: PodContainers, margin: float) -> Iterator[_NewRequests]:
    """Yield the workloads whose requests are far above their use. O(pods)."""
    whole = {name: sum(base.view.allocatable(node).get(name, 0) for node in base.view.nodes) for name in _LEAST}
    for workload in base.workloads.all:
        if workload.kind not in _KINDS:
            continue
        rows = base.workloads.rows(workload)
        placed = [row for row in rows if base.view.node_of(row)]
        measured = [one for row in placed if (one := use.get(base.view.pod_keys[row]))]
        if not measured or len(measured) < _LEAST_MEASURED * len(placed):
            continue
        every = [base.view.requests_of(row) for row in rows]
        amounts = {}
        for resource in _LEAST:
            of_containers = _new_requests(resource, measured, margin)
            if sum(of_containers.values()) <= _FAR * min(one.get(resource, 0) for one in every):
                amounts[resource] = of_containers
        if amounts:
            now = {name: max(one.get(name, 0) for one in every) for name in amounts}
            given_back = {name: now[name] - sum(amounts[name].values()) for name in amounts}
            excess = sum(len(placed) * given_back[name] / max(whole[name], 1) for name in amounts)
            bare = {name: sum(_new_requests(name, measured, margin, least=0).values()) for name in amounts}
            is_least = any(bare[name] < sum(amounts[name].values()) for name in amounts)
            yield _NewRequests(workload, amounts, now, excess, is_least)


def _new_requests(
    resource: str, measured: list[Mapping[str, ContainerUse]], margin: float, least: int | None = None
) -> dict[str, int]:
    """Return the requests of the containers: the largest use and the margin, rounded up to what a line shows.

    least : of a pod, None = the usual one
    """
    largest: dict[str, int] = {}
    for pod in measured:
        for container, used in pod.items():
            amount = used.cpu_milli if resource == "cpu" else used.memory_bytes
            largest[container] = max(largest.get(container, 0), amount)
    unit = 1 if resource == "cpu" else _MIB
    share = (_LEAST[resource] if least is None else least) / len(largest)
    # A share of a whole number of millionths, so that no float is rounded up by chance.
    millionths = round((1 + margin) * 1_000_000)
    return {
        name: unit * -(-max(amount * millionths, round(share * 1_000_000)) // (unit * 1_000_000))
        for name, amount in sorted(largest.items())
    }


def _lever(base: BasePlan, requests: _NewRequests, margin: float, staying: set[str]) -> Lever:
    """Return the lever of one workload."""
    rows = base.workloads.rows(requests.workload)
    sums = {name: sum(of_containers.values()) for name, of_containers in requests.amounts.items()}
    change = frozenset(RequestChange(name, amount) for name, amount in sums.items())
    per_pod = " and ".join(
        f"{_quantity(name, sums[name])} of {name}, not {_quantity(name, requests.now[name])}," for name in sums
    )
    least = f", at least {' and '.join(_quantity(name, amount) for name, amount in _LEAST.items())}"
    why = f"its use and {_percent(margin)}{least if requests.is_least else ''}"
    condition = f"a pod of {requests.workload} requested {per_pod.rstrip(',')} ({why})"
    kept = frozenset(node for row in rows if (node := base.view.node_of(row)) in staying)
    return Lever(Blocker.REQUESTS, condition, Edit(pods=dict.fromkeys(rows, change)), tuple(_changes(requests)), kept)


def _changes(requests: _NewRequests) -> Iterator[AdvisedChange]:
    """Yield the changes of each container; the first one has the command that makes all of them, if the containers are
    known.
    """
    workload = requests.workload
    containers = sorted({name for of_containers in requests.amounts.values() for name in of_containers})
    for container in containers:
        after = {name: _quantity(name, of_containers[container]) for name, of_containers in requests.amounts.items()}
        texts = ",".join(f"{name}={amount}" for name, amount in after.items())
        command = (
            f"kubectl set resources {workload.kind.lower()} {workload.name} -n {workload.namespace} "
            f"--containers={container} --requests={texts}"
        )
        for name, amount in after.items():
            keys = ("spec", "template", "spec", "containers", container or "*", "resources", "requests", name)
            before = _quantity(name, requests.now[name]) if len(containers) == 1 else None
            yield AdvisedChange(workload.object, keys, before, amount, command if container else "")
            command = ""


def _quantity(resource: str, amount: int) -> str:
    """Return an amount as Kubernetes has it: "250m", "300Mi"."""
    return f"{amount}m" if resource == "cpu" else f"{-(-amount // _MIB)}Mi"


def _percent(margin: float) -> str:
    return f"{100 * margin:g} %"
