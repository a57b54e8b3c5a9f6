"""A round in one line for people: what was started, refused or only proposed, what can go later, what stays pending.
Numbers that change from round to round without a decision, such as that of the pods, are left out: the line of a round
in which nothing has changed is that of the round before.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from trimtab.clients.loop.replacing import in_progress
from trimtab.clients.loop.rounds import REFUSED_REPLACEMENT, RoundResult
from trimtab.places import on_new_nodes
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2
from trimtab.words import counted

MOST_NAMES: Final = 5


def round_text(done: RoundResult) -> str:
    """Return the line of a round."""
    happened = [*_growth(done), *_removal(done), *_replacement(done), *_waiting(done.answer)]
    nodes = done.answer.diagnostics.node_count
    return "; ".join([counted(nodes, "node"), *(happened or ["nothing to do"]), *done.notes])


def _growth(done: RoundResult) -> Iterator[str]:
    """Yield a clause for each node group that grows, should grow, or was refused."""
    pods = on_new_nodes(done.answer.scale_up)
    for split in done.answer.scale_up.splits:
        size = f"from {split.current_size:,} to {split.new_size:,} for {counted(len(pods[split.node_group]), 'pod')}"
        group = split.node_group
        if group in done.grown:
            yield f"{group} grows {size}"
        elif group in done.refused:
            yield f"{group} does not grow {size}: {done.refused[group]}"
        else:
            yield f"{group} should grow {size}"


def _removal(done: RoundResult) -> Iterator[str]:
    """Yield which nodes go, should go, or were refused, and how many can go later."""
    decision = done.answer.scale_down
    planned = [*decision.delete_empty, *decision.drain]
    drained = set(decision.drain)
    if done.accepted:
        yield f"{_some(done.accepted)} {'goes' if len(done.accepted) == 1 else 'go'}{_drains(done.accepted, drained)}"
    for node in planned:
        if node in done.refused:
            yield f"{node} stays: {done.refused[node]}"
    proposed = [node for node in planned if node not in done.refused and node not in done.accepted]
    if proposed:
        yield f"{_some(proposed)} should go{_drains(proposed, drained)}"
    later = len(decision.unneeded) - len(planned)
    if later > 0:
        yield f"{counted(later, 'node')} can go later"
    if decision.result == reason_pb2.ScaleDownResult.SCALE_DOWN_CLUSTER_UNHEALTHY:
        yield "too many nodes are unready for scale-down"


def _replacement(done: RoundResult) -> Iterator[str]:
    """Yield what is being replaced, what should be, or why not."""
    for one in in_progress(done.status):
        stage = actuator_pb2.ReplacementStage.Code.Name(one.stage)
        yield f"replacement of {_some([node.node for node in one.leaving])}: {stage}"
    waves = done.answer.replacement.waves
    if done.replaced:
        yield f"{_some(done.replaced)} {'is' if len(done.replaced) == 1 else 'are'} being replaced"
    elif REFUSED_REPLACEMENT in done.refused:
        yield f"no replacement: {done.refused[REFUSED_REPLACEMENT]}"
    elif waves:
        leaving = sum(len(wave.leaving) for wave in waves)
        new = sum(len(wave.new_nodes) for wave in waves)
        saving = sum(wave.saving_per_hour for wave in waves)
        yield f"{counted(leaving, 'node')} could be replaced by {new:,}, which saves {saving:.2f} an hour"


def _waiting(answer: plan_pb2.PlanResponse) -> Iterator[str]:
    """Yield how many pods and placeholders wait in vain."""
    count = sum(len(one.pods) for one in answer.scale_up.unschedulable)
    if count:
        yield f"{counted(count, 'pod')} {'stays' if count == 1 else 'stay'} pending"
    lacking = sum(not one.node for one in answer.slack.placeholders)
    if lacking:
        yield f"room for {counted(lacking, 'placeholder')} is missing"


def _drains(nodes: Sequence[str], drained: set[str]) -> str:
    count = sum(node in drained for node in nodes)
    if not count:
        return ""
    return " after a drain" if count == len(nodes) else f", {count:,} of them after a drain"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES:,} more nodes" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"
