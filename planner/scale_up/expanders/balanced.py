"""BALANCED: by how many nodes the group is larger than the smallest of the options similar to it, negative.

So the smallest groups of each kind of similar groups rate equal, and the next expander decides which kind grows.
"""

import numpy as np

from trimtab.planner.scale_up.options import ChoiceState, ExpanderContext, Float64, Options


def score(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """Return the score of each option, at most 0. float64[O]."""
    kind = context.groups.similarity.kinds[options.group]
    size = state.size[options.group]
    smallest = np.full(int(kind.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    alike = kind >= 0
    np.minimum.at(smallest, kind[alike], size[alike])
    ahead = np.zeros(len(size), np.int64)
    ahead[alike] = size[alike] - smallest[kind[alike]]
    return -ahead.astype(np.float64)
