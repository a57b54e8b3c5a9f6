"""The loop of the demo: list, plan, show, act, follow, until nothing more is to be removed.

This is what a caller of the two services does, in short: the planner's state is carried from answer to request, the
actuator's status goes into the next snapshot, the plan's assumptions go to the actuator. Units: seconds.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2, snapshot_pb2

from clients.actuator_client import ActuatorClient
from clients.cli.amounts import counted
from clients.cli.demo.actuation import add_actuation
from clients.cli.demo.evidence import Picture, picture, unsettled
from clients.cli.demo.screen import Screen
from clients.cli.explain.cluster_view import ClusterView
from clients.cli.failures import FailedError
from clients.cli.moment import read_moment
from clients.cli.plan_tables import print_scale_down
from clients.cli.planners import PlannerAccess
from clients.kubernetes_objects import Objects, build_snapshot
from clients.kubernetes_objects.decode import add_text

MOST_LOOPS = 40
"""Far more than any of the built-in clusters needs; a demo that does not settle has failed."""
LOOP_TIMEOUT_S = 120.0
SETTLE_TIMEOUT_S = 15.0
SAMPLE_INTERVAL_S = 0.5
_ENDED = {actuator_pb2.DeletionState.DELETED, actuator_pb2.DeletionState.FAILED, actuator_pb2.DeletionState.CANCELLED}


@dataclass
class Story:
    """What happened: pictures from the first to the last, nodes that were planned to go, failures by node."""

    before: Picture
    after: Picture
    samples: list[Picture] = field(default_factory=list)
    planned: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    loops: int = 0
    first_usage: dict[str, float] = field(default_factory=dict)
    last_usage: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Actor:
    """The actuator of a chapter: where it is, and a connection to it."""

    address: str
    client: ActuatorClient


def run(planner: PlannerAccess, actor: Actor, settings: plan_pb2.PlanSettings, screen: Screen, name: str) -> Story:
    """Loop until a plan removes nothing."""
    actuator = actor.client
    first = picture(actuator.list_objects())
    story = Story(before=first, after=first)
    state: plan_pb2.PlanState | None = None
    for number in range(1, MOST_LOOPS + 1):
        snapshot = _snapshot(actuator)
        request = plan_pb2.PlanRequest(
            request_id=f"{name}-{number}",
            cluster=name,
            decisions=[plan_pb2.Decision.SCALE_DOWN],
            now=read_moment(None),
            settings=settings,
            state=state,
        )
        started = time.monotonic()
        answer = planner.plan(snapshot, request)
        took_ms = 1000 * (time.monotonic() - started)
        state, story.loops = answer.state, number
        story.last_usage = ClusterView(snapshot).usage()
        story.first_usage = story.first_usage or story.last_usage
        screen.say(f"\n[bold]Loop {number}[/bold] [dim](planned in {took_ms:.0f} ms, the whole call)[/dim]")
        print_scale_down(screen.console, answer.scale_down, request.now.ToNanoseconds())
        if not _act(actor, request, answer, screen, story):
            return story
    raise FailedError(f"after {MOST_LOOPS} loops there is still something to remove")


def _act(
    actor: Actor,
    request: plan_pb2.PlanRequest,
    answer: plan_pb2.PlanResponse,
    screen: Screen,
    story: Story,
) -> bool:
    """Have the plan carried out and wait for its end; returns whether there was anything to do."""
    actuator, order = actor.client, deletion_order(request, answer)
    if not order.nodes:
        return False
    with _sampling(actuator, story):
        refused = [one for one in actuator.start_deletion(order).nodes if not one.accepted]
        for one in refused:
            reason = reason_pb2.DeletionReason.Code.Name(one.reason)
            screen.say(f"[yellow]The actuator refuses {one.node}: {reason} {one.detail}[/yellow]")
        count = len(order.nodes) - len(refused)
        if not count:
            raise FailedError("the actuator refused every node of the plan")
        screen.follow(_until_done(actor.address, order.request_id, count), order.request_id, count)
        story.after = _settled(actuator, story.before)
    ended = [one for one in actuator.get_status().finished if one.request_id == order.request_id]
    for deletion in ended:
        if deletion.state == actuator_pb2.DeletionState.DELETED:
            story.planned.append(deletion.node)
        else:
            why = reason_pb2.DeletionReason.Code.Name(deletion.reason)
            story.failed[deletion.node] = f"{why} {deletion.detail}".strip()
    gone = sum(one.node in story.planned for one in ended)
    screen.say(f"[green]Done:[/green] {gone} of {counted(count, 'node')} are gone, the pods are back.")
    return True


def deletion_order(
    request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse
) -> actuator_pb2.StartDeletionRequest:  # fmt: skip
    """Return a plan as the actuator takes it: what to remove, what the plan assumed, the limits it kept."""
    decision, limits = answer.scale_down, request.settings.scale_down
    assumptions = {node.node: node.assumption for node in decision.unneeded}
    drained = set(decision.drain)
    return actuator_pb2.StartDeletionRequest(
        request_id=request.request_id,
        nodes=[
            actuator_pb2.NodeToDelete(node=node, drain=node in drained, assumption=assumptions[node])
            for node in (*decision.delete_empty, *decision.drain)
        ],
        plan_time=request.now,
        snapshot_version=answer.snapshot_version,
        max_parallelism=limits.max_scale_down_parallelism,
        max_drain_parallelism=limits.max_drain_parallelism,
    )


def _until_done(address: str, request_id: str, count: int) -> Iterator[actuator_pb2.ActuatorStatus]:
    """Yield statuses until all deletions of the request have ended, at most `LOOP_TIMEOUT_S`."""
    with ActuatorClient(address) as watcher:
        # A watch that says nothing any more is ended by closing its connection.
        alarm = threading.Timer(LOOP_TIMEOUT_S, watcher.close)
        alarm.daemon = True
        alarm.start()
        try:
            for status in watcher.watch_status():
                yield status
                ended = [one for one in status.finished if one.request_id == request_id and one.state in _ENDED]
                if len(ended) >= count:
                    return
        finally:
            alarm.cancel()


@contextmanager
def _sampling(actuator: ActuatorClient, story: Story) -> Iterator[None]:
    """Take pictures of the cluster while something goes on, for the evidence about budgets."""
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(SAMPLE_INTERVAL_S):
            story.samples.append(picture(actuator.list_objects()))

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield
    finally:
        stop.set()
        sampler.join()
        story.samples.append(picture(actuator.list_objects()))


def _snapshot(actuator: ActuatorClient) -> snapshot_pb2.ClusterSnapshot:
    """Build the snapshot of the cluster as it is, with what the actuator is doing."""
    objects = Objects()
    add_text(actuator.list_objects(), "", objects)
    snapshot = build_snapshot(objects).snapshot
    add_actuation(snapshot, actuator.get_status(without_finished=True))
    return snapshot


def _settled(actuator: ActuatorClient, before: Picture) -> Picture:
    """Wait until every pod that was evicted is back on a node and ready, at most `SETTLE_TIMEOUT_S`."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while True:
        now = picture(actuator.list_objects())
        if not unsettled(before, now) or time.monotonic() > deadline:
            return now
        time.sleep(SAMPLE_INTERVAL_S)
