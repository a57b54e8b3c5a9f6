"""The resource requests of the pods in a request, with each distinct pod parsed once. The autoscaler sends the same
pod, in the same encoding, with every option that serves it, and often repeats all pods of one option in the next; pods
of one workload differ only in their metadata and the names of their volumes. What a pod requests is defined in
`trimtab.common.objects`. An unreadable pod counts as one without requests.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from trimtab.common.kubernetes.kinds.pods import Container, PodSpec, Resources
from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.pod_requests import pod_requests
from trimtab.k8s.v1 import core_pb2, meta_pb2
from trimtab.planner.model.execution import RequestLimits
from trimtab.planner.snapshot.checks import MAX_AMOUNT

_NOTHING = b""
_MOST_ALIKE: Final = 4
"""Most earlier options that an option is compared with: bounds the work for options that only look alike."""

_Ends = tuple[int, bytes, bytes]


class PodReader:
    """Reads the pods of one request, within its limits.

    shapes : requests of pods, amounts by resource name, milli-cores of cpu, base units of the rest; shape_of : the
    shape of each distinct pod, in order of appearance.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self.shapes: list[dict[str, int]] = []
        self.shape_of: list[int] = []
        self.unreadable = 0
        """Distinct pods that could not be read."""
        self._number: dict[bytes, int] = {}
        self._shape_of_content: dict[bytes, int] = {}
        self._read: dict[_Ends, list[tuple[Sequence[bytes], NDArray[np.int64]]]] = {}

    def read_all(self, pods: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the number of each encoded pod, equal for equal encodings. int64[M], read-only. pods : field of a
        message, unchanged as long as the reader is used. Two such fields are compared without creating an object for
        each pod.
        """
        self._limits.check()
        if not pods:
            return np.zeros(0, np.int64)
        alike = self._read.setdefault((len(pods), pods[0], pods[-1]), [])
        for earlier, numbers in alike:
            if earlier == pods:
                return numbers
        numbers = self._numbers(list(pods))
        if len(alike) < _MOST_ALIKE:
            alike.append((pods, numbers))
        return numbers

    def _numbers(self, raws: list[bytes]) -> NDArray[np.int64]:
        self._limits.reserve(sum(map(len, raws)), "the pods of an option")
        numbers = list(map(self._number.get, raws))
        if None in numbers:
            for raw in raws:
                if raw not in self._number:
                    self._number[raw] = len(self.shape_of)
                    self.shape_of.append(self._shape(raw))
            numbers = list(map(self._number.get, raws))
        found = np.array(numbers, np.int64)
        found.flags.writeable = False
        return found

    def _shape(self, raw: bytes) -> int:
        try:
            spec = core_pb2.RawPod.FromString(raw).spec
            content = _content(spec)
            known = self._shape_of_content.get(content)
            return self._add(content, bounded(pod_requests(_struct(spec)))) if known is None else known
        except (DecodeError, FieldError):
            self.unreadable += 1
            known = self._shape_of_content.get(_NOTHING)
            return self._add(_NOTHING, {}) if known is None else known

    def _add(self, content: bytes, requests: dict[str, int]) -> int:
        self._shape_of_content[content] = len(self.shapes)
        self.shapes.append(requests)
        return len(self.shapes) - 1


def bounded(requests: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return amounts within those that a snapshot may hold, so that sums and products stay within int64."""
    return {resource: min(max(amount, 0), MAX_AMOUNT) for resource, amount in requests}


def _content(spec: core_pb2.RawPodSpec) -> bytes:
    """Return the encoded fields that determine a pod's requests."""
    kept = core_pb2.RawPodSpec(overhead=spec.overhead)
    kept.containers.extend(map(_resources_of, spec.containers))
    kept.init_containers.extend(map(_resources_of, spec.init_containers))
    if spec.HasField("resources"):
        kept.resources.CopyFrom(spec.resources)
    return kept.SerializeToString()


def _resources_of(container: core_pb2.Container) -> core_pb2.Container:
    restart = container.restart_policy if container.HasField("restart_policy") else None
    return core_pb2.Container(resources=container.resources, restart_policy=restart)


def _struct(spec: core_pb2.RawPodSpec) -> PodSpec:
    return PodSpec(
        containers=[_container(one) for one in spec.containers],
        init_containers=[_container(one) for one in spec.init_containers],
        resources=_resources(spec.resources) if spec.HasField("resources") else None,
        overhead=_quantities(spec.overhead),
    )


def _container(container: core_pb2.Container) -> Container:
    return Container(resources=_resources(container.resources), restart_policy=container.restart_policy or None)


def _resources(resources: core_pb2.ResourceRequirements) -> Resources:
    return Resources(requests=_quantities(resources.requests), limits=_quantities(resources.limits))


def _quantities(entries: Iterable[meta_pb2.QuantityEntry]) -> dict[str, str | int | float]:
    return {entry.key: entry.value.string for entry in entries}
