"""How many random examples a test checks.

Each run draws the same ones, so that more of them prove something the first time alone: after a change of what is
tested, `TRIMTAB_ALL_EXAMPLES=1` draws as many as a test says. So does the profile `explore`, which draws new ones.
"""

import os

from hypothesis import settings

EXPLORE = "explore"
ALL = bool(os.environ.get("TRIMTAB_ALL_EXAMPLES"))
MOST = 15
"""Examples of a test in each run of the suite: no mutation of twenty was found by a second fifteen only."""
EXPLORED = 100
"""Examples of a test that does not say how many, where all are drawn."""


def examples(explored: int, most: int = MOST) -> settings:
    """Return a test's settings. explored : number of examples that the profile `explore` checks; most : how many each
    run checks, fewer if one example takes long.
    """
    whole = ALL or settings.get_current_profile_name() == EXPLORE
    return settings(max_examples=explored if whole else min(explored, most))
