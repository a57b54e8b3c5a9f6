"""Slack as one of the decisions of a plan: its entry in the table, and its loop.

Each loop determines the currently requested room; the placeholders, as far as possible those of the last loop; which of
them keep their nodes, and the places of the others. They remain in the round's simulation, where later decisions find
them: those on a node take room there, those on none wait for a new one. Never reads a clock; its memory comes in and
goes out as state.
"""

from functools import partial
from itertools import chain, repeat
from typing import Final

from trimtab.planner.round.decision import Decided, Decision
from trimtab.planner.round.round import HeldRoom, Round
from trimtab.planner.round.waiting import PendingPodsKey, place_waiting_pods, pods_that_wait
from trimtab.planner.slack.answer import SlackOutcome, answer, summarize
from trimtab.planner.slack.objects import object_requests
from trimtab.planner.slack.parts import parts
from trimtab.planner.slack.places import arrange, held_gangs, placeholder_table, recall
from trimtab.planner.slack.rooms import Rooms, node_rooms
from trimtab.planner.slack.sets import RequiredWithout, SetInputs, damped_names, required_sets
from trimtab.planner.slack.settings import SlackSettings, resolve_slack
from trimtab.planner.snapshot.delta import rows_of_nodes
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import SlackResult


def decide(this: Round, settings: SlackSettings, state: pb.SlackState | None) -> Decided:
    """Take the slack decision. Raises MoveLogFullError."""
    snapshot = this.snapshot
    previous, notes = recall(state, partial(rows_of_nodes, snapshot, this.work.cache))
    pool_parts = parts(snapshot, settings, this.leaving)
    rooms = Rooms(snapshot, partial(node_rooms, snapshot, this.work.cache), settings.ignored_pods)
    inputs = SetInputs(settings, rooms, this.now_ns, previous.sizes(damped_names(pool_parts)))
    requests = object_requests(snapshot, settings.smaller_buffers, this.work.cache)
    required = required_sets(inputs, pool_parts, requests)
    table = placeholder_table(required.sets, required.sizes, previous, snapshot)
    names = table.names()
    pods = tuple(chain.from_iterable(repeat(entry.pod, entry.number) for entry in table.sets))
    demand = RequiredWithout(inputs, pool_parts, table.sets)
    this.hold_room(HeldRoom(names, table.bounds, demand, held_gangs(table.sets)), pods, required.kinds)
    first = this.simulation.pod_count + len(this.evictions)
    if names:
        # Real pods that wait stay where there is room, for later decisions, too.
        least = this.settings.expendable_priority
        pending = this.work.cache.get(PendingPodsKey(least), snapshot, lambda view: pods_that_wait(view, least))
        place_waiting_pods(this, pb.Decision.SLACK, pending)
    placed = arrange(this.simulation, table, first, this.ready & ~this.leaving)
    return answer(this, SlackOutcome(requests, required, table, placed, names), notes)


def warm_up(settings: pb.PlanSettings) -> None:
    """Choose settings that request some placeholders."""
    settings.slack.extra_capacity_min_rate = 0.5


def failed(detail: str) -> pb.SlackDecision:
    """Return the result if the decision fails."""
    return pb.SlackDecision(result=SlackResult.SLACK_ERROR, detail=detail)


SLACK: Final = Decision(pb.Decision.SLACK, resolve_slack, decide, summarize, warm_up, failed)
