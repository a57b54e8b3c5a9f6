"""The loop of the demo: list, plan, show, act, look on for a moment, and again, until nothing more is to be removed.

This is what a caller of the two services does, in short: the planner's state is carried from answer to request, the
actuator's status goes into the next snapshot, the plan's assumptions go to the actuator. Deletions go on while the next
plan is made. Units: seconds.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2, snapshot_pb2

from clients.actuator_client import ActuatorClient
from clients.cli.amounts import counted, some
from clients.cli.demo.evidence import Picture, Witness, picture, unsettled
from clients.cli.demo.screen import Screen
from clients.cli.explain.cluster_view import ClusterView
from clients.cli.failures import FailedError
from clients.cli.moment import read_moment
from clients.cli.planners import PlannerAccess
from clients.kubernetes_objects import Objects, build_snapshot
from clients.kubernetes_objects.build import Known
from clients.kubernetes_objects.decode import add_text
from clients.kubernetes_objects.pod_rows import pod_row
from clients.live_cluster.actuation import read_status
from clients.live_cluster.pod_memory import PodMemory
from clients.reference_loop.orders import deletion_order
from clients.transport.errors import TrimtabError

INTERVAL_S = 2.5
"""From one plan to the next while deletions are in progress; upstream's default is ten."""
CHAPTER_TIMEOUT_S = 240.0
"""A demo that has not settled by then has failed; the built-in ones take a tenth."""
SETTLE_TIMEOUT_S = 20.0
SAMPLE_INTERVAL_S = 1.0
_GONE = actuator_pb2.DeletionState.DELETED


@dataclass(frozen=True)
class Actor:
    """The actuator of a chapter: where it is, and a connection to it."""

    address: str
    client: ActuatorClient


@dataclass
class Story:
    """What happened: the first and the last picture, what was planned to go, what became of it."""

    before: Picture
    after: Picture
    witness: Witness
    planned: set[str] = field(default_factory=set)
    ended: dict[str, actuator_pb2.NodeDeletion] = field(default_factory=dict)
    loops: int = 0
    # What pods were that are gone: the planner keeps room for those that were evicted lately.
    pods: PodMemory = field(default_factory=PodMemory)
    first_usage: dict[str, float] = field(default_factory=dict)
    last_usage: dict[str, float] = field(default_factory=dict)

    def failed(self) -> dict[str, str]:
        """Nodes that did not go, and why."""
        return {
            node: f"{reason_pb2.DeletionReason.Code.Name(one.reason)} {one.detail}".strip()
            for node, one in sorted(self.ended.items())
            if one.state != _GONE
        }


def run(planner: PlannerAccess, actor: Actor, settings: plan_pb2.PlanSettings, screen: Screen, name: str) -> Story:
    """Loop until a plan removes nothing and nothing is in progress."""
    first = picture(actor.client.list_objects())
    story = Story(before=first, after=first, witness=Witness(first))
    with _Sampler(actor.address, story.witness):
        deadline, request, calm = time.monotonic() + CHAPTER_TIMEOUT_S, _first_request(settings, name), False
        while time.monotonic() < deadline:
            story.loops += 1
            request.request_id = f"{name}-{story.loops}"
            request.now.CopyFrom(read_moment(None))
            answer, in_progress = _plan(planner, actor.client, request, story, screen)
            request.state.CopyFrom(answer.state)
            if answer.scale_down.delete_empty or answer.scale_down.drain:
                _start(actor.client, request, answer, story, screen)
                calm = False
            elif not in_progress:
                if calm:
                    return story
                # Pods that start just now may free a budget; what follows is the last word.
                story.after, calm = _settled(actor.client, first), True
                continue
            screen.follow(_statuses(actor.address, story))
    raise FailedError(f"after {CHAPTER_TIMEOUT_S:.0f} s there is still something to remove")


def _first_request(settings: plan_pb2.PlanSettings, name: str) -> plan_pb2.PlanRequest:
    """What is the same in each request of a chapter."""
    return plan_pb2.PlanRequest(cluster=name, decisions=[plan_pb2.Decision.SCALE_DOWN], settings=settings)


def _plan(
    planner: PlannerAccess, actuator: ActuatorClient, request: plan_pb2.PlanRequest, story: Story, screen: Screen
) -> tuple[plan_pb2.PlanResponse, int]:
    """List the cluster, plan, show; returns the answer and how many deletions are in progress."""
    status = actuator.get_status()
    _note_ended(status, story)
    snapshot = _snapshot(actuator, status, story.pods)
    started = time.monotonic()
    answer = planner.plan(snapshot, request)
    took_s = time.monotonic() - started
    story.last_usage = ClusterView(snapshot).usage()
    story.first_usage = story.first_usage or story.last_usage
    screen.plan(story.loops, answer, took_s, len(status.deletions))
    return answer, len(status.deletions)


def _snapshot(
    actuator: ActuatorClient, status: actuator_pb2.ActuatorStatus, pods: PodMemory
) -> snapshot_pb2.ClusterSnapshot:
    """Build the snapshot of the cluster as it is, with what the actuator is doing."""
    objects = Objects()
    add_text(actuator.list_objects(), "", objects)
    rows = sorted((pod_row(pod) for pod in objects.of("Pod")), key=lambda row: (row.namespace, row.name))
    pods.see(rows)
    return build_snapshot(objects, known=Known(pods=rows, actuation=read_status(status, pods).actuation)).snapshot


def _start(
    actuator: ActuatorClient, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse, story: Story, screen: Screen
) -> None:
    """Have the plan carried out; what the actuator refuses is shown and left to the next plan."""
    refused: dict[str, list[str]] = {}
    for one in actuator.start_deletion(deletion_order(request, answer)).nodes:
        if one.accepted:
            story.planned.add(one.node)
        else:
            reason = f"{reason_pb2.DeletionReason.Code.Name(one.reason)} {one.detail}".strip()
            refused.setdefault(reason, []).append(one.node)
    for reason, nodes in refused.items():
        screen.say(f"[yellow]The actuator refuses {counted(len(nodes), 'node')} ({some(nodes)}): {reason}[/yellow]")


def _note_ended(status: actuator_pb2.ActuatorStatus, story: Story) -> None:
    """Keep how deletions ended; the actuator forgets them after a while."""
    story.ended.update((one.node, one) for one in status.finished if one.node in story.planned)


def _statuses(address: str, story: Story) -> Iterator[actuator_pb2.ActuatorStatus]:
    """Yield statuses until nothing is in progress, at most for `INTERVAL_S`."""
    end = time.monotonic() + INTERVAL_S
    with ActuatorClient(address) as watcher:
        # A watch that says nothing meanwhile is ended by closing its connection.
        alarm = threading.Timer(INTERVAL_S, watcher.close)
        alarm.daemon = True
        alarm.start()
        try:
            for status in watcher.watch_status():
                _note_ended(status, story)
                yield status
                if not status.deletions or time.monotonic() > end:
                    return
        except (TrimtabError, ValueError):
            if time.monotonic() < end:
                raise
        finally:
            alarm.cancel()


def _settled(actuator: ActuatorClient, before: Picture) -> Picture:
    """Wait until every pod that was evicted is back on a node and ready, at most `SETTLE_TIMEOUT_S`."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while True:
        now = picture(actuator.list_objects())
        if not unsettled(before, now) or time.monotonic() > deadline:
            return now
        time.sleep(SAMPLE_INTERVAL_S / 4)


class _Sampler:
    """Shows the witness a picture of the cluster about each second while something goes on."""

    def __init__(self, address: str, witness: Witness) -> None:
        self._address, self._witness = address, witness
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def _sample(self) -> None:
        with ActuatorClient(self._address) as actuator:
            pause_s = SAMPLE_INTERVAL_S
            while not self._stop.wait(pause_s):
                started = time.monotonic()
                self._witness.look(picture(actuator.list_objects()))
                # On a slow machine looking must not take what the work needs.
                pause_s = max(SAMPLE_INTERVAL_S, 3 * (time.monotonic() - started))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
