"""The cheapest settings under limits, and the cost of the others: the trade-off curve.

Decides the measure of cost: money if every group has a price, else node-hours. Ties are broken by the shortest time to
schedule, then by the order of the settings. The curve has the settings that no other one beats in both cost and the
figure weighed against it: that of the first limit, else 99 % of times to schedule. Raises ScenarioError.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from trimtab.clients.simulation.scenario_values import ScenarioError, seconds

Summary = dict[str, Any]


class Figure(NamedTuple):
    """A figure for limits. unit : "s" = limits are durations; of : reads it from a summary."""

    unit: str
    of: Callable[[Summary], float]


def _key(name: str) -> str:
    """Return the name of a figure as summaries have it."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _time(name: str, share: str) -> Figure:
    return Figure("s", lambda summary: float(summary[f"{_key(name)}S"][share]))


def _plain(name: str) -> Figure:
    return Figure("", lambda summary: float(summary[_key(name)]))


_TIMES: Final = ("time_to_schedule", "time_to_full_gang", "time_to_provisioned")
_PLAIN: Final = (
    *("requests_failed", "requests_waiting_at_end", "gangs_not_whole_at_end", "money", "node_hours", "evictions"),
    *("evictions_per_pod_hour", "budget_waits", "slack_cpu_hours", "slack_taken", "pods_pending_at_end", "pods_lost"),
    *("nodes_added", "nodes_removed", "added_for_nothing", "removed_for_nothing", "nodes_at_end"),
)
FIGURES: Final[dict[str, Figure]] = {
    **{f"{name}_{share}": _time(name, share) for name in _TIMES for share in ("p50", "p90", "p99", "max")},
    **{name: _plain(name) for name in _PLAIN},
}
WEIGHED_BY: Final = "time_to_schedule_p99"
_LIMIT: Final = re.compile(r"\s*([a-z0-9_]+)\s*(<=|>=)\s*(\S+)\s*", re.ASCII)


class Limit(NamedTuple):
    """A limit: `figure` is at most (sign "<=") or at least (">=") a value. `text` : as the user wrote it."""

    figure: str
    sign: str
    value: float
    text: str

    def holds(self, summary: Summary) -> bool:
        """Return whether a simulation keeps the limit."""
        found = FIGURES[self.figure].of(summary)
        return found <= self.value if self.sign == "<=" else found >= self.value


class Recommendation(NamedTuple):
    """best : index of the recommended result, None = none keeps all limits; broken : by result, the limits that it
    violates; curve : indices, cheapest first; by : figure weighed against cost; cost : "money" or "node_hours".
    """

    best: int | None
    broken: tuple[tuple[Limit, ...], ...]
    curve: tuple[int, ...]
    by: str
    cost: str


def read_limit(text: str) -> Limit:
    """Read "FIGURE<=VALUE" or "FIGURE>=VALUE"; values of times are durations."""
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise ScenarioError(f"--limit {text}: give FIGURE<=VALUE or FIGURE>=VALUE, such as {WEIGHED_BY}<=60s")
    name, sign, value = found.groups()
    if name not in FIGURES:
        raise ScenarioError(f"--limit {text}: {name} is no figure; there are {', '.join(FIGURES)}")
    try:
        is_time = bool(FIGURES[name].unit) and value[-1].isalpha()
        amount = seconds(value) if is_time else float(value)
    except ValueError as error:
        problem = str(error) if is_time else f"{value} is no number"
        raise ScenarioError(f"--limit {text}: {problem}") from None
    if not 0 <= amount < float("inf"):
        raise ScenarioError(f"--limit {text}: {value} is no amount of at least 0")
    return Limit(name, sign, amount, text.strip())


def read_limits(texts: Sequence[str]) -> tuple[Limit, ...]:
    """Read limits; contradictory ones are an error."""
    limits = tuple(read_limit(text) for text in texts)
    for low in limits:
        for high in limits:
            if low.figure == high.figure and low.sign == ">=" and high.sign == "<=" and low.value > high.value:
                raise ScenarioError(f"--limit {low.text} and --limit {high.text} contradict each other")
    return limits


def recommend(summaries: Sequence[Summary], limits: Sequence[Limit]) -> Recommendation:
    """Return the cheapest result that keeps all limits, and the curve."""
    cost = "money" if all(summary["money"] for summary in summaries) else "node_hours"
    by = next((limit.figure for limit in limits if limit.figure != cost), WEIGHED_BY)
    broken = tuple(tuple(limit for limit in limits if not limit.holds(summary)) for summary in summaries)

    def rank(index: int) -> tuple[float, float, int]:
        return FIGURES[cost].of(summaries[index]), FIGURES[WEIGHED_BY].of(summaries[index]), index

    kept = [index for index in range(len(summaries)) if not broken[index]]
    return Recommendation(min(kept, key=rank, default=None), broken, _curve(summaries, cost, by), by, cost)


def _curve(summaries: Sequence[Summary], cost: str, by: str) -> tuple[int, ...]:
    """Return the results that no other one beats, cheapest first. Less is better in both."""
    points = sorted((FIGURES[cost].of(one), FIGURES[by].of(one), index) for index, one in enumerate(summaries))
    found: list[int] = []
    least = float("inf")
    for _, value, index in points:
        if value < least:
            found.append(index)
            least = value
    return tuple(found)


def as_document(found: Recommendation, names: Sequence[str], limits: Sequence[Limit]) -> dict[str, Any]:
    """Return a recommendation in the form of a saved comparison."""
    return {
        "limits": [limit.text for limit in limits],
        "recommended": None if found.best is None else names[found.best],
        "cost": found.cost,
        "weighedBy": found.by,
        "curve": [names[index] for index in found.curve],
        "broken": {name: [one.text for one in broken] for name, broken in zip(names, found.broken, strict=True)},
    }
