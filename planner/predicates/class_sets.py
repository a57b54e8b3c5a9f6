"""Pod classes grouped by scheduling spec: terms are evaluated once per spec, not per pod."""

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.classes.pod_classes import PodClasses


def classes_by_spec(classes: PodClasses, spec_count: int) -> list[NDArray[np.int64]]:
    """Return the classes of each scheduling spec, ascending : spec_count arrays int64[k]."""
    order = np.argsort(classes.spec, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(classes.spec, minlength=spec_count)).tolist()
    return [order[start:end] for start, end in zip([0, *ends], ends, strict=False)]
