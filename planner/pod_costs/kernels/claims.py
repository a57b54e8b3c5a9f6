"""Which pods another controller than their own claims as well."""

from typing import NamedTuple

from planner.model.jit import kernel
from planner.snapshot.columns import Int32, Int64


class Claims(NamedTuple):
    """Controllers by the label sets that they select: those of set s are owners[offsets[s] : offsets[s + 1]].

    offsets : int64[L+1]; owners : int32[C]; namespace : int32[O] of each controller, as pods number theirs, -1 = none.
    """

    offsets: Int64
    owners: Int32
    namespace: Int32


@kernel
def find_claims(claims: Claims, pods: Int64, owner: Int32, label_set: Int32, namespace: Int32, rival: Int32) -> None:
    """Write for each of some pods the first controller besides its own that claims it, -1 = none.

    pods : int64[M]; owner, label_set, namespace : int32[P]; rival : int32[M], filled. O(M + claims of their label
    sets).
    """
    for at in range(len(pods)):
        pod = pods[at]
        rival[at] = -1
        for entry in range(claims.offsets[label_set[pod]], claims.offsets[label_set[pod] + 1]):
            other = claims.owners[entry]
            if other != owner[pod] and claims.namespace[other] == namespace[pod]:
                rival[at] = other
                break
