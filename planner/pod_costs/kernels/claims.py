"""Which pods are also claimed by a controller other than their own."""

from typing import NamedTuple

from trimtab.planner.compiled.decorators import kernel
from trimtab.planner.snapshot.columns import Int32, Int64


class Claims(NamedTuple):
    """Controllers by the label sets that they select: those of set s are owners[offsets[s] : offsets[s + 1]].

    offsets : int64[L+1]; owners : int32[C]; namespace : int32[O] of each controller, numbered as for pods, -1 = none.
    """

    offsets: Int64
    owners: Int32
    namespace: Int32


@kernel
def find_claims(claims: Claims, pods: Int64, owner: Int32, label_set: Int32, namespace: Int32, rival: Int32) -> None:
    """Write for each of the pods the first other controller that claims it, -1 = none.

    pods : int64[M]; owner, label_set, namespace : int32[P]; rival : int32[M], filled. O(M + claims of their label
    sets).
    """
    labels, own, space, found = -1, -1, -1, -1
    for at in range(len(pods)):
        pod = pods[at]
        # Mostly the same as for the previous pod, which is in the same group.
        if label_set[pod] != labels or owner[pod] != own or namespace[pod] != space:
            labels, own, space, found = label_set[pod], owner[pod], namespace[pod], -1
            for entry in range(claims.offsets[labels], claims.offsets[labels + 1]):
                other = claims.owners[entry]
                if other != own and claims.namespace[other] == space:
                    found = other
                    break
        rival[at] = found
