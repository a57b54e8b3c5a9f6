"""NodePorts: two pods on a node cannot have the same host port, protocol and address; 0.0.0.0 stands for every address.

Contract: three counters for each (protocol, port) on each node: pods with any address, with the wildcard, with one
specific address. The wildcard conflicts with any address, a specific one with the wildcard and itself. Unlike
the scheduler's set, counters stay right when one of two pods with the same port leaves. Source: plugin nodeports,
HostPortInfo, v1.37.2.
"""

from typing import Final

from trimtab.planner.classes.pod_classes import classes_by_spec
from trimtab.planner.classes.scheduling_specs import SchedulingSpec
from trimtab.planner.predicates.counter_kind import BuildContext, CountedPredicate
from trimtab.planner.predicates.presence import PRESENCE, PresenceBuilder
from trimtab.planner.predicates.topologies import OWN_NODE
from trimtab.v1.reason_pb2 import PredicateReason

WILDCARD = "0.0.0.0"


def _add_counters(context: BuildContext, builder: PresenceBuilder) -> None:
    specs = context.specs
    having = [at for at, spec in enumerate(specs.rows) if _concerns(spec)]
    if not having:
        return
    of_spec = classes_by_spec(context.classes, len(specs.rows))
    reason = PredicateReason.HOST_PORT_CONFLICT
    for at in having:
        members = of_spec[at]
        for protocol, port, address in sorted({(p.protocol or "TCP", p.port, p.host_ip or WILDCARD)
                                                for p in specs.rows[at].host_ports if p.port > 0}):  # fmt: skip
            every, _ = builder.counter(("port", protocol, port, ""), OWN_NODE)
            wildcard, _ = builder.counter(("port", protocol, port, WILDCARD), OWN_NODE)
            own, _ = builder.counter(("port", protocol, port, address), OWN_NODE)
            builder.adds(members, every)
            builder.adds(members, own)
            if address == WILDCARD:
                builder.needs_empty(members, every, reason)
            else:
                builder.needs_empty(members, wildcard, reason)
                builder.needs_empty(members, own, reason)


def _concerns(spec: SchedulingSpec) -> bool:
    return bool(spec.host_ports)


HOST_PORTS: Final = CountedPredicate(
    (PredicateReason.HOST_PORT_CONFLICT,), PRESENCE, add=_add_counters, concerns=_concerns
)
