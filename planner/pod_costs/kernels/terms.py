"""How anti-affinity terms contribute to the ranks of pods, and which groups they link. A term adds its weight to each
pod that has it, for each other pod that it matches in the same domain, and the same to the matched pod. Ranks are
int64, so that sums are exact in any order.
"""

from typing import NamedTuple

from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import inner_kernel, kernel
from trimtab.planner.snapshot.columns import Bool, Int32, Int64


@by_reference()
class Terms(NamedTuple):
    """T distinct terms.

    weight : int64[T]; key : int64[T] row of the topology key in `CountedPods.domains`; scope : int64[T] row of
    `spaces`, -1 = the namespace of the pod that has the term; spaces : bool[X, strings], the namespaces of each scope;
    specs : int32 of term t at spec_offsets[t] : spec_offsets[t + 1], those that have it; sets : int32 likewise, the
    label sets that it matches.
    """

    weight: Int64
    key: Int64
    scope: Int64
    spaces: Bool
    spec_offsets: Int64
    specs: Int32
    set_offsets: Int64
    sets: Int32


@by_reference()
class CountedPods(NamedTuple):
    """Counted pods that are on nodes. by_spec, by_set : int32, rows of pods by spec and by label set, with offsets,
    ascending within each;
    node : int32[P]; namespace : int32[P], ascending; domains : int32[K, N], -1 = the node lacks the key.
    """

    spec_offsets: Int64
    by_spec: Int32
    set_offsets: Int64
    by_set: Int32
    node: Int32
    namespace: Int32
    domains: Int32


@by_reference()
class Tally(NamedTuple):
    """Results and scratch. rank : int64[P]; group : int64[P], -1 = none; above : int64[G], a group that each is linked
    with, initially itself, never a larger one; having, matched : int64[D], zeros; has, met : int64[P], zeros, the
    number of the turn in which a pod was last counted; turn : int64[1], zero; pods_having, pods_matched : int32[P],
    scratch for the pods counted in a turn."""

    rank: Int64
    group: Int64
    above: Int64
    having: Int64
    matched: Int64
    has: Int64
    met: Int64
    turn: Int64
    pods_having: Int32
    pods_matched: Int32


@inner_kernel
def lowest(above: Int64, group: int) -> int:
    """Return the smallest group that a group is linked with so far."""
    while above[group] != group:
        above[group] = above[above[group]]
        group = above[group]
    return group


@inner_kernel
def link(above: Int64, one: int, other: int) -> int:
    """Link two groups; return the smallest that both are linked with."""
    one, other = lowest(above, one), lowest(above, other)
    above[max(one, other)] = min(one, other)
    return min(one, other)


@inner_kernel
def first_of(rows: Int32, first: int, last: int, namespace: Int32, space: int) -> int:
    """Return where the rows of a namespace or a larger one begin; rows[first:last] ascend."""
    while first < last:
        middle = (first + last) // 2
        if namespace[rows[middle]] < space:
            first = middle + 1
        else:
            last = middle
    return first


@inner_kernel
def begin(offsets: Int64, rows: Int32, number: int, namespace: Int32, space: int) -> int:
    """Return where the rows of a spec or label set begin; space : only those in this namespace, -1 = all."""
    first = offsets[number]
    return int(first if space < 0 else first_of(rows, first, offsets[number + 1], namespace, space))


@inner_kernel
def end(offsets: Int64, rows: Int32, number: int, namespace: Int32, space: int) -> int:
    """Return where they end."""
    last = offsets[number + 1]
    return int(last if space < 0 else first_of(rows, offsets[number], last, namespace, space + 1))


@inner_kernel
def count_having(terms: Terms, placed: CountedPods, tally: Tally, term: int, space: int) -> int:
    """Count by domain the pods that have a term, and note them; return how many. space : as for `add_term`."""
    domain, turn, count = placed.domains[terms.key[term]], tally.turn[0], 0
    for entry in range(terms.spec_offsets[term], terms.spec_offsets[term + 1]):
        spec = terms.specs[entry]
        first = begin(placed.spec_offsets, placed.by_spec, spec, placed.namespace, space)
        last = end(placed.spec_offsets, placed.by_spec, spec, placed.namespace, space)
        for pod in placed.by_spec[first:last]:
            if domain[placed.node[pod]] >= 0:
                tally.having[domain[placed.node[pod]]] += 1
                tally.has[pod] = turn
                tally.pods_having[count] = pod
                count += 1
    return count


@inner_kernel
def count_matched(terms: Terms, placed: CountedPods, tally: Tally, term: int, space: int) -> int:
    """Count by domain the pods that a term matches, and note them; return how many."""
    domain, turn, scope, count = placed.domains[terms.key[term]], tally.turn[0], terms.scope[term], 0
    for entry in range(terms.set_offsets[term], terms.set_offsets[term + 1]):
        labels = terms.sets[entry]
        first = begin(placed.set_offsets, placed.by_set, labels, placed.namespace, space)
        last = end(placed.set_offsets, placed.by_set, labels, placed.namespace, space)
        for pod in placed.by_set[first:last]:
            if domain[placed.node[pod]] < 0 or (scope >= 0 and not terms.spaces[scope, placed.namespace[pod]]):
                continue
            tally.matched[domain[placed.node[pod]]] += 1
            tally.met[pod] = turn
            tally.pods_matched[count] = pod
            count += 1
    return count


@inner_kernel
def link_groups(tally: Tally, pods: Int32, group: int) -> int:
    """Link the groups of pods with each other and with a given one (-1 = none); return one of them, -1 = none."""
    for pod in pods:
        if tally.group[pod] >= 0:
            group = link(tally.above, tally.group[pod], group if group >= 0 else tally.group[pod])
    return group


@inner_kernel
def add_term(terms: Terms, placed: CountedPods, tally: Tally, term: int, space: int) -> None:
    """Add the contribution of a term, and link its groups; space : only in this namespace, -1 = in all."""
    tally.turn[0] += 1
    having = tally.pods_having[: count_having(terms, placed, tally, term, space)]
    matched = tally.pods_matched[: count_matched(terms, placed, tally, term, space)]
    group = link_groups(tally, matched, -1)
    if group >= 0:
        link_groups(tally, having, group)
    domain, turn, weight = placed.domains[terms.key[term]], tally.turn[0], terms.weight[term]
    for pod in having:
        tally.rank[pod] += weight * (tally.matched[domain[placed.node[pod]]] - (tally.met[pod] == turn))
    for pod in matched:
        tally.rank[pod] += weight * (tally.having[domain[placed.node[pod]]] - (tally.has[pod] == turn))
    for pod in having:
        tally.having[domain[placed.node[pod]]] = 0
    for pod in matched:
        tally.matched[domain[placed.node[pod]]] = 0


@inner_kernel
def next_namespace(terms: Terms, placed: CountedPods, term: int, space: int) -> int:
    """Return the next larger namespace in which pods have a term; -1 = there is none."""
    found = -1
    for entry in range(terms.spec_offsets[term], terms.spec_offsets[term + 1]):
        spec = terms.specs[entry]
        last = placed.spec_offsets[spec + 1]
        at = first_of(placed.by_spec, placed.spec_offsets[spec], last, placed.namespace, space + 1)
        if at < last and (found < 0 or placed.namespace[placed.by_spec[at]] < found):
            found = placed.namespace[placed.by_spec[at]]
    return found


@kernel
def add_terms(terms: Terms, placed: CountedPods, tally: Tally, first: int, last: int) -> None:
    """Add the contributions of the terms first to last. O(pods that have or match each); terms that select from their
    pod's own namespace are handled namespace by namespace.
    """
    for term in range(first, last):
        if terms.scope[term] >= 0:
            add_term(terms, placed, tally, term, -1)
            continue
        space = next_namespace(terms, placed, term, -1)
        while space >= 0:
            add_term(terms, placed, tally, term, space)
            space = next_namespace(terms, placed, term, space)
