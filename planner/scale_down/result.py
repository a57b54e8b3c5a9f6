"""What is asked of the scale-down decision and what it answers."""

from collections.abc import Callable
from typing import NamedTuple

from trimtab.v1 import plan_pb2 as pb

from planner.model.derive import Derive, build_always
from planner.model.settings import ScaleDownSettings
from planner.simulation.build import Simulation
from planner.simulation.injected_pods import InjectedPod
from planner.snapshot.columns import Snapshot

SimulationFactory = Callable[[tuple[InjectedPod, ...]], Simulation]
"""Returns the simulation of the snapshot with pods injected, numbered from P on in the order given. What the decision
does to it is undone before it answers, so without injected pods one simulation may serve several decisions."""


class ScaleDownRequest(NamedTuple):
    """The decision is a function of this, as far as `time_left` lets it get on.

    state : the last answer's, None = first loop; now_ns : Unix nanoseconds; time_left : asked between batches of
    candidates, False stops the simulation; None = there is no deadline; derive : may keep what follows from the
    snapshot alone.
    """

    snapshot: Snapshot
    simulation: SimulationFactory
    settings: ScaleDownSettings
    state: pb.PlanState | None
    now_ns: int
    time_left: Callable[[], bool] | None = None
    derive: Derive = build_always


class ScaleDownResult(NamedTuple):
    """decision : the answer; state : for the next request; notes : what the caller should know."""

    decision: pb.ScaleDownDecision
    state: pb.PlanState
    notes: tuple[str, ...]
