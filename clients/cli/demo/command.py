"""`trimtab demo [FILE…]`: first a plan of a large synthetic cluster, which is then carried out, then a real cluster; or
the user's own.
"""

import gzip
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec
from google.protobuf.duration_pb2 import Duration

from trimtab.clients.cli.advice import advice_options, find_advice
from trimtab.clients.cli.amounts import percent
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.blocks import Sentence, Style
from trimtab.clients.cli.connection_options import forget
from trimtab.clients.cli.demo import services
from trimtab.clients.cli.demo.burst import write_workload
from trimtab.clients.cli.demo.loop import DemoSettings, run
from trimtab.clients.cli.demo.screen import Screen
from trimtab.clients.cli.demo.verdict import compared_with_recorded, first_answer, judge, recorded_answers
from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.group_prices import object_prices
from trimtab.clients.cli.output import stdout_console
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.prices import Prices
from trimtab.clients.cli.sources import read_snapshot
from trimtab.clients.cli.terminal import print_command
from trimtab.clients.cluster_generator import ClusterShape, generate, write_list
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.kubernetes.object_files import ObjectFileError, load_files
from trimtab.common.kubernetes.signals import ours
from trimtab.v1 import plan_pb2

RECORDING = "openshift-azure.json.gz"
SHAPE = ClusterShape(seed=2)
"""The generated cluster; with this seed, nodes behind strict budgets are drained after a few loops."""
OWN_CLUSTER: Final = (
    "kubectl get nodes,pods,ns,sc,pv,pvc,csidrivers,csinodes,volumeattachments,priorityclasses,rs,sts,deploy,jobs,ds,"
    "pdb -A -o json | trimtab plan -"
)
"""The command with which a plan of one's own cluster is made."""


@dataclass(frozen=True)
class Chapter:
    """One cluster of the demo. `title`, `text` : heading and introduction; `files` : the cluster's objects;
    `scenario` : settings of the loops; `brief` : without reasons and figures.
    """

    title: str
    text: str
    files: tuple[Path, ...]
    scenario: DemoSettings
    brief: bool = False


def settings(parallelism: int, **scale_down: object) -> plan_pb2.PlanSettings:
    """Return settings without timers and with the given limit on parallel deletions."""
    zero = Duration()
    chosen = plan_pb2.ScaleDownSettings(
        unneeded_time=zero,
        unready_time=zero,
        unremovable_node_recheck_timeout=zero,
        max_scale_down_parallelism=parallelism,
        max_drain_parallelism=parallelism,
        delay_after_add=zero,
    )
    chosen.MergeFrom(plan_pb2.ScaleDownSettings(**scale_down))  # type: ignore[arg-type]
    return plan_pb2.PlanSettings(scale_down=chosen)


def demo(files: Sequence[Path], prices: Prices | None = None, *, verbose: bool = False) -> None:
    """Run the demo. Raises `FailedError` if anything went wrong. prices : of nodes."""
    forget()
    screen = Screen(stdout_console(), verbose=verbose)
    started = time.monotonic()
    with services.workspace() as directory:
        chapters: Iterable[Chapter] = _chapters(files, prices, directory)
        if files:
            # Bad input is reported here, before any process is started.
            chapters = list(chapters)
        text = "Planner, actuator and simulated clusters run on this machine. Timers are zero: nodes go at once."
        screen.show(Sentence(text))
        with ExitStack() as stack:
            # The planner takes longest to start; the built-in clusters and the actuators are made meanwhile.
            service = stack.enter_context(services.planner(directory / "planner", quick_start=True))
            plays = [(chapter, stack.enter_context(_actuator(chapter, directory))) for chapter in chapters]
            stack.callback(services.stop, [service, *(actuator for _, actuator in plays)])
            with screen.waiting("Starting the planner; at its first start it compiles what the first plan needs"):
                address = service.address
            planner = stack.enter_context(open_planner(address))
            wrong = [line for chapter, actuator in plays for line in _play(chapter, planner, actuator, screen)]
    text = f"{time.monotonic() - started:.0f} s in all; both services have ended."
    screen.show(Sentence(""), Sentence(text, Style.MUTED))
    if wrong:
        raise FailedError("the demo failed:\n" + "\n".join(wrong))
    if not files:
        screen.show(Sentence(""), Sentence("Your own cluster, read-only:"))
        print_command(screen.console, OWN_CLUSTER)


def _chapters(files: Sequence[Path], prices: Prices | None, directory: Path) -> Iterator[Chapter]:
    """Yield the cluster in the user's files, or else the built-in ones. Errors: UsageError."""
    built_in = (generated_chapter, recorded_chapter)
    makers = [partial(_own, files)] if files else [partial(make, directory) for make in built_in]
    for make in makers:
        yield make() if prices is None else with_prices(make(), prices, directory)


def _own(files: Sequence[Path]) -> Chapter:
    """Return the cluster in the user's files. Errors: UsageError."""
    read_snapshot(files, needs_nodes=True)
    text = "Your files are loaded into the simulated cluster; nothing of yours is touched."
    return Chapter("Your cluster", text, tuple(files), DemoSettings("own", settings(10)))


def with_prices(chapter: Chapter, prices: Prices, directory: Path) -> Chapter:
    """Return a chapter whose node groups have the prices of a file, and which counts those of the other nodes. Errors:
    UsageError.
    """
    try:
        objects = load_files(chapter.files)
    except ObjectFileError as error:
        raise UsageError(str(error)) from None
    found = object_prices(objects, prices)
    for item in objects:
        if item["kind"] == "NodeGroup" and item["metadata"]["name"] in found:
            item["spec"]["price"] = found[item["metadata"]["name"]]
    target = directory / f"{chapter.scenario.name}-priced.json"
    target.write_bytes(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": objects}))
    return replace(chapter, files=(target,), scenario=replace(chapter.scenario, prices=prices))


def recorded_chapter(directory: Path) -> Chapter:
    """Return the real cluster that ships with the package."""
    target = directory / "recorded.json"
    target.write_bytes(gzip.decompress((resources.files("trimtab.clients.data.recordings") / RECORDING).read_bytes()))
    text = "OpenShift on Azure, recorded from a CI run: three workers, three masters. Pods with local storage may move."
    chosen = settings(10, skip_nodes_with_local_storage=False, skip_nodes_with_system_pods=False)
    return Chapter("A recorded real cluster", text, (target,), DemoSettings("recorded", chosen), brief=True)


def generated_chapter(directory: Path) -> Chapter:
    """Return the synthetic cluster."""
    target = directory / "generated.json"
    write_list(generate(SHAPE), target)
    text = (
        f"{SHAPE.nodes} nodes used to {percent(SHAPE.utilization)}, {SHAPE.workload_count} workloads, budgets, a "
        "few unmovable pods."
    )
    chosen = settings(80)
    # Zones are balanced; similar groups differ only in the label with their name.
    chosen.scale_up.balance_similar_node_groups = True
    chosen.planner.balance.ignored_labels.append(ours.GENERATED_GROUP.key)
    files = (target, write_workload(directory / "burst.json"))
    return Chapter("A generated cluster", text, files, DemoSettings("generated", chosen, kill=True, burst=True))


def _actuator(chapter: Chapter, directory: Path) -> AbstractContextManager[services.ActuatorProcess]:
    """Run an actuator over a chapter's cluster. Where it is to be killed in a drain, nodes drain slowly until then."""
    first = () if chapter.scenario.kill else services.QUICKER
    return services.actuator(directory / chapter.scenario.name, chapter.files, first, when_restarted=services.QUICKER)


def _play(
    chapter: Chapter, planner: PlannerClient, actuator: services.ActuatorProcess, screen: Screen
) -> tuple[str, ...]:
    """Play one chapter; return what went wrong."""
    screen.chapter(chapter.title, chapter.text)
    recorded = recorded_answers(chapter.files[0]) if chapter.scenario.name != "own" else None

    parallelism = chapter.scenario.settings.scale_down.max_scale_down_parallelism

    def show(request: plan_pb2.PlanRequest, answer: PlanAnswer) -> None:
        if not chapter.brief:
            advice = find_advice(planner, answer.view, request, answer.response, advice_options(is_brief=True))
            screen.show(*first_answer(replace(answer, advice=advice)))
        if recorded:
            screen.show(compared_with_recorded(answer, recorded))
        if not chapter.brief:
            screen.show(Sentence(""), Sentence(f"Carried out, at most {parallelism} nodes at a time:"))

    story = run(planner, actuator, chapter.scenario, screen, show)
    verdict = judge(story, brief=chapter.brief)
    screen.show(*verdict.blocks)
    return verdict.wrong
