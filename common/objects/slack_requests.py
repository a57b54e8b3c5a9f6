"""Workloads with the annotation `trimtab.dev/slack`, and CapacityBuffers, as the snapshot's requests for slack. Decides
which objects request slack and what their pods look like; never how much slack that is. An annotation that controllers
copy from one object to the next counts for the topmost object only. An unusable request is passed on with its problem:
one bad object does not stop the others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from trimtab.common.kubernetes.kinds.controllers import PodTemplateSpec
from trimtab.common.kubernetes.kinds.pods import Pod
from trimtab.common.kubernetes.kinds.policies import CapacityBuffer, CapacityBufferSpec
from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.pod_requests import amounts
from trimtab.common.kubernetes.quantities import MILLI, NANO
from trimtab.common.kubernetes.signals import cluster_autoscaler, ours
from trimtab.common.objects.admission import pod_of_template
from trimtab.common.objects.devices.pod_claims import NO_CLAIMS, ClaimObjects
from trimtab.common.objects.dictionary import Dictionary
from trimtab.common.objects.objects import key_of
from trimtab.common.objects.owners import WORKLOADS, controller_of, replicas
from trimtab.common.objects.pod_rows import PodRow, pod_row, slack_of, successor_of
from trimtab.common.objects.pod_specs import PodSpecTable, PriorityClasses
from trimtab.common.objects.slack_annotation import slack_annotation
from trimtab.v1 import snapshot_pb2 as pb

TOGETHER: Final = ours.SLACK_TOGETHER.key
"""Annotation of workloads and CapacityBuffers whose room is for all their pods or none."""
TOPOLOGY_KEY: Final = ours.SLACK_TOPOLOGY_KEY.key
"""Label of which the nodes of such room have the same value."""
ACTIVE: Final = cluster_autoscaler.ACTIVE_CAPACITY.key
"""The strategy of CapacityBuffers that are served; it is the default."""
_MOST: Final = 2**31 - 1
Sorted = Mapping[str, Sequence[Any]]


def slack_requests(
    objects: Sorted,
    priorities: PriorityClasses,
    rows: Iterable[PodRow] = (),
    claim_objects: ClaimObjects = NO_CLAIMS,
) -> pb.SlackRequests | None:
    """Return the requests of all objects, by kind and sorted by name; None if there are none.

    rows : pods that are known as rows, sorted by namespace and name.
    """
    dictionary = Dictionary()
    specs = PodSpecTable(dictionary, priorities, claim_objects)
    reader = _SlackReader(objects, specs, [row for row in rows if slack_of(row) is not None])
    found = {row.object: row for row in reader.buffers()}
    for row in (*reader.workloads(), *reader.pods()):
        found.setdefault(row.object, row)
    if not found:
        return None
    return pb.SlackRequests(dictionary=dictionary.of_pods(), requests=[found[key] for key in sorted(found)])


class _SlackReader:
    """Reads one collection of objects; specs and labels go into one dictionary."""

    def __init__(self, objects: Sorted, specs: PodSpecTable, rows: Sequence[PodRow]) -> None:
        self._objects, self._rows = objects, rows
        self._specs, self._dictionary = specs, specs.dictionary
        self._by_key = {(kind, *key_of(one)): one for kind in WORKLOADS for one in objects.get(kind, ())}

    def workloads(self) -> Iterator[pb.SlackRequest]:
        """Yield the requests of annotated workloads that no other workload owns."""
        for (kind, namespace, name), one in self._by_key.items():
            amount = slack_annotation(one)
            if amount is None or self._is_owned(one, namespace):
                continue
            row = pb.SlackRequest(object=f"{kind}/{namespace}/{name}", amount=amount)
            wanted = replicas(one)[0]
            if wanted is not None and 0 <= wanted <= _MOST:
                row.scale = wanted
            try:
                self._add_gang(row, one)
                yield self._with_template(row, one.spec.template if one.spec else None, namespace)
            except FieldError as error:
                yield pb.SlackRequest(object=row.object, problem=str(error))

    def pods(self) -> Iterator[pb.SlackRequest]:
        """Yield the requests of annotated pods; the pods of one workload give one request, for the workload."""
        seen: set[str] = set()
        for pod in self._objects.get("Pod", ()):
            annotations = pod.metadata.annotations
            if annotations is None or annotations.slack is None:
                continue
            row = self._of_pod(annotations.slack, pod, key_of(pod)[1], seen)
            if row is not None:
                yield self._with_pod(row, pod, key_of(pod)[0])
        for known in self._rows:
            row = self._of_pod(slack_of(known), known.pod, known.name, seen)
            if row is not None:
                yield self._with_content(row, known, known.namespace)

    def _of_pod(self, amount: str | None, pod: Pod, own_name: str, seen: set[str]) -> pb.SlackRequest | None:
        """Return a pod's request; None = it has none, or another pod or its workload makes the same request."""
        if amount is None:
            return None
        kind, namespace, name, scale = self._owner_of(pod, own_name)
        key = f"{kind}/{namespace}/{name}"
        above = self._by_key.get((kind, namespace, name))
        if key in seen or (above is not None and slack_annotation(above) is not None):
            return None
        seen.add(key)
        row = pb.SlackRequest(object=key, amount=amount)
        if scale is not None and 0 <= scale <= _MOST:
            row.scale = scale
        return row

    def buffers(self) -> Iterator[pb.SlackRequest]:
        """Yield the requests of CapacityBuffers."""
        for buffer in self._objects.get("CapacityBuffer", ()):
            namespace, name = key_of(buffer)
            row = pb.SlackRequest(object=f"CapacityBuffer/{namespace}/{name}")
            try:
                yield self._buffer(row, buffer, namespace)
            except FieldError as error:
                yield pb.SlackRequest(object=row.object, problem=str(error))

    def _buffer(self, row: pb.SlackRequest, buffer: CapacityBuffer, namespace: str) -> pb.SlackRequest:
        spec = buffer.spec or CapacityBufferSpec()
        strategy = spec.provisioning_strategy or ACTIVE
        if strategy != ACTIVE:
            raise FieldError("spec.provisioningStrategy", f"{strategy!r} is not served", f"use {ACTIVE}")
        for field, count in (("replicas", spec.replicas), ("percentage", spec.percentage)):
            if count is not None and not 0 <= count <= _MOST:
                raise FieldError(f"spec.{field}", f"{count} is not a count", "give a number of at least 0")
            if count is not None:
                setattr(row, field, count)
        for resource, amount in sorted(amounts(spec.limits).items()):
            # Rounded down: a limit is not to be exceeded.
            whole = amount // (MILLI if resource == "cpu" else NANO)
            row.limits.add(resource=self._dictionary.resource(resource), amount=min(whole, 2**53))
        self._add_gang(row, buffer)
        if (spec.pod_template_ref is None) == (spec.scalable_ref is None):
            raise FieldError("spec", "it needs either podTemplateRef or scalableRef", "give one of the two")
        if spec.scalable_ref is not None:
            return self._scaled(row, spec, namespace)
        wanted = (spec.pod_template_ref and spec.pod_template_ref.name) or ""
        for one in self._objects.get("PodTemplate", ()):
            if key_of(one) == (namespace, wanted):
                return self._with_template(row, one.template, namespace)
        raise FieldError("spec.podTemplateRef", f"there is no PodTemplate {namespace}/{wanted}", "create it")

    def _scaled(self, row: pb.SlackRequest, spec: CapacityBufferSpec, namespace: str) -> pb.SlackRequest:
        reference = spec.scalable_ref
        kind, name = (reference and reference.kind) or "", (reference and reference.name) or ""
        if kind not in WORKLOADS:
            raise FieldError("spec.scalableRef.kind", f"{kind!r} is not served", f"use one of {', '.join(WORKLOADS)}")
        one = self._by_key.get((kind, namespace, name))
        if one is None:
            raise FieldError("spec.scalableRef", f"there is no {kind} {namespace}/{name}", "create it")
        wanted = replicas(one)[0]
        if wanted is not None and 0 <= wanted <= _MOST:
            row.scale = wanted
        return self._with_template(row, one.spec.template if one.spec else None, namespace)

    def _with_template(self, row: pb.SlackRequest, template: PodTemplateSpec | None, namespace: str) -> pb.SlackRequest:
        """Complete a request with the pod of a template."""
        if template is None:
            return pb.SlackRequest(object=row.object, problem="it has no pod template")
        return self._with_pod(row, pod_of_template(template, namespace, "placeholder"), namespace)

    def _with_pod(self, row: pb.SlackRequest, pod: Pod, namespace: str) -> pb.SlackRequest:
        try:
            return self._with_content(row, pod_row(pod), namespace)
        except FieldError as error:
            return pb.SlackRequest(object=row.object, problem=f"its pods cannot be read: {error}")

    def _with_content(self, row: pb.SlackRequest, content: PodRow, namespace: str) -> pb.SlackRequest:
        claimant = successor_of(content)
        row.spec = self._specs.index(content.spec_key, content.pod, content.mounts, row.object, claimant)
        row.namespace = namespace
        row.label_set = self._dictionary.label_pairs(content.labels)
        return row

    def _add_gang(self, row: pb.SlackRequest, one: Any) -> None:
        """Add whether an object asks for room for all its pods or none, and in which domains."""
        annotations: Mapping[str, str] = (one.metadata and one.metadata.annotations) or {}
        together, key = annotations.get(TOGETHER, "false"), annotations.get(TOPOLOGY_KEY, "")
        if together not in ("true", "false"):
            raise FieldError(f"metadata.annotations, {TOGETHER}", f"{together!r} is not a boolean", 'use "true"')
        if key and together != "true":
            raise FieldError(f"metadata.annotations, {TOPOLOGY_KEY}", f"it needs {TOGETHER}", 'set that to "true"')
        row.is_gang = together == "true"
        row.topology_key = self._dictionary.string(key)

    def _is_owned(self, one: Any, namespace: str) -> bool:
        """Return whether another known workload owns it, whose request then counts for both. Deployments copy their
        annotations to their ReplicaSets, and never remove them there.
        """
        owner = controller_of(one.metadata.owner_references)
        return owner is not None and (owner.kind or "", namespace, owner.name or "") in self._by_key

    def _owner_of(self, pod: Pod, name: str) -> tuple[str, str, str, int | None]:
        """Return kind, namespace, name and number of pods of the topmost known controller of a pod, or of the pod."""
        namespace = key_of(pod)[0]
        owner = controller_of(pod.metadata.owner_references if pod.metadata else None)
        if owner is None:
            return "Pod", namespace, name, 1
        kind, name, one = owner.kind or "", owner.name or "", None
        while owner is not None:
            kind, name = owner.kind or "", owner.name or ""
            one = self._by_key.get((kind, namespace, name))
            owner = controller_of(one.metadata.owner_references) if one is not None else None
        return kind, namespace, name, replicas(one)[0] if one is not None else None
