"""Group pods by node, and write the budgets that cover each pod, from the label sets that each budget selects.

Source: counting sort; compressed rows by counting, in two passes over the pods of the namespaces that have budgets."""

from trimtab.planner.compiled.decorators import kernel, widened
from trimtab.planner.snapshot.columns import Int32, Int64


@kernel
def group_by_node(node: Int32, offsets: Int64, members: Int32) -> None:
    """Fill `members` with the pods of node 0, node 1, … and finally those on no node of the snapshot.

    node : int32[P], negative = on none; offsets : int64[N+2], zeroed, filled so that group g is
    members[offsets[g] : offsets[g+1]], group N being "none"; members : int32[P]. O(P + N).
    """
    groups = len(offsets) - 1
    for pod in range(len(node)):
        group = node[pod] if node[pod] >= 0 else groups - 1
        offsets[group + 1] += 1
    for group in range(groups):
        offsets[group + 1] += offsets[group]
    # Filled backwards: each group's offset moves from its end to its beginning.
    for group in range(groups, 0, -1):
        offsets[group] = offsets[group - 1]
    for pod in range(len(node)):
        group = node[pod] if node[pod] >= 0 else groups - 1
        members[offsets[group + 1]] = pod
        offsets[group + 1] += 1


@kernel
def write_membership(
    label_set: Int32, spaces: Int64, entries: Int32, bounds: Int64, head: Int32, following: Int32, offsets: Int64,
    budgets: Int32,
) -> int:  # fmt: skip
    """Fill `offsets`, or budgets : int32[pairs] if it is not empty, and return the number of pairs.

    label_set : int32[P], pods sorted by namespace; spaces : int64[X, 2] first pod and end of each namespace that has
    budgets; entries : int32[E, 2] (label set, budget) that a budget of the namespace selects, budgets descending;
    bounds : int64[X+1] into entries; head : int32[L] all -1, at the end too; following : int32[E] scratch;
    offsets : int64[P+1], zeroed, filled: pod p is covered by budgets[offsets[p] : offsets[p + 1]], ascending.
    O(pods of the namespaces + E + pairs + P).
    """
    pairs = 0
    for space in range(len(spaces)):
        for entry in range(bounds[space], bounds[space + 1]):
            of_set = widened(entries[entry, 0])
            following[entry] = head[of_set]
            head[of_set] = entry
        for pod in range(spaces[space, 0], spaces[space, 1]):
            at = offsets[pod]
            entry = widened(head[label_set[pod]])
            while entry >= 0:
                if len(budgets) > 0:
                    budgets[at] = entries[entry, 1]
                    at += 1
                else:
                    offsets[pod + 1] += 1
                pairs += 1
                entry = widened(following[entry])
        for entry in range(bounds[space], bounds[space + 1]):
            head[entries[entry, 0]] = -1
    if len(budgets) == 0:
        for pod in range(len(label_set)):
            offsets[pod + 1] += offsets[pod]
    return pairs
