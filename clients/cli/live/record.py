"""`trimtab record`: rounds of snapshot and plan on a live cluster, into a file; nothing is carried out."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from google.protobuf.timestamp_pb2 import Timestamp
from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.command_options import RecordOptions
from trimtab.clients.cli.decisions import read_decisions
from trimtab.clients.cli.failures import FailedError, cluster_failures
from trimtab.clients.cli.live.last_cluster import completed
from trimtab.clients.cli.live.redaction import redact_file
from trimtab.clients.cli.live.rounds_reader import RoundsRecorder
from trimtab.clients.cli.live.sources import ClusterSource, check_writable
from trimtab.clients.cli.live.stopping import Stopping
from trimtab.clients.cli.live.waiting import wait_until_shown_listed
from trimtab.clients.cli.offer_files import given_offers
from trimtab.clients.cli.output import note
from trimtab.clients.cli.planners import open_link
from trimtab.clients.cli.terminal import progress
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundRunner, RoundSettings
from trimtab.common.objects.annotated_numbers import annotations_read
from trimtab.common.objects.karpenter.offers import MachineOffer
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.telemetry import configure_logging, terminal_format


def record(options: RecordOptions) -> None:
    """Record; with redaction, unredacted data never reach the requested file. On a signal to stop, keeps the rounds
    made so far.
    """
    configure_logging("warning", terminal_format())
    check_writable("FILE", options.file)
    offers = given_offers(options.offers)
    target = options.file.with_name(f".{options.file.name}.not-redacted") if options.redact else options.file
    stopping, count = Stopping(), 0
    with stopping.on_signals():
        try:
            if options.redact:
                target.touch(mode=0o600)
            with cluster_failures():
                count = _record(options, target, stopping, offers)
            if options.redact and count:
                redact_file(target, options.file)
        finally:
            if options.redact:
                target.unlink(missing_ok=True)
    if not count:
        raise FailedError("stopped before it recorded a round")
    size_mib = options.file.stat().st_size / (1 << 20)
    note(f"{options.file}: {counted(count, 'round')}, {size_mib:.2f} MiB")


def _record(options: RecordOptions, target: Path, stopping: Stopping, offers: Sequence[MachineOffer] | None) -> int:
    """Record into `target`; return how many rounds. offers : machines that NodePools may have, None = not given."""
    source = ClusterSource.of(options)
    decisions = tuple(read_decisions(options.decision or ()))
    settings = RoundSettings(source.name, decisions, source.plan_settings(), source.groups(), dry_run=True)
    with ExitStack() as stack:
        link = stack.enter_context(open_link(options.planner))
        actuator = stack.enter_context(ActuatorClient(options.actuator)) if options.actuator else None
        cluster = stack.enter_context(LiveCluster(source.api(), numbers=annotations_read(settings.plan)))
        wait_until_shown_listed(cluster)
        settings = completed(settings, cluster, lambda _, text: note(text), offers=offers)
        recorder = stack.enter_context(RoundsRecorder(target, source.name))
        rounds = RoundRunner(cluster, PlannerSession(link), actuator, settings, recorder)
        stopped = threading.Event()
        with stopping.loop(stopped.set, link.close):
            return _rounds(options, rounds, stopped)


def _rounds(options: RecordOptions, rounds: RoundRunner, stopped: threading.Event) -> int:
    """Make rounds until there are enough or a signal to stop arrives; return how many."""
    with progress("recording", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), total=options.rounds) as show:
        return _shown_rounds(options, rounds, stopped, show)


def _shown_rounds(
    options: RecordOptions, rounds: RoundRunner, stopped: threading.Event, show: Callable[..., None]
) -> int:
    for number in range(options.rounds):
        begun_s = time.monotonic()
        now = Timestamp()
        now.GetCurrentTime()
        try:
            done = rounds.run(f"record-{number + 1}", now, lambda: False)
        except TrimtabError:
            if stopped.is_set():  # the planner did not answer in time
                return number
            raise
        show(advance=1)
        for text in done.notes:
            note(text)
        if number + 1 < options.rounds and stopped.wait(max(0.0, options.interval_s - (time.monotonic() - begun_s))):
            return number + 1
    return options.rounds
