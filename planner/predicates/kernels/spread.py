"""PodTopologySpread over spread counters. O(constraints) per pod; the smallest count follows the changes."""

from trimtab.planner.compiled.decorators import copied_kernel, inlined_kernel, widened
from trimtab.planner.predicates.counter_kind import CounterHooks
from trimtab.planner.predicates.spread_counters import SpreadCounters, SpreadNotes
from trimtab.planner.snapshot.columns import Int32
from trimtab.v1.reason_pb2 import PredicateReason

_UNEVEN = int(PredicateReason.TOPOLOGY_SPREAD_VIOLATED)


@inlined_kernel
def update_lowest(spread: SpreadCounters, counter: int) -> None:
    """Bring the smallest count of a counter up to date after its bucket emptied, or its domains changed."""
    pair = spread.pair[counter]
    if spread.domains_in[pair] == 0:
        spread.lowest[counter] = 0
        return
    first = spread.histogram_start[counter]
    last = spread.histogram_start[counter + 1] - 1 - first
    bucket = min(spread.lowest[counter], last)
    while bucket < last and spread.histogram[first + bucket] == 0:
        bucket += 1
    if bucket < last:
        spread.lowest[counter] = bucket
        return
    # All counts are in the last bucket, which holds different counts: search the domains.
    lowest = -1
    start, nodes = spread.start[counter], spread.pair_start[pair]
    for domain in range(spread.pair_start[pair + 1] - nodes):
        if spread.nodes_in[nodes + domain] > 0:
            value = spread.counts[start + domain]
            if lowest < 0 or value < lowest:
                lowest = value
    spread.lowest[counter] = lowest


@inlined_kernel
def change(spread: SpreadCounters, counter: int, domain: int, sign: int) -> None:
    """Change the count of a domain by one."""
    pair = spread.pair[counter]
    place = spread.start[counter] + domain
    before = spread.counts[place]
    after = before + sign
    spread.counts[place] = after
    if spread.nodes_in[spread.pair_start[pair] + domain] == 0:
        return
    first = spread.histogram_start[counter]
    last = spread.histogram_start[counter + 1] - 1 - first
    spread.histogram[first + min(before, last)] -= 1
    spread.histogram[first + min(after, last)] += 1
    if after < spread.lowest[counter]:
        spread.lowest[counter] = after
    elif before == spread.lowest[counter]:
        update_lowest(spread, counter)


@inlined_kernel
def count(spread: SpreadCounters, pod_class: int, node: int, sign: int) -> None:
    """Count a pod of the class on the node (sign 1), or take it off (sign -1)."""
    for at in range(spread.added_offsets[pod_class], spread.added_offsets[pod_class + 1]):
        counter = spread.added[at, 0]
        pair = spread.pair[counter]
        if spread.eligible[spread.pair_nodes[pair], node] != 0:
            change(spread, counter, spread.domain[spread.pair_row[pair], node], sign)


@inlined_kernel
def lowest_of(spread: SpreadCounters, limit: int) -> int:
    """Return the smallest count of a constraint, 0 if it has fewer eligible domains than it asks for."""
    counter = spread.limit[limit, 0]
    few = spread.domains_in[spread.pair[counter]] < spread.limit[limit, 3]
    return 0 if few else int(spread.lowest[counter])


@inlined_kernel
def excludes_domain(spread: SpreadCounters, limit: int, domain: int) -> bool:
    """Return whether a constraint does not hold with one more pod in a domain."""
    place = spread.start[spread.limit[limit, 0]] + domain
    count = spread.counts[place] + spread.limit[limit, 2]
    return bool(count - lowest_of(spread, limit) > spread.limit[limit, 1])


@inlined_kernel
def is_even(spread: SpreadCounters, pod_class: int, node: int) -> bool:
    """Return whether all constraints of the class still hold with one more of its pods on the node."""
    for at in range(spread.limit_offsets[pod_class], spread.limit_offsets[pod_class + 1]):
        counter = spread.limit[at, 0]
        pair = spread.pair[counter]
        domain = spread.domain[spread.pair_row[pair], node]
        if domain < 0 or excludes_domain(spread, at, domain):
            return False
    return True


@inlined_kernel
def is_uneven(spread: SpreadCounters, pod_class: int, node: int) -> bool:
    """Return whether a constraint of the class would not hold with one more of its pods on the node."""
    return not is_even(spread, pod_class, node)


@inlined_kernel
def because(spread: SpreadCounters, pod_class: int, node: int) -> int:
    """Return the mask `1 << reason` of the predicates that refuse a pod of the class on the node."""
    return 0 if is_even(spread, pod_class, node) else 1 << _UNEVEN


@inlined_kernel
def move_domain(spread: SpreadCounters, pair: int, domain: int, sign: int) -> None:
    """Make a domain of a pair eligible (sign 1), or no longer eligible (sign -1)."""
    spread.domains_in[pair] += sign
    for counter in range(spread.pair_counters[pair], spread.pair_counters[pair + 1]):
        first = spread.histogram_start[counter]
        last = spread.histogram_start[counter + 1] - 1 - first
        value = spread.counts[spread.start[counter] + domain]
        spread.histogram[first + min(value, last)] += sign
        if sign > 0 and (spread.domains_in[pair] == 1 or value < spread.lowest[counter]):
            spread.lowest[counter] = value
        elif sign < 0 and value == spread.lowest[counter]:
            update_lowest(spread, counter)


@inlined_kernel
def move_node(spread: SpreadCounters, node: int, sign: int, stays: int) -> None:
    """Add a node to (sign 1), or remove it from (sign -1), the pairs whose `stays` is as given. O(pairs)."""
    for pair in range(len(spread.pair_row)):
        nodes = spread.pair_nodes[pair]
        if spread.stays[nodes] == stays and spread.eligible[nodes, node] != 0:
            domain = spread.domain[spread.pair_row[pair], node]
            place = spread.pair_start[pair] + domain
            before = spread.nodes_in[place]
            spread.nodes_in[place] = before + sign
            if before == 0 or before + sign == 0:
                move_domain(spread, pair, domain, sign)


@inlined_kernel
def is_limited(spread: SpreadCounters, pod_class: int) -> bool:
    """Return whether pods of the class have constraints. O(1)."""
    return bool(spread.limit_offsets[pod_class] < spread.limit_offsets[pod_class + 1])


@copied_kernel
def look_like(spread: SpreadCounters, node: int, like: int) -> None:
    """Copy the domains of a node, except those that are the node itself, and its node sets. O(rows + node sets)."""
    for row in range(len(spread.own_row)):
        if spread.own_row[row] == 0:
            spread.domain[row, node] = spread.domain[row, like]
    for nodes in range(len(spread.eligible)):
        spread.eligible[nodes, node] = spread.eligible[nodes, like]


@inlined_kernel
def row_of_limit(spread: SpreadCounters, limit: int) -> int:
    """Return the topology row of a constraint."""
    return int(spread.pair_row[spread.pair[spread.limit[limit, 0]]])


@copied_kernel
def is_refused_in_domains(spread: SpreadCounters, pod_class: int, node: int) -> bool:
    """Return whether a constraint of the class does not hold in a domain that a node shares with others."""
    for at in range(spread.limit_offsets[pod_class], spread.limit_offsets[pod_class + 1]):
        row = row_of_limit(spread, at)
        if spread.own_row[row] == 0:
            domain = spread.domain[row, node]
            if domain < 0 or excludes_domain(spread, at, domain):
                return True
    return False


@copied_kernel
def chained_limit(spread: SpreadCounters, chain: Int32, pod_class: int) -> int:
    """Return the first constraint of the class in a row with chain[row] >= 0, as a position in `limit`; -1 = none."""
    for at in range(spread.limit_offsets[pod_class], spread.limit_offsets[pod_class + 1]):
        if chain[row_of_limit(spread, at)] >= 0:
            return int(widened(at))
    return int(widened(-1))


@copied_kernel
def forget(spread: SpreadCounters, notes: SpreadNotes, pod_class: int) -> None:
    """Forget the smallest counts of the class."""
    for at in range(spread.limit_offsets[pod_class], spread.limit_offsets[pod_class + 1]):
        notes.passed_lowest[at] = 0


@copied_kernel
def has_risen(spread: SpreadCounters, notes: SpreadNotes, pod_class: int) -> bool:
    """Return whether a smallest count exceeds the noted one, and note it."""
    risen = False
    for at in range(spread.limit_offsets[pod_class], spread.limit_offsets[pod_class + 1]):
        lowest = lowest_of(spread, at)
        risen = risen or lowest > notes.passed_lowest[at]
        notes.passed_lowest[at] = lowest
    return bool(risen)


@copied_kernel
def note_failure(spread: SpreadCounters, notes: SpreadNotes, pod_class: int) -> None:
    """Note the smallest counts and the eligible domains of the class."""
    for at in range(spread.limit_offsets[pod_class], spread.limit_offsets[pod_class + 1]):
        counter = spread.limit[at, 0]
        notes.failed_lowest[at] = spread.lowest[counter]
        notes.failed_domains[at] = spread.domains_in[spread.pair[counter]]


@copied_kernel
def may_fit_now(spread: SpreadCounters, notes: SpreadNotes, pod_class: int) -> bool:
    """Return whether a smallest count has risen, or eligible domains have changed, since no node admitted the class."""
    for at in range(spread.limit_offsets[pod_class], spread.limit_offsets[pod_class + 1]):
        counter = spread.limit[at, 0]
        domains = spread.domains_in[spread.pair[counter]]
        if spread.lowest[counter] > notes.failed_lowest[at] or domains != notes.failed_domains[at]:
            return True
    return False


HOOKS = CounterHooks(
    count=count,
    refuses_for_now=is_uneven,
    because=because,
    move_node=move_node,
    look_like=look_like,
    may_need_others=is_limited,
    is_refused_in_domains=is_refused_in_domains,
    forget=forget,
    may_pass_again=has_risen,
    note_failure=note_failure,
    may_fit_now=may_fit_now,
    chained_limit=chained_limit,
    row_of_limit=row_of_limit,
    excludes_domain=excludes_domain,
)
