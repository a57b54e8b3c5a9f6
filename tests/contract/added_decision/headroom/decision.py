"""Nodes with room as one of the decisions of a plan: its entry in the table."""

from typing import Any, Final

from trimtab.planner.model.settings.reading import value_of
from trimtab.planner.round.decision import Decided, Decision, Summary
from trimtab.planner.round.round import Round
from trimtab.v1 import plan_pb2 as pb

_MESSAGES: Final[Any] = pb  # the messages that a test adds are in no stub


def resolve(settings: Any) -> int:
    """Return the least free CPU in milli-cores. Raises SettingsError."""
    return int(value_of(settings.headroom, "least_cpu_milli", "headroom"))


def decide(this: Round, least_cpu_milli: int, state: Any) -> Decided:
    """Name the nodes with room; the state counts rounds."""
    simulation = this.simulation.state
    result = _MESSAGES.HeadroomDecision()
    for node, name in enumerate(this.snapshot.nodes.name):
        free_cpu_milli = int(simulation.resources.free[node, 0])
        if free_cpu_milli >= least_cpu_milli:
            result.nodes.add(node=name, free_cpu_milli=free_cpu_milli)
    rounds = (state.rounds if state else 0) + 1
    return Decided(result, _MESSAGES.HeadroomState(layout_version=1, rounds=rounds), ("headroom was looked for",))


def summarize(result: Any) -> Summary:
    """Return the figures of a result for logs and metrics."""
    return Summary("HEADROOM_FOUND" if result.nodes else "HEADROOM_NONE", {"nodes": len(result.nodes)})


def warm_up(settings: Any) -> None:
    """Choose settings with which every node has room."""
    settings.headroom.least_cpu_milli = 0


def failed(detail: str) -> Any:
    """Return the result if the decision fails."""
    return _MESSAGES.HeadroomDecision(detail=detail)


HEADROOM: Final = Decision(_MESSAGES.Decision.HEADROOM, resolve, decide, summarize, warm_up, failed)
