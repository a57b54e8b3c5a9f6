"""Gangs in answers, in sentences: what each that has no places lacks."""

from collections.abc import Iterator

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.v1 import plan_pb2, reason_pb2

MOST_GANGS = 5


def lacking_lines(decision: plan_pb2.ScaleUpDecision, *, every: bool) -> Iterator[str]:
    """Yield what becomes of gangs, and a sentence for each without places. every : not only the first ones."""
    whole = [one for one in decision.gangs if not one.reason and one.placed_count]
    if whole:
        pods = sum(one.placed_count for one in whole)
        new = sum(one.on_new_nodes_count for one in whole)
        yield f"{counted(len(whole), 'gang')} can start whole: {counted(pods, 'pod')}, {new:,} of them on new nodes."
    lacking = [one for one in decision.gangs if one.reason]
    shown = lacking if every else lacking[:MOST_GANGS]
    yield from (f"Gang {gang_sentence(one)}" for one in shown)
    if len(lacking) > len(shown):
        yield f"{counted(len(lacking) - len(shown), 'more gang')} without places (--verbose shows all)."


def gang_sentence(gang: plan_pb2.GangResult) -> str:
    """Return what becomes of a gang, with its name."""
    if not gang.reason:
        domain = f", all in {gang.domain}" if gang.domain else ""
        running = gang.bound_count + gang.placed_count
        return f"{gang.group} can start whole: {running:,} of at least {gang.min_count:,} pods have places{domain}."
    return f"{gang.group} gets no places: {gang.detail} ({reason_pb2.GangReason.Code.Name(gang.reason)})."


def gang_of(view: ClusterView, pod: ShownPod, decision: plan_pb2.ScaleUpDecision) -> plan_pb2.GangResult | None:
    """Return what a decision says of the gang of a pod; None if it is in none."""
    key = view.group_of(pod)
    return result_of(key, decision) if key else None


def result_of(key: str, decision: plan_pb2.ScaleUpDecision) -> plan_pb2.GangResult | None:
    """Return what a decision says of a gang, "namespace/name"; None if nothing."""
    return next((one for one in decision.gangs if one.group == key), None)
