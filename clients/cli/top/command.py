"""`trimtab top`: choose the source, then show it: on a terminal until the user leaves, else once as plain text.

Without FILE the source is a live cluster, which is watched; `--once` only lists it. Nothing is ever ordered or written.
With `--web` a page is served instead.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from trimtab.clients.cli.command_options import TopOptions
from trimtab.clients.cli.failures import FailedError, UsageError, cluster_failures
from trimtab.clients.cli.label_groups import read_labels
from trimtab.clients.cli.live.rounds_reader import read_recording
from trimtab.clients.cli.live.stopping import Stopping
from trimtab.clients.cli.output import note, stdout_console
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.terminal import printed
from trimtab.clients.cli.top.feed import Feed, FirstPicture, Picture, StillFeed
from trimtab.clients.cli.top.recorded_feed import RecordedFeed
from trimtab.common.documents.bounded_input import STANDARD_INPUT
from trimtab.common.recording import is_recording
from trimtab.common.rpc.access import Review, open_access
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.extras import require_extra
from trimtab.common.rpc.port_security import PortSecurity
from trimtab.common.rpc.telemetry import configure_logging, terminal_format


def top(options: CommandOptions, asked: TopOptions) -> None:
    """Show the source. options : its files, contexts, settings, prices and planner. Errors: those of commands."""
    if asked.output.form != "table":
        raise UsageError("-o json and yaml are for --status; the screen is text, and /page.json of --web is JSON")
    is_once = asked.once or not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb"
    if asked.policy is not None and not asked.web:
        raise UsageError("--policy is for the page of --web; omit it, or give --web")
    if asked.web and asked.once:
        raise UsageError("--web serves a page until it is stopped; omit --once")
    if asked.web:
        require_extra("report", "the page of trimtab top --web")
    elif not is_once:
        require_extra("top", "the live screen of trimtab top, without --once,")
    configure_logging("warning" if asked.web else "critical", terminal_format())
    with cluster_failures(), _feed(options, asked, is_once=is_once and not asked.web) as feed:
        if asked.web:
            _serve(feed, asked)
        elif is_once:
            _print_once(feed)
        else:
            _show(feed)


def _serve(feed: Feed, options: TopOptions) -> None:
    """Serve a feed as a page until SIGTERM or SIGINT; on the network for callers with a certificate of the CA."""
    from trimtab.clients.cli.top.web import LastPicture, WebPort

    ours = ChannelSecurity.from_environment()
    security = PortSecurity(
        cert=ours.tls_cert,
        key=ours.tls_key,
        client_ca=None if options.allow_anonymous_on_network or ours.tls_cert is None else ours.tls_ca,
        allow_plaintext=options.allow_plaintext_on_network,
        allow_anonymous=options.allow_anonymous_on_network,
    )
    last, stopped, stopping = LastPicture(), threading.Event(), Stopping()

    def stop() -> None:
        feed.stop()
        stopped.set()

    with stopping.on_signals(), ExitStack() as stack:
        try:
            access = open_access(options.policy, "", None, _no_review)
            port = stack.enter_context(WebPort(options.web, last, security, access))
        except (ValueError, OSError) as error:
            raise UsageError(f"--web {options.web}: {error}") from None
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
    sink, console = FirstPicture(feed), stdout_console()
    feed.run(sink)
    if sink.picture is None:
        raise FailedError(sink.trouble or "there is nothing to show")
    facts, figures, *rest = sink.picture.screen.page(sink.picture.position, sink.trouble).blocks
    for part in (*printed([facts, figures], verbose=True), *printed(rest)):
        console.print(part)


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
        from trimtab.clients.cli.top.live_feed import live_feed

        with live_feed(given, options) as live:
            yield live
    else:
        if options.actuator is not None:
            raise UsageError("--actuator belongs to a live cluster; omit it, or omit FILE")
        recorded = _recorded_feed(given)
        if recorded is not None and given.offers is not None:
            note("--offers has no effect: recorded rounds have their node groups")
        yield recorded or StillFeed(_picture(given))


def _recorded_feed(options: CommandOptions) -> RecordedFeed | None:
    """Return the feed of a recording with rounds; None = it is something else."""
    if len(options.files) != 1 or options.files[0] == STANDARD_INPUT or not options.files[0].is_file():
        return None
    with options.files[0].open("rb") as file:
        if not is_recording(file.read(4)):
            return None
    rounds = read_recording(options.files[0], options.max_input_bytes)
    labels, prices = read_labels(options.group_by), options.prices_of_file
    return RecordedFeed(options.files[0], rounds, prices, labels) if rounds else None


def _picture(options: CommandOptions) -> Picture:
    """Plan once: for files, or for a live cluster that is read once."""
    if not options.files and not options.contexts and options.kubeconfig is None and not options.named:
        options = replace(options, contexts=("",))
    asked = options.ask()
    # All reasons of all nodes, for their details: that takes no longer.
    asked.request.explain_nodes.extend(asked.view.nodes)
    with open_planner(options.planner, options.settings) as planner:
        answer = asked.plan(planner)
    (cluster,) = options.clusters
    return Picture(answer, None, cluster.name)
