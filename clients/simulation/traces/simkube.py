"""Traces that SimKube's tracer exports: a msgpack map, version 2, or the same as JSON.

A trace has events (`ts`, Unix seconds; `applied_objs`; `deleted_objs`), and by owner the lifecycles of its pods: Empty,
Running since, or Finished from, to. Deployments and ReplicaSets become ReplicaSets, StatefulSets and DaemonSets stay
what they are. Jobs, CronJobs and other kinds become pods at the times of their lifecycles; a Job without lifecycles has
its pods from its creation on. Pods without owner come and go by themselves. Only what scheduling reads of a pod's spec
is kept; claims of volumes are not, since a trace does not contain volumes. A changed template is that of later pods: no
update is rolled out. Raises ScenarioError.
Source: acrlabs/simkube, docs/ref/trace-files.md, sk-core/src/trace and sk-core/src/k8s (GVK, PodLifecycleData).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from trimtab.clients.simulation.cluster.objects import made_uid
from trimtab.clients.simulation.objects import job, kubernetes_object
from trimtab.clients.simulation.scenario_values import ScenarioError, check_pod_spec
from trimtab.clients.simulation.traces.arrivals import TracedController, TracedObjects, TracedPod, TracedSize
from trimtab.common.documents.bounded_input import DamagedInputError, InputSizeError, read_bounded

Json = dict[str, Any]
VERSION: Final = 2
"""The one version of SimKube's format that is read."""
SUFFIX: Final = ".sktrace"
LATEST_TS: Final = 8_000_000_000
"""Latest time of an event: later ones are no seconds."""
MOST_REPLICAS: Final = 1_000_000
_TEMPLATE_PATHS: Final = {
    "CronJob": ("/spec/jobTemplate/spec/template",),
    "DaemonSet": ("/spec/template",),
    "Deployment": ("/spec/template",),
    "Job": ("/spec/template",),
    "ReplicaSet": ("/spec/template",),
    "StatefulSet": ("/spec/template",),
}
"""Where objects of well-known kinds have the templates of their pods."""
_SIZED: Final = {"Deployment": "ReplicaSet", "ReplicaSet": "ReplicaSet", "StatefulSet": "StatefulSet"}
_READ: Final = (
    *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "priority", "preemptionPolicy"),
    *("overhead", "terminationGracePeriodSeconds", "hostNetwork", "resources"),
)
_READ_OF_CONTAINERS: Final = ("name", "resources", "ports", "restartPolicy")
_KEPT_VOLUMES: Final = ("emptyDir", "hostPath")
"""Volumes that matter for draining a node."""


class _Applied(NamedTuple):
    """An object as an event applied it. where : for messages; path : of the file, too."""

    at_s: float
    item: Json
    where: str

    @property
    def key(self) -> tuple[str, str]:
        """Kind with group and version, and namespace/name, as lifecycles name an owner."""
        metadata = self.item["metadata"]
        return f"{self.item['apiVersion']}.{self.item['kind']}", f"{metadata['namespace']}/{metadata['name']}"


def is_simkube(path: Path) -> bool:
    """Return whether a file is a trace of SimKube, by its name or the first bytes of its content."""
    if path.suffix == SUFFIX:
        return True
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError:
        return False
    # A msgpack map of five fields, the first of which is the version.
    return (head[:1] == b"\x85" and b"version" in head) or (head.lstrip()[:1] == b"{" and b'"trackedObjects"' in head)


def read_simkube(path: Path) -> TracedObjects:
    """Read a trace of SimKube."""
    document = _document(path)
    reader = _TraceReader(path, document)
    return reader.read()


def _document(path: Path) -> Json:
    try:
        with path.open("rb") as file:
            data = read_bounded(file)
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except (InputSizeError, DamagedInputError) as error:
        raise ScenarioError(f"{path}: {error}") from None
    try:
        decode = msgspec.json.decode if data.lstrip()[:1] == b"{" else msgspec.msgpack.decode
        document: Any = decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ScenarioError(f"{path}: this is no trace of SimKube: {error}") from None
    if not isinstance(document, dict) or not {"version", "events"} <= document.keys():
        raise ScenarioError(f"{path}: this is no trace of SimKube: it has no version and events")
    if document["version"] != VERSION:
        found = document["version"]
        raise ScenarioError(f"{path}: version: {found!r} is not read; this trimtab reads version {VERSION}")
    return document


class _TraceReader:
    """Reads one trace."""

    def __init__(self, path: Path, document: Json) -> None:
        self._path, self._document = path, document
        self._notes: Counter[str] = Counter()
        self._sizes: dict[tuple[str, str], list[TracedSize]] = {}
        self._controllers: dict[tuple[str, str], Json] = {}
        self._pods: list[TracedPod] = []
        self._begin_s = 0.0

    def read(self) -> TracedObjects:
        """Return the trace."""
        events = self._document["events"]
        if not isinstance(events, list) or not events:
            raise ScenarioError(f"{self._path}: events: there are none")
        times = [self._time(number, event) for number, event in enumerate(events)]
        self._begin_s = times[0]
        lifecycles = dict(self._lifecycles())
        gone: dict[tuple[str, str], float] = {}
        for number, event in enumerate(events):
            gone.update((one.key, one.at_s) for one in self._objects(number, event, "deleted_objs"))
        for number, event in enumerate(events):
            for one in self._objects(number, event, "applied_objs"):
                self._apply(one, lifecycles.get(one.key), gone.get(one.key))
            for one in self._objects(number, event, "deleted_objs"):
                self._delete(one)
        controllers = tuple(TracedController(item, tuple(self._sizes[key])) for key, item in self._controllers.items())
        pods = sorted(self._pods, key=lambda one: (one.at_s, one.item["metadata"]["name"]))
        ends = [one.at_s + (one.lifetime_s or 0.0) for one in pods]
        length_s = max([times[-1] - self._begin_s, *ends])
        notes = tuple(f"{text}: {count}" for text, count in sorted(self._notes.items()))
        return TracedObjects(self._begin_s, length_s, controllers, tuple(pods), notes)

    def _time(self, number: int, event: object) -> float:
        ts = event.get("ts") if isinstance(event, dict) else None
        if isinstance(ts, bool) or not isinstance(ts, int) or not 0 <= ts <= LATEST_TS:
            raise ScenarioError(f"{self._path}: events[{number}].ts: {ts!r} is no time in Unix seconds")
        before = self._document["events"][number - 1]["ts"] if number else 0
        if ts < before:
            raise ScenarioError(f"{self._path}: events[{number}].ts: {ts} is before that of the event above, {before}")
        return float(ts)

    def _objects(self, number: int, event: Json, field: str) -> Iterator[_Applied]:
        items = event.get(field)
        if not isinstance(items, list):
            raise ScenarioError(f"{self._path}: events[{number}].{field}: a list of objects is expected")
        for index, item in enumerate(items):
            where = f"{self._path}: events[{number}].{field}[{index}]"
            metadata = item.get("metadata") if isinstance(item, dict) else None
            texts = (item.get("apiVersion"), item.get("kind")) if isinstance(item, dict) else (None,)
            if not isinstance(metadata, dict) or not all(isinstance(one, str) and one for one in texts):
                raise ScenarioError(f"{where}: apiVersion, kind and metadata are expected")
            if not isinstance(metadata.get("name"), str) or not metadata["name"]:
                raise ScenarioError(f"{where}.metadata.name: it is missing")
            placed = {**metadata, "namespace": metadata.get("namespace") or "default"}
            yield _Applied(event["ts"] - self._begin_s, {**item, "metadata": placed}, where)

    def _lifecycles(self) -> Iterator[tuple[tuple[str, str], list[tuple[float, float | None]]]]:
        """Yield for each owner when its pods ran: from, to in seconds since the beginning, None = to the end."""
        found = self._document.get("pod_lifecycles") or {}
        if not isinstance(found, dict):
            raise ScenarioError(f"{self._path}: pod_lifecycles: a map is expected")
        for key, by_hash in found.items():
            where = f"{self._path}: pod_lifecycles[{key!r}]"
            if not isinstance(key, tuple) or len(key) != 2 or not isinstance(by_hash, dict):
                raise ScenarioError(f"{where}: the key is no pair of kind and name, or the value no map")
            runs = [self._run(where, pod) for pods in by_hash.values() for pod in pods]
            yield (str(key[0]).lstrip("/"), str(key[1])), sorted(run for run in runs if run is not None)

    def _run(self, where: str, one: object) -> tuple[float, float | None] | None:
        match one:
            case "Empty" | {"Empty": _}:
                return None
            case {"Running": int(start)}:
                return max(0.0, start - self._begin_s), None
            case {"Finished": [int(start), int(end)]} if end >= start:
                return max(0.0, start - self._begin_s), max(0.0, end - self._begin_s)
        raise ScenarioError(f"{where}: {one!r} is neither Empty, nor Running: START, nor Finished: [START, END]")

    def _apply(self, applied: _Applied, runs: list[tuple[float, float | None]] | None, gone_s: float | None) -> None:
        kind = applied.item["kind"]
        if kind == "Pod":
            self._add_pod(applied, runs, gone_s)
        elif kind in _SIZED or kind == "DaemonSet":
            self._resize(applied)
        elif not any(key == applied.key for key in self._controllers):
            self._run_pods(applied, runs, gone_s)

    def _resize(self, applied: _Applied) -> None:
        """Add a controller, or change its size."""
        kind, spec = applied.item["kind"], applied.item.get("spec") or {}
        metadata = applied.item["metadata"]
        template = self._template(applied, _TEMPLATE_PATHS[kind][0])
        replicas = 1 if kind == "DaemonSet" else spec.get("replicas", 1)
        if isinstance(replicas, bool) or not isinstance(replicas, int) or not 0 <= replicas <= MOST_REPLICAS:
            raise ScenarioError(f"{applied.where}.spec.replicas: {replicas!r} is no number of pods")
        if applied.key not in self._controllers:
            made, namespace = _SIZED.get(kind, str(kind)), metadata["namespace"]
            selector = spec.get("selector") or {"matchLabels": template["metadata"]["labels"]}
            of_kind: Json = {"selector": selector, "template": template}
            of_kind |= {} if kind == "DaemonSet" else {"replicas": 0}
            item = kubernetes_object("apps/v1", made, namespace, metadata["name"], of_kind)
            self._controllers[applied.key] = item
            self._sizes[applied.key] = []
        self._sizes[applied.key].append(TracedSize(applied.at_s, replicas, template))

    def _delete(self, applied: _Applied) -> None:
        """Remove a controller; pods and jobs know already when they go."""
        sizes = self._sizes.get(applied.key)
        if sizes:
            sizes.append(TracedSize(applied.at_s, 0, sizes[-1].template))

    def _add_pod(self, applied: _Applied, runs: list[tuple[float, float | None]] | None, gone_s: float | None) -> None:
        """Add a pod without owner, which no controller creates again."""
        metadata = applied.item["metadata"]
        name = {key: metadata[key] for key in ("name", "namespace")}
        name |= {"labels": metadata.get("labels") or {}, "uid": made_uid("/".join(applied.key), 0)}
        spec = self._spec(applied.item.get("spec"), f"{applied.where}.spec")
        item = {"apiVersion": "v1", "kind": "Pod", "metadata": name, "spec": spec, "status": {"phase": "Pending"}}
        start_s, end_s = runs[0] if runs else (applied.at_s, None)
        lifetime_s = None if end_s is None else end_s - start_s
        self._pods.append(TracedPod(applied.at_s, item, lifetime_s, until_s=gone_s))

    def _run_pods(self, applied: _Applied, runs: list[tuple[float, float | None]] | None, gone_s: float | None) -> None:
        """Add the pods of an object of another kind, at the times at which they ran."""
        kind = applied.item["kind"]
        tracked = (self._document.get("config") or {}).get("trackedObjects") or {}
        given = (tracked.get(applied.key[0]) or {}).get("podSpecTemplatePaths")
        paths = given or _TEMPLATE_PATHS.get(kind) or ()
        templates = [template for path in paths for template in self._templates(applied, path)]
        if not templates or (not runs and kind != "Job"):
            why = "objects without a pod template" if not templates else "objects without lifecycles of pods"
            self._notes[f"{why} ({applied.key[0]}), left out"] += 1
            return
        if not runs:
            runs = [(applied.at_s, gone_s)] * int((applied.item.get("spec") or {}).get("parallelism") or 1)
        metadata = applied.item["metadata"]
        for number, (start_s, end_s) in enumerate(runs):
            template = templates[number % len(templates)]
            item = job(metadata["namespace"], f"{metadata['name']}-{len(self._pods)}", template, 1)
            lifetime_s = None if end_s is None else end_s - start_s
            self._pods.append(TracedPod(start_s, item, lifetime_s, is_replaced=True))

    def _template(self, applied: _Applied, path: str) -> Json:
        templates = list(self._templates(applied, path))
        if not templates:
            raise ScenarioError(f"{applied.where}{path.replace('/', '.')}: it is missing")
        return templates[0]

    def _templates(self, applied: _Applied, path: str) -> Iterator[Json]:
        """Yield the pod templates at a JSON pointer, in which "*" is every element of a list."""
        places: list[Any] = [applied.item]
        for part in path.split("/")[1:]:
            places = [inner for place in places for inner in _inner(place, part)]
        where = f"{applied.where}{path.replace('/', '.')}"
        for place in places:
            metadata = place.get("metadata") if isinstance(place, dict) else None
            labels = metadata.get("labels") if isinstance(metadata, dict) else None
            if isinstance(place, dict):
                yield {"metadata": {"labels": labels or {}}, "spec": self._spec(place.get("spec"), f"{where}.spec")}

    def _spec(self, spec: object, where: str) -> Json:
        """Return what scheduling reads of a pod's spec."""
        if not isinstance(spec, dict):
            raise ScenarioError(f"{where}: an object is expected")
        read: Json = {name: spec[name] for name in _READ if spec.get(name) is not None}
        for field in ("containers", "initContainers"):
            containers = spec.get(field) or []
            if not isinstance(containers, list) or not all(isinstance(one, dict) for one in containers):
                raise ScenarioError(f"{where}.{field}: a list of containers is expected")
            if containers:
                read[field] = [{key: one[key] for key in _READ_OF_CONTAINERS if key in one} for one in containers]
        volumes = [one for one in spec.get("volumes") or () if isinstance(one, dict)]
        kept = [one for one in volumes if any(kind in one for kind in _KEPT_VOLUMES)]
        if any("persistentVolumeClaim" in one for one in volumes):
            self._notes["pod templates with claims of volumes, which are left out"] += 1
        read |= {"volumes": kept} if kept else {}
        try:
            return check_pod_spec(read)
        except ValueError as error:
            raise ScenarioError(f"{where}.{error}") from None


def _inner(place: Any, part: str) -> list[Any]:
    if part == "*":
        return place if isinstance(place, list) else []
    if isinstance(place, Mapping):
        return [place[part]] if part in place else []
    return [place[int(part)]] if isinstance(place, list) and part.isdecimal() and int(part) < len(place) else []
