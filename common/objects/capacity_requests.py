"""ProvisioningRequests with the pods of their PodTemplates, as rows of the snapshot.

Decides what a request's pods look like, and what its conditions say; never whether there is room. A request that cannot
be used is passed on with its problem, which names object and field: one bad object does not stop the others. Source:
kubernetes/autoscaler, cluster-autoscaler/apis, autoscaling.x-k8s.io/v1, ProvisioningRequest; its FAQ on the parameters.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from trimtab.common.kubernetes.kinds.controllers import PodTemplate
from trimtab.common.kubernetes.kinds.policies import (
    ObjectCondition,
    ProvisioningPodSet,
    ProvisioningRequest,
    ProvisioningRequestSpec,
)
from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.objects.admission import pod_of_template
from trimtab.common.objects.devices.pod_claims import NO_CLAIMS, ClaimObjects
from trimtab.common.objects.dictionary import Dictionary
from trimtab.common.objects.objects import by_key, key_of
from trimtab.common.objects.pod_rows import claimant_of, pod_row
from trimtab.common.objects.pod_specs import PodSpecTable, PriorityClasses
from trimtab.common.objects.times import timestamp, unix_s
from trimtab.v1 import snapshot_pb2 as pb

MOST_PODS: Final = 100_000
"""Most pods of a set that a snapshot may have."""
MOST_SETS: Final = 32
_FOLLOWS: Final = "until then, no room is sought for it"


def capacity_requests(
    objects: Mapping[str, Sequence[Any]], priorities: PriorityClasses, claim_objects: ClaimObjects = NO_CLAIMS
) -> pb.CapacityRequests | None:
    """Return the ProvisioningRequests of all classes, by namespace and name; None if there are none. objects : by
    kind."""
    requests: Sequence[ProvisioningRequest] = objects.get("ProvisioningRequest", ())
    if not requests:
        return None
    dictionary = Dictionary()
    specs = PodSpecTable(dictionary, priorities, claim_objects)
    reader = _RequestReader(objects.get("PodTemplate", ()), specs)
    rows = [reader.row(request) for request in requests]
    rows.sort(key=lambda row: (row.namespace, row.name))
    return pb.CapacityRequests(dictionary=dictionary.of_pods(), requests=rows)


class _RequestReader:
    """Reads requests; specs and labels go into one dictionary."""

    def __init__(self, templates: Iterable[PodTemplate], specs: PodSpecTable) -> None:
        self._templates = by_key(templates)
        self._specs, self._dictionary = specs, specs.dictionary

    def row(self, request: ProvisioningRequest) -> pb.CapacityRequest:
        """Return the row of a request, with its problem if it has one."""
        namespace, name = key_of(request)
        spec, meta = request.spec or ProvisioningRequestSpec(), request.metadata
        row = pb.CapacityRequest(
            namespace=namespace,
            name=name,
            uid=(meta and meta.uid) or "",
            create_time=timestamp(meta.creation_timestamp) if meta else None,
            class_name=spec.provisioning_class_name or "-",
        )
        _add_conditions(row, (request.status and request.status.conditions) or ())
        problems = []
        try:
            _add_parameters(row, spec.parameters or {})
        except FieldError as error:
            problems.append(str(error))
        try:
            row.pod_sets.extend(self._pod_sets(spec.pod_sets or (), namespace))
        except FieldError as error:
            problems.append(str(error))
        if problems:
            del row.pod_sets[:]
            row.problem = f"ProvisioningRequest {namespace}/{name}: {'; '.join(problems)}; {_FOLLOWS}"
        return row

    def _pod_sets(self, sets: Sequence[ProvisioningPodSet], namespace: str) -> list[pb.CapacityPodSet]:
        if not 1 <= len(sets) <= MOST_SETS:
            raise FieldError("spec.podSets", f"there are {len(sets)} sets", f"give 1 to {MOST_SETS}")
        return [self._pod_set(at, one, namespace) for at, one in enumerate(sets)]

    def _pod_set(self, at: int, pod_set: ProvisioningPodSet, namespace: str) -> pb.CapacityPodSet:
        field, count = f"spec.podSets[{at}]", pod_set.count if pod_set.count is not None else 0
        if not 1 <= count <= MOST_PODS:
            raise FieldError(f"{field}.count", f"{count} is not a number of pods", f"give 1 to {MOST_PODS}")
        name = (pod_set.pod_template_ref and pod_set.pod_template_ref.name) or ""
        template = self._templates.get((namespace, name))
        where = f"{field}.podTemplateRef.name"
        if template is None:
            raise FieldError(where, f"there is no PodTemplate {namespace}/{name}", "create it")
        if template.template is None:
            raise FieldError(where, f"PodTemplate {namespace}/{name} has no template", "give it one")
        try:
            pod = pod_row(pod_of_template(template.template, namespace, "requested"))
            spec = self._specs.index(pod.spec_key, pod.pod, pod.mounts, f"{namespace}/{name}", claimant_of(pod))
        except FieldError as error:
            raise FieldError(
                where, f"PodTemplate {namespace}/{name} cannot be read: template.{error}", "correct it"
            ) from None
        return pb.CapacityPodSet(spec=spec, label_set=self._dictionary.label_pairs(pod.labels), count=count)


def _add_conditions(row: pb.CapacityRequest, conditions: Iterable[ObjectCondition]) -> None:
    """Note which conditions are true. One without a time counts as old, but as there."""
    is_true = {condition.type: condition for condition in conditions if condition.status == "True"}
    if "Provisioned" in is_true:
        row.provision_time.seconds = max(unix_s(is_true["Provisioned"].last_transition_time), 1)
    row.failed = "Failed" in is_true
    row.booking_expired = "BookingExpired" in is_true
    row.capacity_revoked = "CapacityRevoked" in is_true


def _add_parameters(row: pb.CapacityRequest, parameters: Mapping[str, str]) -> None:
    """Read the parameters that are known; all others are for other controllers. Raises FieldError."""
    row.no_retry = parameters.get("noRetry") == "true"
    row.processor_instance = parameters.get("processorInstance", "")
    seconds = parameters.get("ValidUntilSeconds")
    if seconds is None:
        return
    if not (seconds.isascii() and seconds.isdigit()) or not 0 < int(seconds[:12]) < 2**31:
        raise FieldError(
            "spec.parameters.ValidUntilSeconds", f"{seconds!r} is not a number of seconds", "give 1 to 2147483647"
        )
    row.max_seek_time.seconds = int(seconds)
