"""The inputs of the choice among orders of candidates, other than nodes and pods, as one number. Decides nothing. As
long as it is unchanged, a plan that can continue does so without being compared with others; when prices or settings
change, the orders are compared again.
"""

from dataclasses import replace
from hashlib import blake2b

import msgspec

from trimtab.planner.model.settings import PlannerSettings, ScaleDownSettings
from trimtab.planner.snapshot.columns import Snapshot


def basis(snapshot: Snapshot, settings: ScaleDownSettings, general: PlannerSettings) -> int:
    """Return a digest of prices, minimums of groups and settings, 1 to 2^64 - 1. O(G + settings).

    Settings by group are in order of name, so that equal settings have one representation. The stability margin does
    not affect which plan is best, and is left out.
    """
    sink = blake2b(digest_size=8)
    for group in snapshot.groups:
        sink.update(repr((group.id, group.min_size, group.price_per_hour, group.zero_or_max)).encode())
    # Not `repr`, in which the order of a set differs between processes.
    sink.update(msgspec.json.encode((replace(settings, stability_margin=0.0), general), order="deterministic"))
    return int.from_bytes(sink.digest(), "little") or 1
