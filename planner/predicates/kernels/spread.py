"""PodTopologySpread over spread counters. O(constraints) per pod; the smallest count follows the changes."""

from trimtab.planner.model.jit import inlined_kernel
from trimtab.planner.predicates.spread_counters import SpreadCounters


@inlined_kernel
def settle(spread: SpreadCounters, counter: int) -> None:
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
        settle(spread, counter)


@inlined_kernel
def count(spread: SpreadCounters, pod_class: int, node: int, sign: int) -> None:
    """Count a pod of the class on the node (sign 1), or take it off (sign -1)."""
    for at in range(spread.added_offsets[pod_class], spread.added_offsets[pod_class + 1]):
        counter = spread.added[at, 0]
        pair = spread.pair[counter]
        if spread.eligible[spread.pair_nodes[pair], node] != 0:
            change(spread, counter, spread.domain[spread.pair_row[pair], node], sign)


@inlined_kernel
def is_even(spread: SpreadCounters, pod_class: int, node: int) -> bool:
    """Return whether all constraints of the class still hold with one more of its pods on the node."""
    for at in range(spread.limit_offsets[pod_class], spread.limit_offsets[pod_class + 1]):
        counter = spread.limit[at, 0]
        pair = spread.pair[counter]
        domain = spread.domain[spread.pair_row[pair], node]
        if domain < 0:
            return False
        lowest = spread.lowest[counter]
        if spread.domains_in[pair] < spread.limit[at, 3]:
            lowest = 0
        if spread.counts[spread.start[counter] + domain] + spread.limit[at, 2] - lowest > spread.limit[at, 1]:
            return False
    return True


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
            settle(spread, counter)


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
