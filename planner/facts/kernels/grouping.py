"""Group pods by node with a counting sort, in pod order within each node.

Source: counting sort.
"""

from trimtab.planner.compiled.decorators import kernel
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
