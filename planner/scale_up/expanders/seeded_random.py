"""RANDOM: a number from 0 to 1, drawn from the seed of the request, the number of the choice and the group's id.

So the same request has the same answer, and the order of options does not matter.
"""

from hashlib import blake2b

import numpy as np

from trimtab.planner.scale_up.options import ChoiceState, ExpanderContext, Float64, Options


def score(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """Return the score of each option. float64[O]."""
    ids = context.groups.ids
    salt = f"{context.seed}/{state.choice}/"
    return np.array([_draw(salt + ids[group]) for group in options.group.tolist()], np.float64)


def _draw(text: str) -> float:
    # 53 bits: the precision of a float.
    return (int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 11) / 2.0**53
