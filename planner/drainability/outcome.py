"""The outcome of a rule for a pod, as one byte. Values 1 to 4 follow the Cluster Autoscaler's
`drainability.OutcomeType`; the code of a blocking pod includes the reason.
"""

from typing import Final

import numpy as np

from trimtab.planner.snapshot.columns import Bool, UInt8

UNDEFINED: Final = 0
"""The rule has no outcome; the next one decides. If no rule has one, the pod can be moved."""
DRAIN_OK: Final = 1
"""The pod can be moved, whatever later rules say."""
SKIP: Final = 3
"""The pod need not be moved: it goes with the node, or is almost gone."""
WAIT: Final = 4
"""The node waits until the pod has completed."""
_BLOCK: Final = 16


def block(reason: int) -> int:
    """Return the code of a pod that blocks the drain for a `BlockingPodReason.Code`."""
    return _BLOCK + reason


def blocks(codes: UInt8) -> Bool:
    """Return for each code whether it blocks."""
    return codes >= _BLOCK


def blocking_reason(code: int) -> int:
    """Return the `BlockingPodReason.Code` of a code that blocks, 0 for any other."""
    return max(code - _BLOCK, 0)


def where(mask: Bool, code: int) -> UInt8:
    """Return `code` where the mask is true and UNDEFINED elsewhere. uint8[P]."""
    codes: UInt8 = mask.astype(np.uint8)
    codes *= np.uint8(code)
    return codes


def put(codes: UInt8, said: UInt8, mask: Bool) -> None:
    """Replace codes by others where the mask is true, in place. uint8[P] each. Products take a tenth of the time of a
    copy that tests each row.
    """
    codes *= ~mask
    codes += said * mask
