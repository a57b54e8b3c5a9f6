"""Order of candidates of similar node groups that keeps their sizes balanced: the largest part loses nodes first.

Candidates come in cells, those of one group and zone, each in the preferred order. Each step takes the next candidate
of the cell whose group has the most nodes left; among equal ones, of the cell whose zone has the most; among those, of
the first in order. Source: own.
"""

from trimtab.planner.compiled.decorators import kernel
from trimtab.planner.snapshot.columns import Int32, Int64


@kernel
def level_order(
    members: Int32, starts: Int64, group: Int32, zone: Int32, group_size: Int64, zone_size: Int64, at: Int64, out: Int32
) -> int:
    """Fill out : int32[E] with the positions `members` : int32[E], taken from the cells in turn; return E.

    starts : int64[C+1] cells in members, each ascending; group, zone : int32[C], zone -1 = none; group_size,
    zone_size : nodes of each part, lowered in place; at : int64[C] scratch. O(E · C).
    """
    for cell in range(len(at)):
        at[cell] = starts[cell]
    for row in range(len(out)):
        best = -1
        for cell in range(len(at)):
            if at[cell] == starts[cell + 1]:
                continue
            if best < 0:
                best = cell
                continue
            more = group_size[group[cell]] - group_size[group[best]]
            if more == 0:
                mine = zone_size[zone[cell]] if zone[cell] >= 0 else 0
                its = zone_size[zone[best]] if zone[best] >= 0 else 0
                more = mine - its
            if more > 0 or (more == 0 and members[at[cell]] < members[at[best]]):
                best = cell
        out[row] = members[at[best]]
        at[best] += 1
        group_size[group[best]] -= 1
        if zone[best] >= 0:
            zone_size[zone[best]] -= 1
    return len(out)
