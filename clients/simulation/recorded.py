"""Recorded clusters as scenarios: the objects of a cluster, and its pods as arrivals.

Decides which objects exist from the beginning and which arrive: nodes, node groups, controllers and budgets exist, and
so do the pods of DaemonSets and static pods; every other pod arrives at its creation and goes at its deletion. The
beginning is the creation of the first of them. Pods that had ended are left out. An arriving pod is scheduled again. A
node whose condition Ready was not recorded is ready. Reads Kubernetes objects, as printed by `kubectl get -o
json|yaml`; for recorded rounds see `recorded_rounds`. Raises ScenarioError.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from trimtab.clients.simulation.cluster.placement_rules import ZONE
from trimtab.clients.simulation.cluster.pods import SimulatedPod, parse_time_ms
from trimtab.clients.simulation.scenario import NodeGroupModel, RecordingModel, Scenario
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.common.kubernetes.object_files import ObjectFileError, load_files
from trimtab.common.recording import ZSTD_MAGIC

Json = dict[str, Any]
AFTER_S: Final = 3600.0
"""How long a simulation continues after the last arrival or end, unless its scenario sets the length."""


class RecordedPod(NamedTuple):
    """A pod that arrives. at_s : since the beginning; until_s : when it was deleted, None = it stays. item : the
    object. Times are seconds.
    """

    at_s: float
    item: Json
    until_s: float | None


class OwnerSize(NamedTuple):
    """The size of a controller from a time on. at_s : seconds since the beginning; owner : "Kind/namespace/name";
    replicas : its number of pods.
    """

    at_s: float
    owner: str
    replicas: int


class RecordedPodGroup(NamedTuple):
    """A PodGroup that appears. at_s : seconds since the beginning; item : the object."""

    at_s: float
    item: Json


class RecordedCluster(NamedTuple):
    """begin_s : Unix seconds; objects : existing from the beginning; arrivals : in order of time, then of name.

    sizes : how controllers change; pod_groups : those that appear, in order of time; is_under_way : pods of the
    beginning are on nodes; length_s : of the recording
    """

    begin_s: float
    objects: tuple[Json, ...]
    arrivals: tuple[RecordedPod, ...]
    sizes: tuple[OwnerSize, ...] = ()
    is_under_way: bool = False
    length_s: float = 0.0
    pod_groups: tuple[RecordedPodGroup, ...] = ()

    @property
    def last_s(self) -> float:
        """Return the time of the last event, since the beginning."""
        return max([self.length_s, *(max(arrival.at_s, arrival.until_s or 0.0) for arrival in self.arrivals)])


def read_recording(path: Path) -> RecordedCluster:
    """Read a recording."""
    try:
        items = load_files([path])
        return _split(items)
    except (ObjectFileError, ValueError, TypeError, KeyError, AttributeError) as error:
        text = str(error) if isinstance(error, ObjectFileError) else repr(error)
        raise ScenarioError(text if text.startswith(str(path)) else f"{path}: {text}") from None


def is_recording(path: Path) -> bool:
    """Return whether a file is a recording rather than a scenario; unreadable files are reported by their reader."""
    if path.suffix == ".gz":
        return True
    try:
        with path.open("rb") as file:
            head = file.read(1 << 16)
    except OSError:
        return False
    if head.startswith(ZSTD_MAGIC):
        return True
    lines = head.decode("utf-8", "replace").splitlines()
    return head.lstrip().startswith(b"{") or any(line.startswith(("apiVersion:", "kind:", "items:")) for line in lines)


def has_rounds(path: Path) -> bool:
    """Return whether a recording contains rounds rather than objects; unreadable files are reported by their reader."""
    try:
        with path.open("rb") as file:
            return file.read(len(ZSTD_MAGIC)) == ZSTD_MAGIC
    except OSError:
        return False


def scenario_of(path: Path, recorded: RecordedCluster) -> Scenario:
    """Return the scenario of a recording that is simulated without a scenario file."""
    return Scenario(
        name=path.name.split(".")[0],
        start=datetime.fromtimestamp(recorded.begin_s, UTC),
        duration=recorded.last_s + AFTER_S,
        recording=RecordingModel(file=path.name),
    )


def group_model(item: Json, nodes: Iterable[Json], model: RecordingModel) -> NodeGroupModel:
    """Return the simulation's data on a recorded node group in addition to its object: start, price and zone."""
    name, spec = item["metadata"]["name"], item.get("spec") or {}
    zones = Counter((node["metadata"].get("labels") or {}).get(ZONE, "") for node in nodes)
    price = model.prices.get(name, spec.get("price"))
    return NodeGroupModel(
        name=name, start=model.start, price=price, zone=zones.most_common(1)[0][0] if len(zones) == 1 else ""
    )


def _split(items: Iterable[Json]) -> RecordedCluster:
    """Divide the objects into existing and arriving ones."""
    there: list[Json] = []
    pods: list[tuple[int, SimulatedPod]] = []
    for item in items:
        if item["kind"] != "Pod":
            there.append(_with_condition(item) if item["kind"] == "Node" else item)
            continue
        pod = SimulatedPod(item)
        if pod.terminal:
            continue
        if pod.stays_with_node:
            there.append(item)
        else:
            pods.append((parse_time_ms(item["metadata"].get("creationTimestamp")), pod))
    if not any(item["kind"] == "Node" for item in there):
        raise ObjectFileError("there is no Node in the recording; export nodes too")
    pods.sort(key=lambda one: (one[0], one[1].key))
    known = [time_ms for time_ms, _ in pods if time_ms]
    begin_ms = known[0] if known else _latest_ms(there)
    arrivals = tuple(_arrival(max(time_ms, begin_ms), begin_ms, pod) for time_ms, pod in pods)
    return RecordedCluster(begin_ms / 1000, tuple(there), arrivals)


def _with_condition(node: Json) -> Json:
    """Return a node that is ready, if the recording does not say whether it was."""
    status = node.get("status") or {}
    conditions = status.get("conditions") or []
    if any(condition.get("type") == "Ready" for condition in conditions):
        return node
    return {**node, "status": {**status, "conditions": [*conditions, {"type": "Ready", "status": "True"}]}}


def _latest_ms(items: Iterable[Json]) -> int:
    """Return when the youngest object was created."""
    return max((parse_time_ms(one["metadata"].get("creationTimestamp")) for one in items), default=0)


def _arrival(time_ms: int, begin_ms: int, pod: SimulatedPod) -> RecordedPod:
    """Return a pod as it was created: on no node, with an empty status. Raises ObjectError."""
    metadata = dict(pod.item["metadata"])
    until_ms = parse_time_ms(metadata.pop("deletionTimestamp", None))
    if until_ms and until_ms < time_ms:
        raise ObjectFileError(f"Pod {'/'.join(pod.key)}: it was deleted before it was created")
    for field in ("deletionGracePeriodSeconds", "resourceVersion", "selfLink", "managedFields"):
        metadata.pop(field, None)
    spec = {name: value for name, value in pod.spec.items() if name != "nodeName"}
    item = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    return RecordedPod((time_ms - begin_ms) / 1000, item, (until_ms - begin_ms) / 1000 if until_ms else None)
