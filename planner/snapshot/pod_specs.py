"""The dictionaries of pod specs and volumes as values with their strings resolved.

Decides the canonical form of a spec: sets are sorted and without duplicates; terms and requirements keep their order.
Cost: about 10 us per distinct spec. Raises SnapshotError. Source: `protos/trimtab/v1/snapshot.proto`.

Requests for slack and ProvisioningRequests have dictionaries of their own, which are resolved; they are ordered by
object, and by namespace and name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from trimtab.planner.model.values import (
    AffinityTerm,
    CapacityPodSet,
    CapacityRequest,
    HostPort,
    MountedVolume,
    PodClaim,
    PodRequirements,
    SlackRequest,
    SpreadConstraint,
    TolerationSpec,
    WeightedAffinityTerm,
)
from trimtab.planner.snapshot.checks import Row, SnapshotError, check_unique
from trimtab.planner.snapshot.columns import LabelSets
from trimtab.planner.snapshot.device_values import read_extended_requests, read_pod_claims
from trimtab.planner.snapshot.dictionaries import read_label_sets, read_resources, read_strings
from trimtab.planner.snapshot.rows import read_requests, read_selector, read_terms
from trimtab.v1 import snapshot_pb2 as pb

_Item = TypeVar("_Item", bound=Any)
_EFFECTS: Final = frozenset(pb.TaintEffect.Code.values())
_TOLERATION_OPERATORS: Final = frozenset(pb.TolerationOperator.Code.values())
_RESTART_POLICIES: Final = frozenset(pb.RestartPolicy.Code.values())
_SAFE_TO_EVICT: Final = frozenset(pb.SafeToEvict.Code.values())
_VOLUME_STATES: Final = frozenset(pb.VolumeState.Code.values())


_MOST_KEPT: Final = 20_000
"""Most specs that are kept as sent; a caller may send equal ones in different bytes."""


class _SpecRow(Row):
    """The current row; tolerations and claims repeat across specs, so each distinct one is read only once.
    string_count : number of the first strings of the table among which are all that were read.
    """

    __slots__ = ("claims", "string_count", "tolerations")

    def __init__(self, strings: Sequence[str]) -> None:
        super().__init__("pod_specs", strings)
        self.tolerations: dict[tuple[int, int, int, int], TolerationSpec] = {}
        self.claims: dict[tuple[bytes, ...], tuple[PodClaim, ...]] = {}
        self.string_count = 0

    def text(self, index: int, field: str) -> str:
        """Return the string of an index."""
        text = super().text(index, field)
        self.string_count = max(self.string_count, index + 1)
        return text


class SpecsAsSent(NamedTuple):
    """Specs by the bytes of their messages: specs. strings, resources : those to which the bytes refer, the first ones
    of the tables that they were sent with.
    """

    strings: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    specs: Mapping[bytes, PodRequirements] = MappingProxyType({})

    def hold_for(self, strings: Sequence[str], resources: Sequence[str]) -> bool:
        """Return whether equal bytes mean the same with other tables."""
        return (
            tuple(strings[: len(self.strings)]) == self.strings
            and tuple(resources[: len(self.resources)]) == self.resources
        )


class SpecReader:
    """Reads the specs of one message. known : specs that need not be read again, afterwards also those of this
    message; callers send most specs many times, in the same bytes. The result does not depend on it.
    """

    def __init__(self, as_sent: SpecsAsSent | None = None) -> None:
        self.known = as_sent or SpecsAsSent()

    def read(
        self, messages: Iterable[pb.PodSpec], strings: Sequence[str], resources: Sequence[str]
    ) -> list[PodRequirements]:
        """Return one value for each row, in the order of the rows."""
        as_sent = self.known if self.known.hold_for(strings, resources) else SpecsAsSent()
        row, specs, more = _SpecRow(strings), [], dict[bytes, PodRequirements]()
        for message in row.over(messages):
            sent = message.SerializeToString(deterministic=True)
            spec = as_sent.specs.get(sent) or more.get(sent)
            if spec is None:
                spec = more[sent] = _pod_spec(row, message, resources)
            specs.append(spec)
        if more or as_sent is not self.known:
            every = more if len(as_sent.specs) + len(more) > _MOST_KEPT else {**as_sent.specs, **more}
            used = max(len(as_sent.strings), row.string_count)
            self.known = SpecsAsSent(tuple(strings[:used]), tuple(resources), every)
        return specs


def read_pod_specs(
    messages: Iterable[pb.PodSpec], strings: Sequence[str], resources: Sequence[str]
) -> list[PodRequirements]:
    """Return one value for each row, in the order of the rows."""
    row = _SpecRow(strings)
    return [_pod_spec(row, message, resources) for message in row.over(messages)]


def read_volumes(messages: Iterable[pb.Volume], strings: Sequence[str]) -> list[MountedVolume]:
    """Return one value for each row, in the order of the rows."""
    row = Row("volumes", strings)
    return [_volume(row, message) for message in row.over(messages)]


def read_pairs(row: Row, messages: Iterable[pb.LabelPair], field: str) -> tuple[tuple[str, str], ...]:
    """Return labels sorted by key, each key once."""
    pairs = sorted({(row.needed_text(m.key, f"{field}.key"), row.text(m.value, f"{field}.value")) for m in messages})
    for (key, _), (following, _) in pairwise(pairs):
        if key == following:
            row.refuse(f"{field}.key", f"{key!r} has two values; give one")
    return tuple(pairs)


def _pod_spec(row: _SpecRow, m: pb.PodSpec, resources: Sequence[str]) -> PodRequirements:
    """Read the fields that are set; `PodRequirements` has the defaults of the others."""
    fields: dict[str, Any] = {}
    for field, value in m.ListFields():
        name = field.name
        read = read_requests(row, value, resources) if name == "requests" else _READ[name](row, value)
        fields[f"{name}_s" if name in _DURATIONS else name] = read
    return PodRequirements(**fields)


def _sorted(items: Sequence[_Item]) -> tuple[_Item, ...]:
    """Return a set of values in canonical order; most sets have at most one."""
    return tuple(sorted(set(items))) if len(items) > 1 else tuple(items)


def _toleration(row: _SpecRow, m: pb.Toleration) -> TolerationSpec:
    fields = m.key, m.operator, m.value, m.effect
    toleration = row.tolerations.get(fields)
    if toleration is None:
        operator = row.code(m.operator, _TOLERATION_OPERATORS, "tolerations.operator")
        toleration = row.tolerations[fields] = TolerationSpec(
            row.text(m.key, "tolerations.key"),
            operator or int(pb.TolerationOperator.EQUAL),
            row.text(m.value, "tolerations.value"),
            row.code(m.effect, _EFFECTS, "tolerations.effect"),
        )
    return toleration


def _claims(row: _SpecRow, messages: Sequence[pb.PodClaim]) -> tuple[PodClaim, ...]:
    sent = tuple([message.SerializeToString() for message in messages])
    claims = row.claims.get(sent)
    if claims is None:
        claims = row.claims[sent] = read_pod_claims(row, messages)
    return claims


def _host_port(row: Row, m: pb.HostPort) -> HostPort:
    if not 1 <= m.port <= 65535:
        row.refuse("host_ports.port", f"{m.port} is not a port; use 1 to 65535")
    protocol, address = row.text(m.protocol, "host_ports.protocol"), row.text(m.host_ip, "host_ports.host_ip")
    if protocol not in ("", "TCP", "UDP", "SCTP"):
        row.refuse("host_ports.protocol", f"{protocol!r} is unknown; use TCP, UDP or SCTP")
    return HostPort(protocol or "TCP", address or "0.0.0.0", m.port)


def _affinity_term(row: Row, m: pb.PodAffinityTerm, field: str) -> AffinityTerm:
    has_namespaces = m.HasField("namespace_selector")
    return AffinityTerm(
        read_selector(row, m.selector, f"{field}.selector") if m.HasField("selector") else None,
        tuple(sorted({row.needed_text(i, f"{field}.namespaces") for i in m.namespaces})),
        read_selector(row, m.namespace_selector, f"{field}.namespace_selector") if has_namespaces else None,
        row.needed_text(m.topology_key, f"{field}.topology_key"),
    )


def _weighted_term(row: Row, m: pb.WeightedPodAffinityTerm) -> WeightedAffinityTerm:
    field = "preferred_pod_anti_affinity"
    if not 1 <= m.weight <= 100:
        row.refuse(f"{field}.weight", f"{m.weight} is not a weight; use 1 to 100")
    return WeightedAffinityTerm(m.weight, _affinity_term(row, m.term, f"{field}.term"))


def _spread(row: Row, m: pb.TopologySpreadConstraint) -> SpreadConstraint:
    field = "topology_spread"
    return SpreadConstraint(
        row.at_least(m.max_skew, 1, f"{field}.max_skew"),
        row.needed_text(m.topology_key, f"{field}.topology_key"),
        read_selector(row, m.selector, f"{field}.selector") if m.HasField("selector") else None,
        row.at_least(m.min_domains, 1, f"{field}.min_domains") if m.HasField("min_domains") else 1,
        m.honor_node_affinity if m.HasField("honor_node_affinity") else True,
        m.honor_node_taints,
        tuple(sorted({row.needed_text(i, f"{field}.match_label_keys") for i in m.match_label_keys})),
    )


def _texts(row: Row, indices: Iterable[int], field: str) -> tuple[str, ...]:
    return _sorted([row.needed_text(index, field) for index in indices])


_READ: Final[dict[str, Callable[[_SpecRow, Any], Any]]] = {
    "node_selector": lambda row, pairs: read_pairs(row, pairs, "node_selector"),
    "node_affinity": lambda row, terms: read_terms(row, terms, "node_affinity"),
    "tolerations": lambda row, messages: _sorted([_toleration(row, message) for message in messages]),
    "host_ports": lambda row, messages: _sorted([_host_port(row, message) for message in messages]),
    "pod_affinity": lambda row, terms: tuple([_affinity_term(row, term, "pod_affinity") for term in terms]),
    "pod_anti_affinity": lambda row, terms: tuple([_affinity_term(row, term, "pod_anti_affinity") for term in terms]),
    "preferred_pod_anti_affinity": lambda row, terms: tuple([_weighted_term(row, term) for term in terms]),
    "topology_spread": lambda row, messages: tuple([_spread(row, message) for message in messages]),
    "priority": lambda _, priority: priority,
    "scheduler_name": lambda row, index: row.text(index, "scheduler_name"),
    "restart_policy": lambda row, code: row.code(code, _RESTART_POLICIES, "restart_policy"),
    "termination_grace_period": lambda row, grace: row.seconds(grace, "termination_grace_period"),
    "safe_to_evict": lambda row, code: row.code(code, _SAFE_TO_EVICT, "safe_to_evict"),
    "local_storage": lambda _, has: has,
    "unsupported": lambda _, names: _sorted(names),
    "topology_spread_timeout": lambda row, timeout: row.seconds(timeout, "topology_spread_timeout"),
    "enable_ds_eviction": lambda _, enabled: int(enabled),
    "exclusive_disks": lambda row, disks: _texts(row, disks, "exclusive_disks"),
    "read_only_disks": lambda row, disks: _texts(row, disks, "read_only_disks"),
    "scale_up_delay": lambda row, delay: row.seconds(delay, "scale_up_delay"),
    "ignored_by_slack": lambda _, ignored: ignored,
    "node_features": lambda row, names: _texts(row, names, "node_features"),
    "claims": _claims,
    "extended_device_requests": read_extended_requests,
    "capacity_request": lambda row, index: row.text(index, "capacity_request"),
    "never_preempts": lambda _, never: never,
    "requests_by_vpa": lambda _, by_vpa: by_vpa,
}
"""Readers of the message's fields except `requests`, for the fields of `PodRequirements` with the same names; those of
durations end with their unit there."""
_DURATIONS: Final = ("termination_grace_period", "topology_spread_timeout", "scale_up_delay")


def _volume(row: Row, m: pb.Volume) -> MountedVolume:
    return MountedVolume(
        row.needed(m.id, "id"),
        row.code(m.state, _VOLUME_STATES, "state"),
        row.text(m.driver, "driver"),
        row.text(m.handle, "handle"),
        read_terms(row, m.node_affinity, "node_affinity") if m.HasField("node_affinity") else None,
        read_pairs(row, m.zone_labels, "zone_labels"),
        m.read_write_once_pod,
        m.detail,
        row.text(m.required_driver, "required_driver"),
    )


MOST_PODS: Final = 100_000
"""Most pods of a set."""
MOST_SETS: Final = 32
"""Most sets of a request, as the API has it."""
_SLACK: Final = "slack_requests"
_SLACK_ROWS: Final = f"{_SLACK}.requests"
_CAPACITY: Final = "capacity_requests"
_CAPACITY_ROWS: Final = f"{_CAPACITY}.requests"


class RequestDictionary(NamedTuple):
    """The message's dictionary: resources, strings, specs, label_sets, all as numbered in the message."""

    resources: Sequence[str]
    strings: Sequence[str]
    specs: Sequence[PodRequirements]
    label_sets: LabelSets


def read_slack_requests(message: pb.SlackRequests) -> tuple[SlackRequest, ...]:
    """Return the requests sorted by object."""
    if not message.requests:
        return ()
    dictionary = read_dictionary(message.dictionary, _SLACK)
    row = Row(_SLACK_ROWS, dictionary.strings)
    check_unique([request.object for request in message.requests], _SLACK_ROWS, "object")
    requests = [
        SlackRequest(row.needed(request.object, "object"), request.problem)
        if request.problem
        else _slack_request(row, request, dictionary)
        for request in row.over(message.requests)
    ]
    return tuple(sorted(requests, key=lambda row: row.object))


def read_capacity_requests(message: pb.CapacityRequests) -> tuple[CapacityRequest, ...]:
    """Return the requests sorted by namespace and name."""
    if not message.requests:
        return ()
    dictionary = read_dictionary(message.dictionary, _CAPACITY)
    row = Row(_CAPACITY_ROWS, dictionary.strings)
    check_unique([f"{request.namespace}/{request.name}" for request in message.requests], _CAPACITY_ROWS, "name")
    requests = [_capacity_request(row, request, dictionary) for request in row.over(message.requests)]
    return tuple(sorted(requests, key=lambda row: (row.namespace, row.name)))


def read_dictionary(message: pb.PodDictionary, table: str) -> RequestDictionary:
    """Return the dictionary of a table of requests."""
    whole = pb.ClusterSnapshot(strings=message.strings, resources=message.resources)
    try:
        strings, resources = read_strings(whole), read_resources(whole)
        specs = read_pod_specs(message.pod_specs, strings, resources)
        return RequestDictionary(resources, strings, specs, read_label_sets(message.label_sets, strings))
    except SnapshotError as error:
        raise SnapshotError(f"{table}.dictionary.{error.table}", error.row, error.field, error.problem) from None


def _slack_request(row: Row, message: pb.SlackRequest, dictionary: RequestDictionary) -> SlackRequest:
    return SlackRequest(
        object=row.needed(message.object, "object"),
        namespace=row.name(message.namespace, "namespace"),
        spec=spec_of(row, message.spec, dictionary),
        labels=labels_of(row, message.label_set, dictionary),
        scale=_given(row, message, "scale"),
        amount=message.amount,
        replicas=_given(row, message, "replicas"),
        percentage=_given(row, message, "percentage"),
        limits=_limits(row, message.limits, dictionary.resources),
        is_gang=message.is_gang,
        topology_key=row.text(message.topology_key, "topology_key") if message.is_gang else "",
    )


def _given(row: Row, message: pb.SlackRequest, field: str) -> int:
    """Return an optional count, -1 = not given."""
    return row.at_least(getattr(message, field), 0, field) if message.HasField(field) else -1  # type: ignore[arg-type]


def spec_of(row: Row, spec: int, dictionary: RequestDictionary) -> PodRequirements:
    """Return the spec of an index."""
    if not 0 <= spec < len(dictionary.specs):
        row.refuse("spec", f"{spec} is not an index into the specs beside it; there are {len(dictionary.specs)}")
    return dictionary.specs[spec]


def labels_of(row: Row, label_set: int, dictionary: RequestDictionary) -> tuple[tuple[str, str], ...]:
    """Return the labels of an index, sorted by key."""
    sets = dictionary.label_sets
    if not 0 <= label_set < len(sets.offsets) - 1:
        row.refuse(
            "label_set", f"{label_set} is not an index into the label sets beside it; there are {len(sets.offsets) - 1}"
        )
    pairs = sorted(set(sets.pairs(dictionary.strings, label_set)))
    if len({key for key, _ in pairs}) < len(pairs):
        row.refuse("label_set", "a key has two values; give each key once")
    return tuple(pairs)


def _limits(row: Row, limits: Sequence[pb.ResourceAmount], resources: Sequence[str]) -> tuple[tuple[str, int], ...]:
    amounts: dict[str, int] = {}
    for limit in limits:
        if not 0 <= limit.resource < len(resources):
            row.refuse("limits.resource", f"{limit.resource} is not an index into the resources beside it")
        amounts[resources[limit.resource]] = row.amount(limit.amount, "limits.amount")
    return tuple(sorted(amounts.items()))


def _capacity_request(row: Row, message: pb.CapacityRequest, dictionary: RequestDictionary) -> CapacityRequest:
    if not message.problem and not message.pod_sets:
        row.refuse("pod_sets", "it is empty; give at least one set, or the problem")
    if len(message.pod_sets) > MOST_SETS:
        row.refuse("pod_sets", f"there are {len(message.pod_sets)}; give at most {MOST_SETS}")
    return CapacityRequest(
        namespace=row.name(message.namespace, "namespace"),
        name=row.name(message.name, "name"),
        uid=message.uid,
        created_s=row.time_s(message, "create_time"),
        class_name=row.needed(message.class_name, "class_name"),
        problem=message.problem,
        pod_sets=() if message.problem else tuple([_pod_set(row, each, dictionary) for each in message.pod_sets]),
        max_seek_s=row.seconds(message.max_seek_time, "max_seek_time", 1) if message.HasField("max_seek_time") else 0,
        no_retry=message.no_retry,
        processor_instance=message.processor_instance,
        provisioned_s=row.time_s(message, "provision_time"),
        failed=message.failed,
        booking_expired=message.booking_expired,
        capacity_revoked=message.capacity_revoked,
    )


def _pod_set(row: Row, message: pb.CapacityPodSet, dictionary: RequestDictionary) -> CapacityPodSet:
    if not 1 <= message.count <= MOST_PODS:
        row.refuse("pod_sets.count", f"{message.count} is not a number of pods; use 1 to {MOST_PODS}")
    return CapacityPodSet(
        spec_of(row, message.spec, dictionary), labels_of(row, message.label_set, dictionary), message.count
    )
