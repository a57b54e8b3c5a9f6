"""The loop of the demo: list, plan, show, act, watch for a moment, and repeat until there is nothing left to change. In
short, this is what a caller of the two services does: it passes the planner's state from answer to request, the
actuator's status into the next snapshot, and the plan's assumptions to the actuator. Deletions continue while the next
plan is made. If the scenario requires it, the actuator is killed once, in the middle of a drain; while it is
down there are neither pictures nor statuses, and both continue once it is back. Units: seconds.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.cli.amounts import counted, some
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.blocks import Sentence, Style, led
from trimtab.clients.cli.demo import burst as burst_workload
from trimtab.clients.cli.demo.burst import DemoBurst
from trimtab.clients.cli.demo.evidence import ClusterPicture, Witness, picture, unsettled
from trimtab.clients.cli.demo.screen import Screen
from trimtab.clients.cli.demo.services import ActuatorProcess
from trimtab.clients.cli.documents import read_now
from trimtab.clients.cli.failures import FailedError
from trimtab.clients.cli.prices import Prices
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.loop.rounds import deletion_order
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.objects import Objects
from trimtab.common.objects.build import Prebuilt, build_watched_snapshot
from trimtab.common.objects.decode import add_text
from trimtab.common.objects.pod_rows import pod_row
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.watched.actuation import read_status
from trimtab.common.watched.pod_history import PodHistory
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2, snapshot_pb2

CHAPTER_TIMEOUT_S = 240.0
"""A demo that has not settled by then has failed; the built-in ones take a tenth of this."""
SETTLE_TIMEOUT_S = 20.0
_DRAIN_POLL_S, _DRAIN_TIMEOUT_S = 0.05, 5.0
_State = actuator_pb2.DeletionState


@dataclass(frozen=True)
class DemoSettings:
    """The settings of each loop; whether the actuator is killed during a drain, and whether a burst follows. prices :
    those of a file, None = none is given. name : of the cluster in requests and of its files; kill : whether the
    actuator is killed.
    """

    name: str
    settings: plan_pb2.PlanSettings
    kill: bool = False
    burst: bool = False
    prices: Prices | None = None


@dataclass(frozen=True)
class Crash:
    """A kill of the actuator: `nodes` being deleted then, how many of them were draining, how long it was down.
    `away_s` : seconds.
    """

    nodes: frozenset[str]
    draining: int
    away_s: float


@dataclass
class Story:
    """What happened: the first and last pictures, the plans, the nodes to be deleted, and the results. `before`,
    `after` : the pictures; `witness` : records budgets that are violated between them; `planned` : names of nodes to be
    deleted; `ended` : results by node; `answers` : one of each loop; `crash` : None = the actuator was not killed.
    """

    before: ClusterPicture
    after: ClusterPicture
    witness: Witness
    planned: set[str] = field(default_factory=set)
    ended: dict[str, actuator_pb2.NodeDeletion] = field(default_factory=dict)
    answers: list[PlanAnswer] = field(default_factory=list)
    crash: Crash | None = None
    # When nothing was left to remove, before the burst.
    shrunk: PlanAnswer | None = None
    burst: DemoBurst | None = None
    # Pods that are gone; the planner keeps room for recently evicted ones.
    pods: PodHistory = field(default_factory=PodHistory)

    def failed(self) -> dict[str, str]:
        """Nodes that were not deleted, and why."""
        return {
            node: f"{reason_pb2.DeletionReason.Code.Name(one.reason)} {one.detail}".strip()
            for node, one in sorted(self.ended.items())
            if one.state != _State.DELETED
        }


ShowFirst = Callable[[plan_pb2.PlanRequest, PlanAnswer], None]
"""Shows the first answer before it is carried out, given its request."""


def run(
    planner: PlannerClient, actuator: ActuatorProcess, scenario: DemoSettings, screen: Screen, show_first: ShowFirst
) -> Story:
    """Loop until a plan changes nothing and nothing is in progress; then again with a burst, and once it is over."""
    with ActuatorClient(actuator.address) as client:
        first = picture(client.list_objects())
    story = Story(before=first, after=first, witness=Witness(first))
    loop = _ScenarioLoop(planner, actuator, scenario, screen, story, show_first)
    with Sampler(actuator, story.witness):
        loop.until_calm()
        story.shrunk = story.answers[-1]
        if scenario.burst:
            loop.burst()
    return story


class _ScenarioLoop:
    """The rounds of one scenario and their data."""

    def __init__(
        self,
        planner: PlannerClient,
        actuator: ActuatorProcess,
        scenario: DemoSettings,
        screen: Screen,
        story: Story,
        show_first: ShowFirst,
    ) -> None:
        self._show_first = show_first
        self._planner, self._actuator, self._scenario = planner, actuator, scenario
        self._screen, self._story = screen, story
        self._deadline = time.monotonic() + CHAPTER_TIMEOUT_S
        # When all pods were last found ready.
        self._settled_at = 0.0
        decisions = [plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN]
        self._request = plan_pb2.PlanRequest(cluster=scenario.name, decisions=decisions, settings=scenario.settings)

    def until_calm(self) -> None:
        """Make rounds until a plan changes nothing and nothing is in progress."""
        story, calm = self._story, False
        while time.monotonic() < self._deadline:
            started, in_progress = self._round()
            if started and self._scenario.kill and story.crash is None:
                story.crash = _kill_in_a_drain(self._actuator, story)
                self._screen.crash(len(story.crash.nodes), story.crash.draining, story.crash.away_s)
            if started:
                calm = False
            elif not in_progress:
                if calm:
                    return
                # Pods that are still starting may allow more disruptions; the plan after that is the last one.
                story.after, calm = _settled(self._actuator, story.before), True
                self._settled_at = time.monotonic()
                continue
            self._screen.follow(_noted(statuses(self._actuator.address), story))
        raise FailedError(f"after {CHAPTER_TIMEOUT_S:.0f} s the cluster still changes")

    def burst(self) -> None:
        """Scale a workload to many pods and, once they are served, to none; run the loop until calm both times."""
        story = self._story
        burst = story.burst = DemoBurst(story.after, story.after, story.after)
        began = time.monotonic()
        self._scale(burst_workload.POD_COUNT)
        pods = counted(burst_workload.POD_COUNT, "pod")
        self._screen.show(led(Style.WARNING, "A burst:", f" {pods} of {burst_workload.CPU} cores each are created."))
        self.until_calm()
        burst.peak, burst.peak_answer, burst.served_s = story.after, story.answers[-1], self._settled_at - began
        self._scale(0)
        self._screen.show(led(Style.WARNING, "The burst ends:", " its pods are deleted."))
        self.until_calm()
        burst.after = story.after

    def _scale(self, replicas: int) -> None:
        with ActuatorClient(self._actuator.address) as client:
            client.scale_replica_set(burst_workload.NAMESPACE, burst_workload.replica_set_name(), replicas)

    def _round(self) -> tuple[bool, int]:
        """List, plan, show, act; return whether anything was started and how many deletions were in progress before."""
        story, request = self._story, self._request
        with ActuatorClient(self._actuator.address) as client:
            status = client.get_status()
            _note_ended(status, story)
            snapshot = _snapshot(client, status, story.pods)
            request.request_id = f"{request.cluster}-{len(story.answers) + 1}"
            request.now.CopyFrom(read_now(None))
            started = time.monotonic()
            response = self._planner.plan(snapshot, request)
            now_ns, prices = request.now.ToNanoseconds(), self._scenario.prices
            answer = PlanAnswer(response, ClusterView(snapshot), request.settings, now_ns, prices=prices)
            took_s = time.monotonic() - started - _compiling_s(response)
            story.answers.append(answer)
            if len(story.answers) == 1:
                self._show_first(request, answer)
            self._screen.plan(answer, took_s, len(status.deletions))
            request.state.CopyFrom(response.state)
            grows = bool(response.scale_up.splits)
            if grows:
                self._grow(client, response)
            going = bool(response.scale_down.delete_empty or response.scale_down.drain)
            if going:
                _start(client, request, response, story, self._screen)
        return grows or going, len(status.deletions)

    def _grow(self, actuator: ActuatorClient, answer: plan_pb2.PlanResponse) -> None:
        """Request the growth of node groups; refusals are shown and left to the next plan."""
        splits = {split.node_group: split for split in answer.scale_up.splits}
        for one in actuator.scale_up(self._request.request_id, list(splits.values())).splits:
            if not one.accepted:
                reason = f"{reason_pb2.GrowthReason.Code.Name(one.reason)} {one.detail}".strip()
                self._screen.show(Sentence(f"The actuator refuses to grow {one.node_group}: {reason}", Style.WARNING))
            elif self._story.burst:
                split = splits[one.node_group]
                self._story.burst.note(one.node_group, split.current_size, split.new_size)
                self._story.burst.price_per_hour += split.price_per_hour


def _compiling_s(answer: plan_pb2.PlanResponse) -> float:
    """Return how long the planner compiled for an answer."""
    return sum(stage.duration.ToNanoseconds() for stage in answer.diagnostics.stages if stage.stage == "compile") / 1e9


def _snapshot(
    actuator: ActuatorClient, status: actuator_pb2.ActuatorStatus, pods: PodHistory
) -> snapshot_pb2.ClusterSnapshot:
    """Build the snapshot of the cluster, including the actuator's status."""
    objects = Objects()
    add_text(actuator.list_objects(), "", objects)
    rows = sorted((pod_row(pod) for pod in objects.of("Pod")), key=lambda row: (row.namespace, row.name))
    pods.see(rows)
    return build_watched_snapshot(objects, Prebuilt(rows, read_status(status, pods).actuation)).snapshot


def _start(
    actuator: ActuatorClient, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse, story: Story, screen: Screen
) -> None:
    """Start the plan's deletions; refusals are shown and left to the next plan."""
    refused: dict[str, list[str]] = {}
    for node in actuator.start_deletion(deletion_order(request, answer)).nodes:
        if node.accepted:
            story.planned.add(node.node)
        else:
            reason = f"{reason_pb2.DeletionReason.Code.Name(node.reason)} {node.detail}".strip()
            refused.setdefault(reason, []).append(node.node)
    for reason, nodes in refused.items():
        text = f"The actuator refuses {counted(len(nodes), 'node')} ({some(nodes)}): {reason}"
        screen.show(Sentence(text, Style.WARNING))


def _kill_in_a_drain(actuator: ActuatorProcess, story: Story) -> Crash:
    """Wait until pods are being evicted, then kill the actuator and start it again."""
    deadline = time.monotonic() + _DRAIN_TIMEOUT_S
    with ActuatorClient(actuator.address) as client:
        while True:
            status = client.get_status()
            _note_ended(status, story)
            draining = [one for one in status.deletions if one.state == _State.DRAINING and one.pods_gone_count]
            if draining or time.monotonic() > deadline:
                break
            time.sleep(_DRAIN_POLL_S)
    away_s = actuator.kill_and_restart()
    return Crash(frozenset(one.node for one in status.deletions), len(draining), away_s)


def _note_ended(status: actuator_pb2.ActuatorStatus, story: Story) -> None:
    """Keep the results of deletions; the actuator forgets them after a while."""
    story.ended.update((one.node, one) for one in status.finished if one.node in story.planned)


def _noted(found: Iterator[actuator_pb2.ActuatorStatus], story: Story) -> Iterator[actuator_pb2.ActuatorStatus]:
    """Pass statuses through, and keep the results of deletions."""
    for status in found:
        _note_ended(status, story)
        yield status


def _settled(actuator: ActuatorProcess, before: ClusterPicture) -> ClusterPicture:
    """Wait until every evicted pod is back on a node and ready, at most `SETTLE_TIMEOUT_S`."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    with ActuatorClient(actuator.address) as client:
        while True:
            now = picture(client.list_objects())
            if not unsettled(before, now) or time.monotonic() > deadline:
                return now
            time.sleep(SAMPLE_INTERVAL_S / 2)


INTERVAL_S = 1.0
"""Time from one plan to the next while deletions are in progress; upstream's default is ten."""
SAMPLE_INTERVAL_S = 0.5


def statuses(address: str) -> Iterator[actuator_pb2.ActuatorStatus]:
    """Yield statuses until nothing is in progress, at most for `INTERVAL_S`."""
    end = time.monotonic() + INTERVAL_S
    with ActuatorClient(address) as watcher:
        # Closing the connection ends a watch that receives nothing.
        alarm = threading.Timer(INTERVAL_S, watcher.close)
        alarm.daemon = True
        alarm.start()
        try:
            for status in watcher.watch_status():
                yield status
                if not status.deletions or time.monotonic() > end:
                    return
        except (TrimtabError, ValueError):
            if time.monotonic() < end:
                raise
        finally:
            alarm.cancel()


class Sampler:
    """Gives the witness a picture of the cluster about twice a second while the context is open."""

    def __init__(self, actuator: ActuatorProcess, witness: Witness) -> None:
        self._actuator, self._witness = actuator, witness
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def _sample(self) -> None:
        pause_s = SAMPLE_INTERVAL_S
        while not self._stop.wait(pause_s):
            started = time.monotonic()
            try:
                with ActuatorClient(self._actuator.address) as client:
                    self._witness.look(picture(client.list_objects()))
            except TrimtabError:
                continue
            # On a slow machine the samples must not slow down the actual work.
            pause_s = max(SAMPLE_INTERVAL_S, 3 * (time.monotonic() - started))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
