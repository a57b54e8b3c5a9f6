"""`trimtab top`: choose the source, then show it: on a terminal until the user leaves, else once as plain text.

Without FILE the source is a live cluster, which is watched; `--once` only lists it. Nothing is ever ordered or written.
With `--web` a page is served instead.
"""

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.progress import Progress, SpinnerColumn, TextColumn

from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.command_options import TopOptions
from trimtab.clients.cli.decisions import default_decisions
from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.label_groups import read_labels, refuse_labels
from trimtab.clients.cli.live.last_cluster import LastCluster, completed
from trimtab.clients.cli.live.sources import ClusterSource, cluster_failures
from trimtab.clients.cli.live.stopping import Stopping
from trimtab.clients.cli.live.waiting import LIST_TIMEOUT_S
from trimtab.clients.cli.output import PIPED_WIDTH, note, stderr_console
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import NamedSettingsLink, open_link, open_planner
from trimtab.clients.cli.top.feed import Feed, FirstPicture, Picture, StillFeed
from trimtab.clients.cli.top.layout import plain_lines
from trimtab.clients.cli.top.live_feed import LiveCalls, LiveFeed
from trimtab.clients.cli.top.recorded_feed import RecordedFeed, read_recording
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.decisions import FIELDS
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.loop.kept_state import StateConfigMap, StateKeeper
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundRunner, RoundSettings
from trimtab.common.documents.bounded_input import STANDARD_INPUT
from trimtab.common.kubernetes.errors import KubernetesError
from trimtab.common.objects.annotated_numbers import annotations_read
from trimtab.common.recording import is_recording
from trimtab.common.rpc.access import Review, open_access
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.extras import require_extra
from trimtab.common.rpc.port_security import PortSecurity
from trimtab.common.rpc.retries import ONCE
from trimtab.common.rpc.telemetry import configure_logging, terminal_format
from trimtab.v1 import plan_pb2

STATE_MAX_AGE_S: Final = 300.0
"""As `trimtab run --state-max-age`."""


def top(given: CommandOptions, asked: TopOptions) -> None:
    """Show the source. given : its files, contexts, settings, prices and planner. Errors: those of commands."""
    if asked.output.form != "table":
        raise UsageError("-o json and yaml are for --status; the screen is text, and /screen.json of --web is JSON")
    is_once = asked.once or not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb"
    if asked.policy is not None and not asked.web:
        raise UsageError("--policy is for the page of --web; omit it, or give --web")
    if asked.web and asked.once:
        raise UsageError("--web serves a page until it is stopped; omit --once")
    if not is_once and not asked.web:
        require_extra("top", "the live screen of trimtab top, without --once,")
    configure_logging("warning" if asked.web else "critical", terminal_format())
    with cluster_failures(), _feed(given, asked, is_once=is_once and not asked.web) as feed:
        if asked.web:
            _serve(feed, asked)
        elif is_once:
            _print_once(feed)
        else:
            _show(feed)


def _serve(feed: Feed, asked: TopOptions) -> None:
    """Serve a feed as a page until SIGTERM or SIGINT; on the network for callers with a certificate of the CA."""
    from trimtab.clients.cli.top.web import LastPicture, WebPort

    ours = ChannelSecurity.from_environment()
    security = PortSecurity(
        cert=ours.tls_cert,
        key=ours.tls_key,
        client_ca=None if asked.allow_anonymous_on_network or ours.tls_cert is None else ours.tls_ca,
        allow_plaintext=asked.allow_plaintext_on_network,
        allow_anonymous=asked.allow_anonymous_on_network,
    )
    last, stopped, stopping = LastPicture(), threading.Event(), Stopping()

    def stop() -> None:
        feed.stop()
        stopped.set()

    with stopping.on_signals(), ExitStack() as stack:
        try:
            access = open_access(asked.policy, "", None, _no_review)
            port = stack.enter_context(WebPort(asked.web, last, security, access))
        except (ValueError, OSError) as error:
            raise UsageError(f"--web {asked.web}: {error}") from None
        note(f"the page is at {'https' if security.has_tls else 'http'}://{port.address}")
        with stopping.loop(stop, stop):
            feed.run(last)
            stopped.wait()


def _no_review(_audience: str, _kubeconfig: Path | None) -> Review:
    raise ValueError("the page knows callers by their certificates alone")


def _show(feed: Feed) -> None:
    """Show a feed until the user leaves. Errors: those of the feed."""
    from trimtab.clients.cli.top.app import TopApp

    app = TopApp(feed)
    app.run()
    if app.failure is not None:
        raise app.failure


def _print_once(feed: Feed) -> None:
    """Print the first picture. Errors: FailedError if there is none."""
    sink = FirstPicture(feed)
    feed.run(sink)
    if sink.picture is None:
        raise FailedError(sink.trouble or "there is nothing to show")
    width = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns
    remarks = (sink.picture.position, sink.trouble)
    sys.stdout.write("\n".join(plain_lines(sink.picture.screen, width, remarks)) + "\n")


@contextmanager
def _feed(given: CommandOptions, options: TopOptions, *, is_once: bool) -> Iterator[Feed]:
    """Open the source."""
    is_live = bool(given.contexts) or given.kubeconfig is not None or not (given.files or given.named)
    if options.demo:
        if given.files or given.contexts or given.kubeconfig or given.planner or options.actuator:
            raise UsageError("--demo has its own cluster, planner and actuator; omit FILE, --context and addresses")
        from trimtab.clients.cli.top.demo_feed import demo_feed

        with demo_feed() as demo:
            yield demo
    elif is_live and not (is_once and options.actuator is None and given.planner is None):
        with _live_feed(given, options) as live:
            yield live
    else:
        if options.actuator is not None:
            raise UsageError("--actuator belongs to a live cluster; omit it, or omit FILE")
        recorded = _recorded_feed(given)
        if recorded is not None and given.offers is not None:
            note("--offers has no effect: recorded rounds have their node groups")
        yield recorded or StillFeed(_picture(given))


def _recorded_feed(given: CommandOptions) -> RecordedFeed | None:
    """Return the feed of a recording with rounds; None = it is something else."""
    if len(given.files) != 1 or given.files[0] == STANDARD_INPUT or not given.files[0].is_file():
        return None
    with given.files[0].open("rb") as file:
        if not is_recording(file.read(4)):
            return None
    rounds = read_recording(given.files[0], given.max_input_bytes)
    labels, prices = read_labels(given.group_by), given.prices_of_file
    return RecordedFeed(given.files[0], rounds, prices, labels) if rounds else None


def _picture(given: CommandOptions) -> Picture:
    """Plan once: for files, or for a live cluster that is read once."""
    if not given.files and not given.contexts and given.kubeconfig is None and not given.named:
        given = replace(given, contexts=("",))
    request = given.request()
    snapshot = given.cluster(request)
    request.decisions.extend(default_decisions(request.settings, snapshot))
    # All reasons of all nodes, for their details: that takes no longer.
    request.explain_nodes.extend(node.name for node in snapshot.nodes)
    with open_planner(given.planner, given.settings) as planner:
        response = planner.plan(snapshot, request)
    now_ns = request.now.ToNanoseconds()
    answer = PlanAnswer(response, ClusterView(snapshot), request.settings, now_ns, prices=given.prices_of_file)
    (cluster,) = given.clusters
    return Picture(answer, None, cluster.name)


@contextmanager
def _live_feed(given: CommandOptions, options: TopOptions) -> Iterator[LiveFeed]:
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
        _wait_until_listed(cluster)
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


def _wait_until_listed(cluster: LiveCluster) -> None:
    """Wait until every kind is listed, and show that. Errors: FailedError."""
    end_s = time.monotonic() + LIST_TIMEOUT_S
    console = stderr_console()
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("listing the cluster …", total=None)
        while not cluster.wait_until_listed(0.2):
            troubles = "; ".join(f"{kind}: {why}" for kind, why in sorted(cluster.troubles.items())[:1])
            bar.update(task, description=f"listing the cluster … {troubles}")
            if time.monotonic() > end_s:
                raise FailedError(f"the cluster could not be listed in {LIST_TIMEOUT_S:.0f} s: {cluster.troubles}")
