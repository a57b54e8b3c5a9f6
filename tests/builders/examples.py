"""How many random examples a test looks at.

Each run draws the same ones, so that more of them prove something the first time alone. The profile `explore`, which
draws new ones, looks at as many as a test says.
"""

from hypothesis import settings

EXPLORE = "explore"
MOST = 60
"""Examples of a test in each run of the suite."""


def examples(explored: int) -> settings:
    """Return settings of a test. explored : how many examples the profile `explore` looks at."""
    exploring = settings.get_current_profile_name() == EXPLORE
    return settings(max_examples=explored if exploring else min(explored, MOST))
