"""What the first plan of a chapter says, and how the chapter ended: figures before and after, evidence from the
cluster's objects, recorded answers of the real Cluster Autoscaler to the same input. A recording identifies its input
by a digest and is never shown for another one; its file describes how it was made.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import msgspec

from trimtab.clients.cli.amounts import counted, percent, some
from trimtab.clients.cli.answers.advice import changes_of
from trimtab.clients.cli.answers.answer import PlanAnswer, money
from trimtab.clients.cli.answers.blockers import by_reason, why
from trimtab.clients.cli.answers.scale_down import headline
from trimtab.clients.cli.blocks import Block, Sentence, Style, Table, led, rows
from trimtab.clients.cli.demo import burst, evidence
from trimtab.clients.cli.demo.evidence import Object
from trimtab.clients.cli.demo.loop import Story
from trimtab.common.rpc.collection import collection_paused
from trimtab.prices import HOURS_A_MONTH

FILE = "cluster_autoscaler_answers.json"


@dataclass(frozen=True)
class RecordedAnswers:
    """Loops over one input, each with the node list in a different order; savings are per hour. `version` : of the
    Cluster Autoscaler; `runs` : loops; `first_count`, `first_saving` : nodes that the first of them removes, and what
    that saves; `best_count` : most nodes that one of them removes.
    """

    version: str
    runs: int
    first_count: int
    first_saving: float
    best_count: int


def recorded_answers(cluster: Path) -> RecordedAnswers | None:
    """Return the recording for a cluster, or None if there is none for exactly this input."""
    text = (resources.files("trimtab.clients.data.recordings") / FILE).read_bytes()
    document = msgspec.json.decode(text)
    found = document["answers"].get(digest(cluster.read_bytes()))
    if found is None:
        return None
    return RecordedAnswers(
        version=document["version"],
        runs=len(found["nodes"]),
        first_count=found["nodes"][0],
        first_saving=found["savingPerHour"][0],
        best_count=max(found["nodes"]),
    )


def digest(listed: bytes) -> str:
    """Return the digest of a `List`'s objects, independent of its white space."""
    with collection_paused():
        items: list[Object] = msgspec.json.decode(listed)["items"]
    return hashlib.sha256(msgspec.json.encode(items, order="sorted")).hexdigest()


MOST_EXAMPLES, MOST_REASONS = 3, 3


@dataclass(frozen=True)
class ChapterResult:
    """The result of a chapter: what to show, and everything that went wrong."""

    blocks: tuple[Block, ...]
    wrong: tuple[str, ...]


def first_answer(answer: PlanAnswer) -> Iterator[Block]:
    """Yield what the first plan says: how many nodes can go and what that saves, examples, what keeps the others, what
    to change.
    """
    yield Sentence(headline(answer), Style.HEADLINE)
    yield from _examples(answer)
    yield from _reasons(answer)
    yield changes_of(answer)


def judge(story: Story, *, brief: bool = False) -> ChapterResult:
    """Compare the cluster's objects before and after, and compose the output. brief : without figures."""
    wrong = [f"node {node} was not removed: {reason}" for node, reason in story.failed().items()]
    gone = story.planned - set(story.failed())
    wrong += evidence.complaints(story.before, story.after, gone)
    wrong += burst.complaints(story.burst) if story.burst else []
    story.witness.look(story.after)
    wrong += story.witness.broken()
    if story.crash:
        lost = story.crash.nodes - story.ended.keys()
        wrong += [f"node {node}: its deletion was lost when the actuator was killed" for node in sorted(lost)]
    blocks: list[Block] = [Sentence(_headline(story), Style.HEADLINE)]
    if not brief:
        blocks.append(_before_and_after(story))
    if story.burst:
        blocks += burst.summary(story.burst)
    blocks += [Sentence(line, Style.BAD) for line in wrong] or list(_proven(story))
    return ChapterResult(tuple(blocks), tuple(wrong))


def _headline(story: Story) -> str:
    """Return how many nodes were not needed, what that saves, and how many pods were moved."""
    total, first, last = len(story.before.nodes), story.answers[0], story.shrunk or story.answers[-1]
    gone = total - len(last.view.nodes)
    text = f"{gone:,} of {counted(total, 'node')} removed ({percent(gone / total)})" if total else "No nodes"
    pods = counted(evidence.moved(story.before, story.after), "pod")
    if not first.costs.known:
        return f"{text}, {pods} moved."
    saved = first.costs.total - last.costs.total
    return f"{text}, {pods} moved: {money(saved)} an hour saved, {saved * HOURS_A_MONTH:,.0f} a month."


def _examples(answer: PlanAnswer) -> Iterator[Sentence]:
    """Yield a few nodes of the first plan, with the destinations of their pods."""
    drained = set(answer.response.scale_down.drain)
    nodes = [one for one in answer.response.scale_down.unneeded if one.node in drained]
    # Nodes around the median are better examples than nodes with one pod or with thirty.
    nodes.sort(key=lambda one: (one.assumption.pods_to_move_count, one.node))
    middle = max(0, len(nodes) // 2 - MOST_EXAMPLES // 2)
    chosen = nodes[middle : middle + MOST_EXAMPLES]
    if chosen:
        yield Sentence("For example:")
    for one in chosen:
        places = Counter(sorted(answer.moves.get(one.node, {}).values())).most_common()
        to = some([f"{node} ({count})" for node, count in places], 2)
        yield Sentence(f"{one.node}: {counted(one.assumption.pods_to_move_count, 'pod')} to {to}", indent=2)


def _reasons(answer: PlanAnswer) -> Iterator[Sentence]:
    """Yield the main reasons of the nodes that stay."""
    groups = by_reason(answer)
    if groups:
        yield Sentence("Why the others stay:")
    for alike in groups[:MOST_REASONS]:
        yield Sentence(f"{counted(len(alike), 'node')}: {why(answer, alike)}", indent=2)


class _Stage(NamedTuple):
    """The cluster at one moment: a picture of its objects, and the plan made then. `name` : when it was; `answer` : the
    plan.
    """

    name: str
    picture: evidence.ClusterPicture
    answer: PlanAnswer


def _stages(story: Story) -> list[_Stage]:
    first, last = story.answers[0], story.answers[-1]
    found, one = [_Stage("before", story.before, first)], story.burst
    if one is None or one.peak_answer is None or story.shrunk is None:
        return [*found, _Stage("after", story.after, last)]
    found += [_Stage("after", one.before, story.shrunk), _Stage("in the burst", one.peak, one.peak_answer)]
    return [*found, _Stage("after it", one.after, last)]


def _before_and_after(story: Story) -> Table:
    """Return figures of the cluster; pods that come and go with their node are counted separately."""
    stages = _stages(story)
    pictures, answers = [one.picture for one in stages], [one.answer for one in stages]
    cells = [("nodes", *(f"{len(one.nodes):,}" for one in pictures))]
    if answers[0].costs.known:
        cells.append(("an hour", *(money(one.costs.total) for one in answers)))
        cells.append(("a month", *(f"{one.costs.total * HOURS_A_MONTH:,.0f}" for one in answers)))
    cells.append(("pods of workloads", *(f"{len(one.pods) - one.node_pod_count:,}" for one in pictures)))
    if pictures[0].node_pod_count:
        cells.append(("pods of DaemonSets and static pods", *(f"{one.node_pod_count:,}" for one in pictures)))
    usage = [one.view.usage() for one in answers]
    cells += [(f"{resource} requested", *(percent(one[resource]) for one in usage)) for resource in usage[0]]
    return Table("", ("", *(stage.name for stage in stages)), rows(cells), sentences=("",))


def compared_with_recorded(answer: PlanAnswer, recorded: RecordedAnswers) -> Sentence:
    """Return the first plan beside the recorded answers of the Cluster Autoscaler to the same input."""
    nodes = [one.node for one in answer.response.scale_down.unneeded]
    saved = f", {money(answer.costs.of(nodes))} an hour" if answer.costs.known else ""
    theirs = f", {money(recorded.first_saving)} an hour" if answer.costs.known else ""
    text = (
        f" Trimtab {counted(len(nodes), 'node')}{saved}; {recorded.version} (recorded) {recorded.first_count}{theirs}, "
        f"best of {recorded.runs} node orders {recorded.best_count}."
    )
    return led(Style.HEADLINE, "One loop on the same input:", text)


def _proven(story: Story) -> Iterator[Sentence]:
    """Yield what the objects prove, if nothing went wrong."""
    if story.crash:
        yield led(Style.GOOD, "Survived:", f" all {len(story.crash.nodes)} interrupted deletions were completed.")
    if story.before.budgets:
        budgets = counted(len(story.before.budgets), "PodDisruptionBudget")
        yield led(Style.GOOD, "All kept:", f" {budgets}, checked {story.witness.looks} times.")
    text = " every workload has all its pods, every planned node is gone, no taint is left."
    yield led(Style.GOOD, "Nothing lost:", text)
