"""Slack as one of the decisions of a plan: its entry in the table, and its loop.

Each loop determines the currently requested room; the placeholders, as far as possible those of the last loop; which of
them keep their nodes, and the places of the others. They remain in the round's simulation, where later decisions find
them: those on a node take room there, those on none wait for a new one. Never reads a clock; its memory comes in and
goes out as state.
"""

from collections.abc import Mapping
from functools import partial
from itertools import chain, repeat
from typing import Final

from trimtab.planner.facts.leaving import being_deleted
from trimtab.planner.facts.readiness import is_ready
from trimtab.planner.round.decision import Decided, Decision, Summary
from trimtab.planner.round.round import HeldRoom, Round
from trimtab.planner.slack.answer import Outcome, answer, summary_of
from trimtab.planner.slack.objects import object_requests
from trimtab.planner.slack.parts import parts
from trimtab.planner.slack.places import PlaceholderNames, arrange, roster
from trimtab.planner.slack.rooms import Rooms, node_rooms
from trimtab.planner.slack.sets import SetInputs, damped_names, wanted
from trimtab.planner.slack.settings import SlackSettings, resolve_slack
from trimtab.planner.slack.state import recall
from trimtab.planner.slack.waiting import place_pods
from trimtab.planner.slack.without import Without
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.v1 import plan_pb2 as pb


def decide(this: Round, settings: SlackSettings, state: pb.SlackState | None) -> Decided:
    """Take the slack decision. Raises MoveLogFullError."""
    snapshot = this.snapshot
    previous, notes = recall(
        state, partial(this.work.derive, "rows of nodes", partial(_rows, snapshot), ("nodes.name",))
    )
    leaving = being_deleted(snapshot, this.now_ns)
    its_parts = parts(snapshot, settings, leaving)
    given = SetInputs(settings, _rooms(this, settings), this.now_ns, previous.sizes(damped_names(its_parts)))
    requests = object_requests(snapshot, settings.smaller_buffers, this.work.derive)
    all_wanted = wanted(given, its_parts, requests)
    kept = roster(all_wanted.sets, all_wanted.sizes, previous, snapshot)
    names = PlaceholderNames(kept)
    pods = tuple(chain.from_iterable(repeat(one.pod, one.number) for one in kept.sets))
    without = Without(given, its_parts, kept.sets)
    this.hold_room(HeldRoom(names, kept.bounds, without.numbers, without.kind), pods, all_wanted.kinds)
    first = this.simulation.pod_count + len(this.evictions)
    if names:
        place_pods(this, leaving)
    placed = arrange(this.simulation, kept, first, is_ready(snapshot, this.settings.not_ready_taints) & ~leaving)
    return answer(this, Outcome(requests, all_wanted, kept, placed, names), notes)


def _rows(snapshot: Snapshot) -> Mapping[str, int]:
    """Return the row of each node by its name."""
    return {name: node for node, name in enumerate(snapshot.nodes.name)}


def _rooms(this: Round, settings: SlackSettings) -> Rooms:
    snapshot = this.snapshot
    rooms = partial(this.work.derive, "room of empty nodes", partial(node_rooms, snapshot, this.work.derive))
    return Rooms(snapshot, rooms, settings.ignored_pods)


def summarize(result: pb.SlackDecision) -> Summary:
    """Return the figures of a whole result for logs and metrics."""
    return summary_of(result, len(result.placeholders), [one.node for one in result.placeholders].count(""))


def warm_up(settings: pb.PlanSettings) -> None:
    """Choose settings that request some placeholders."""
    settings.slack.extra_capacity_min_rate = 0.5


SLACK: Final = Decision(pb.Decision.SLACK, resolve_slack, decide, summarize, warm_up)
