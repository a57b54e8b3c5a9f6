"""`trimtab demo [FILE…]`: first a real cluster, then a large synthetic one; or a cluster of one's own."""

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from google.protobuf.duration_pb2 import Duration
from rich.console import Console
from rich.table import Table
from trimtab.v1 import plan_pb2

from clients.actuator_client import ActuatorClient
from clients.cli.amounts import counted, percent
from clients.cli.demo import evidence, services
from clients.cli.demo.loop import Actor, Story, run
from clients.cli.demo.screen import Screen
from clients.cli.failures import FailedError
from clients.cli.planners import PlannerAccess, open_planner
from clients.cli.sources import read_snapshot
from clients.cluster_generator import ClusterShape, generate, write_list

RECORDING = "openshift-aws.json.gz"
SEED = 2
"""Of the generated cluster; one whose strict budgets are through after few loops."""
_QUICK = "timers are set to zero, so that a node goes as soon as it is not needed (upstream waits ten minutes)"


@dataclass(frozen=True)
class Chapter:
    """One cluster of the demo."""

    name: str
    title: str
    text: str
    files: tuple[Path, ...]
    settings: plan_pb2.PlanSettings


def settings(parallelism: int, **scale_down: object) -> plan_pb2.PlanSettings:
    """Return settings without timers and with the given limit on deletions at a time."""
    zero = Duration()
    chosen = plan_pb2.ScaleDownSettings(
        unneeded_time=zero,
        unready_time=zero,
        unremovable_node_recheck_timeout=zero,
        max_scale_down_parallelism=parallelism,
        max_drain_parallelism=parallelism,
    )
    chosen.MergeFrom(plan_pb2.ScaleDownSettings(**scale_down))  # type: ignore[arg-type]
    return plan_pb2.PlanSettings(scale_down=chosen)


def demo(files: Sequence[Path]) -> None:
    """Run the demo; raises `FailedError` unless everything went right."""
    screen = Screen(Console(highlight=False, width=None if os.isatty(1) else 120))
    started = time.monotonic()
    with services.workspace() as directory:
        chapters = _own(files) if files else [_recorded(directory), _generated(directory)]
        screen.say("Starting a planner on this machine (it compiles its kernels the first time) …")
        with services.planner(directory / "planner") as service, open_planner(service.address) as planner:
            screen.say(f"The planner serves on {service.address}.")
            wrong = [line for chapter in chapters for line in _play(chapter, planner, directory, screen)]
    screen.say(f"\n[dim]{time.monotonic() - started:.0f} s in all; both services have ended.[/dim]")
    if wrong:
        raise FailedError("the demo did not go as it should:\n" + "\n".join(wrong))


def _own(files: Sequence[Path]) -> list[Chapter]:
    """A cluster that the user brought."""
    # What is wrong with them is said here, before any process is started.
    read_snapshot(files)
    text = f"Your files are loaded into the in-memory cloud; nothing of yours is touched. For the demo {_QUICK}."
    return [Chapter("own", "Your cluster", text, tuple(files), settings(10))]


def _recorded(directory: Path) -> Chapter:
    """The real cluster that ships with the package."""
    target = directory / RECORDING
    with resources.as_file(resources.files("clients.data.recordings") / RECORDING) as path:
        shutil.copyfile(path, target)
    text = (
        "A real OpenShift cluster on AWS, recorded from a CI run (source and licence: clients/data/recordings). "
        f"For the demo {_QUICK}."
    )
    return Chapter("recorded", "A recorded real cluster", text, (target,), settings(10))


def _generated(directory: Path) -> Chapter:
    """The synthetic cluster."""
    shape, target = ClusterShape(seed=SEED), directory / "generated.json"
    write_list(generate(shape), target)
    text = (
        f"A synthetic cluster of {shape.nodes} nodes and some {shape.pods:,} pods in {shape.workload_count} workloads, "
        f"used to {percent(shape.utilization)}, with PodDisruptionBudgets and a few pods that must not be moved. "
        f"Up to 80 nodes may go at a time; {_QUICK}."
    )
    return Chapter("generated", "A generated cluster", text, (target,), settings(80))


def _play(chapter: Chapter, planner: PlannerAccess, directory: Path, screen: Screen) -> list[str]:
    """Play one chapter; returns what went wrong."""
    screen.chapter(chapter.title, chapter.text)
    place = directory / chapter.name
    with (
        services.actuator(place, chapter.files) as service,
        ActuatorClient(service.address) as actuator,
    ):
        story = run(planner, Actor(service.address, actuator), chapter.settings, screen, chapter.name)
    return _verdict(story, screen)


def _verdict(story: Story, screen: Screen) -> list[str]:
    """Show before and after, and what the objects say about it."""
    wrong = [f"node {node} was not removed: {why}" for node, why in story.failed().items()]
    gone = story.planned - set(story.failed())
    wrong += evidence.complaints(story.before, story.after, gone)
    story.witness.look(story.after)
    broken = story.witness.broken()
    screen.console.print(_before_and_after(story))
    pods = evidence.moved(story.before, story.after)
    screen.say(f"{counted(len(gone), 'node')} removed, {counted(pods, 'pod')} moved.")
    budgets = f"{counted(len(story.before.budgets), 'PodDisruptionBudget')}, looked at {story.witness.looks} times"
    screen.say(f"[red]{len(broken)} budgets broken.[/red]" if broken else f"[green]All kept:[/green] {budgets}.")
    if not wrong and not broken:
        screen.say("[green]Nothing lost:[/green] every pod is back, every planned node is gone, no taint is left.")
    for line in (*wrong, *broken):
        screen.say(f"[red]{line}[/red]")
    return [*wrong, *broken]


def _before_and_after(story: Story) -> Table:
    """The cluster in figures."""
    table = Table(title=f"After {counted(story.loops, 'loop')}", title_justify="left")
    for column in ("", "before", "after"):
        table.add_column(column, justify="right" if column else "left")
    before, after = story.first_usage, story.last_usage
    table.add_row("nodes", f"{len(story.before.nodes):,}", f"{len(story.after.nodes):,}")
    table.add_row("pods", f"{len(story.before.pods):,}", f"{len(story.after.pods):,}")
    for resource in before:
        table.add_row(f"{resource} requested", percent(before[resource]), percent(after[resource]))
    return table
