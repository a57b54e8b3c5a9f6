"""A branch of a simulation is independent, and its origin can be brought to the branch's state."""

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import simulation_walks
from tests.builders.drain_sets import MIX, objects_of
from tests.builders.examples import examples
from tests.builders.kubernetes import snapshot_of
from tests.parity.scheduler_oracle.generator.cluster import cluster
from trimtab.planner.simulation.build import Simulation, branch, build_simulation, go_over_to
from trimtab.planner.simulation.kernels import cordon, place, remove, revert
from trimtab.planner.simulation.log import current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.decode import canonicalize

SMALL = MIX._replace(nodes=(4, 8), pods=(10, 30))
MOVES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 29), st.integers(0, 7)), max_size=20)


def arrays(state: SimulationState) -> list[bytes]:
    """Return all content of a state, except for unwritten rows of the log."""
    log = state.log.moves[: state.log.length[0]]
    columns = (*simulation_walks.arrays(state).values(), state.log.length, state.log.refused, log)
    return [column.tobytes() for column in columns]


def move(simulation: Simulation, state: SimulationState, moves: list[tuple[int, int, int]]) -> None:
    for kind, of_pod, of_node in moves:
        pod, node = of_pod % simulation.pod_count, of_node % simulation.node_count
        if kind == 0:
            remove(state, pod)
        elif kind == 1:
            place(state, pod, node)
        else:
            cordon(state, node)


@given(seed=st.integers(0, 2**32), before=MOVES, mine=MOVES, its=MOVES)
@examples(30)
def test_a_branch_is_apart_until_the_state_goes_over_to_it(
    seed: int, before: list[tuple[int, int, int]], mine: list[tuple[int, int, int]], its: list[tuple[int, int, int]]
) -> None:
    simulation = build_simulation(canonicalize(snapshot_of(objects_of(cluster("c", seed, SMALL)))))
    state = simulation.state
    whole = arrays(state)
    move(simulation, state, before)
    start = current_mark(state)
    begun = arrays(state)
    other = branch(state)
    assert arrays(other) == begun
    move(simulation, other, its)
    assert arrays(state) == begun
    there = arrays(other)
    move(simulation, state, mine)
    assert arrays(other) == there
    go_over_to(state, other)
    assert arrays(state) == there
    revert(state, start)
    assert arrays(state) == begun
    revert(state, 0)
    assert arrays(state) == whole
