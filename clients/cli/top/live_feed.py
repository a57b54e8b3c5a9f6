"""A live cluster as pictures: follow it by watches, plan every few seconds, read the actuator's status. Orders nothing.

A round that fails is tried again with growing pauses, for as long as it takes; meanwhile the sink is told why. Raises
what no repetition mends: MissingPermissionError.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.cli.amounts import some
from trimtab.clients.cli.command_options import TopOptions
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.label_groups import read_labels, refuse_labels
from trimtab.clients.cli.live.last_cluster import LastCluster, completed
from trimtab.clients.cli.live.sources import ClusterSource
from trimtab.clients.cli.live.waiting import wait_until_shown_listed
from trimtab.clients.cli.output import note, notes_collected
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import NamedSettingsLink, open_link
from trimtab.clients.cli.prices import Prices
from trimtab.clients.cli.top.feed import Feed, Picture, PictureSink
from trimtab.clients.decisions import FIELDS
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.loop.kept_state import StateConfigMap, StateKeeper
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundRunner, RoundSettings
from trimtab.common.kubernetes.errors import KubernetesError, MissingPermissionError
from trimtab.common.objects.annotated_numbers import annotations_read
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.retries import ONCE, Backoff, RetryPolicy, with_retries
from trimtab.v1 import plan_pb2

_UNTIL_IT_WORKS: Final = RetryPolicy(math.inf, math.inf, Backoff(1.0, 30.0))


@dataclass(frozen=True)
class LiveCalls:
    """What a live feed uses. rounds : makes plans, and orders nothing; last : gets each of them; troubles : returns
    what the cluster's watches report, by kind; name : of the cluster.
    """

    rounds: RoundRunner
    last: LastCluster
    troubles: Callable[[], Mapping[str, str]]
    name: str
    prices: Prices | None = None
    interval_s: float = 5.0


class LiveFeed(Feed):
    """Pictures of a live cluster."""

    is_live = True

    def __init__(self, calls: LiveCalls) -> None:
        self._calls = calls
        self._stopped = threading.Event()
        self._count = 0

    def run(self, sink: PictureSink) -> None:
        """Make rounds until stopped."""
        with notes_collected():
            while not self._stopped.is_set():
                begun_s = time.monotonic()
                if not self.is_paused and not self._made(sink):
                    return
                self._stopped.wait(max(0.1, self._calls.interval_s - (time.monotonic() - begun_s)))

    def _made(self, sink: PictureSink) -> bool:
        """Make a round, repeat it while it fails, and show it; return whether it was made, rather than stopped."""

        def tell(error: BaseException, attempt: int, pause_s: float) -> None:
            sink.say(f"{error} (attempt {attempt}, next in {pause_s:.0f} s)")

        try:
            picture = with_retries(
                self._picture, lambda error: _UNTIL_IT_WORKS if _may_pass(error) else None, self._stopped, tell
            )
        except (TrimtabError, KubernetesError) as error:
            if self._stopped.is_set() and _may_pass(error):
                return False
            raise
        sink.show(picture)
        troubles = self._calls.troubles()
        if troubles:
            kinds = some([f"{kind}: {why}" for kind, why in sorted(troubles.items())], 1)
            sink.say(f"the cluster is not followed at present: {kinds}")
        return True

    def _picture(self) -> Picture:
        self._count += 1
        now = Timestamp()
        now.GetCurrentTime()
        done = self._calls.rounds.run(f"top-{self._count}", now, lambda: False)
        answer = self._calls.last.answer(self._calls.prices)
        assert answer is not None, "a round was made"
        return Picture(answer, done.status, self._calls.name)

    def stop(self) -> None:
        """End `run`, after the call in progress."""
        self._stopped.set()


def _may_pass(error: BaseException) -> bool:
    """Return whether another attempt may succeed."""
    return isinstance(error, TrimtabError | KubernetesError) and not isinstance(error, MissingPermissionError)


STATE_MAX_AGE_S: Final = 300.0
"""As `trimtab run --state-max-age`."""


@contextmanager
def live_feed(given: CommandOptions, options: TopOptions) -> Iterator[LiveFeed]:
    """Connect to the cluster, list it, and prepare rounds. Errors: UsageError, FailedError, KubernetesError."""
    if len(given.contexts) > 1:
        raise UsageError("trimtab top shows one cluster; give --context once")
    source = ClusterSource(
        given.kubeconfig, (given.contexts or ("",))[0], given.files, given.settings, changes=given.set_values
    )
    settings, groups = source.plan_settings(), source.groups()
    labels = read_labels(given.group_by)
    offers = given.offers_of_file.offers if given.offers_of_file is not None else None
    if groups:
        refuse_labels(labels)
    with ExitStack() as stack:
        link = stack.enter_context(open_link(given.planner))
        actuator = stack.enter_context(ActuatorClient(options.actuator, ONCE)) if options.actuator else None
        api = source.api()
        cluster = stack.enter_context(LiveCluster(api, numbers=annotations_read(settings)))
        wait_until_shown_listed(cluster)
        last = LastCluster()
        planned = RoundSettings(
            cluster=options.cluster_name, decisions=_decisions(settings), plan=settings, groups=groups, dry_run=True
        )
        rounds = RoundRunner(
            cluster,
            PlannerSession(NamedSettingsLink(link, given.settings)),
            actuator,
            completed(planned, cluster, lambda _, text: note(text), labels, given.prices_of_file, offers),
            last,
        )
        if options.state_map:
            namespace, _, name = options.state_map.partition("/")
            place = StateConfigMap(api, namespace, name)
            rounds.resume(_timers(StateKeeper(place, options.cluster_name, STATE_MAX_AGE_S)))
        name = options.cluster_name or source.context or "current context"
        yield LiveFeed(
            LiveCalls(rounds, last, lambda: cluster.troubles, name, given.prices_of_file, options.interval_s)
        )


def _decisions(settings: plan_pb2.PlanSettings) -> tuple[plan_pb2.Decision.Code.ValueType, ...]:
    """Return what is planned: all but pod deletion costs, which the screen does not show."""
    usual = (plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN, plan_pb2.Decision.SLACK)
    others = (
        code
        for field, code in FIELDS.items()
        if code not in (*usual, plan_pb2.Decision.POD_COSTS) and settings.HasField(field)  # type: ignore[arg-type]
    )
    return (*usual, *others)


def _timers(keeper: StateKeeper) -> plan_pb2.PlanState | None:
    """Return the timers of the loop that runs there, so that both count alike; None = there are none to be read."""
    try:
        return keeper.load(time.time())
    except KubernetesError as error:
        note(f"timers start anew, those of the running loop cannot be read: {error}")
        return None
