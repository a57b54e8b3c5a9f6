"""`-o html=FILE`: read a simulation's result, recorded rounds or a cluster, write one page."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from trimtab.clients.cli.advice import advice_options
from trimtab.clients.cli.amounts import counted, duration
from trimtab.clients.cli.answers.answer import PlanAnswer, money
from trimtab.clients.cli.answers.maps import maps, recorded
from trimtab.clients.cli.answers.page import plan_page
from trimtab.clients.cli.blocks import (
    AnswerPage,
    Block,
    Chart,
    DecisionList,
    Facts,
    Maps,
    RecordedDecision,
    Sentence,
    Style,
    Table,
    rows,
    without_empty_columns,
)
from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.label_groups import read_labels
from trimtab.clients.cli.output import note
from trimtab.clients.cli.plan import AskedCluster, CommandOptions
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.report.charts import (
    charts,
    drain_charts,
    drain_tables,
    gang_charts,
    gang_tables,
    reclaim_charts,
    reclaim_tables,
    shown_time,
    totals,
    trade_off,
)
from trimtab.clients.cli.report.history import RecordedHistory, last_cluster, read_history
from trimtab.clients.cli.report.page import rendered
from trimtab.clients.cli.sentences import NODE_GROUP_SENTENCES
from trimtab.clients.cli.several_clusters import clusters_page, plan_each, refuse_failed
from trimtab.clients.cli.simulate.table import MOST_COLUMNS, figures_table, subject
from trimtab.clients.simulation.recommendation import as_document, recommend
from trimtab.clients.simulation.recorded import has_rounds
from trimtab.clients.simulation.result import KINDS, read_result
from trimtab.clients.verdicts import going
from trimtab.common.documents.bounded_input import (
    STANDARD_INPUT,
    DamagedInputError,
    InputSizeError,
    open_input,
    read_bounded,
)
from trimtab.common.documents.output import write_whole
from trimtab.common.objects.build import BuiltSnapshot
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.extras import MissingExtraError, require_extra
from trimtab.prices import HOURS_A_MONTH
from trimtab.reason_texts import NODE_SENTENCES, POD_SENTENCES
from trimtab.v1 import plan_pb2, reason_pb2

Json = dict[str, Any]


def report(options: CommandOptions, out: Path, *, from_start: bool = False) -> None:
    """Write the report of a simulation's result, of recorded rounds, or of a plan over a cluster. from_start : several
    are overlaid by the time since the start of each.
    """
    require_extra("report", "-o html=FILE")
    if len(options.clusters) > 1:
        _check_overlay(0, from_start)
        advice = advice_options(is_brief=not options.verbose)
        clusters = plan_each(options, advice=advice)
        write_page(out, clusters_page(clusters, with_pictures=True), options.title)
        refuse_failed(clusters)
        return
    write_page(out, _page(options, from_start), options.title)


def write_page(out: Path, page: AnswerPage, title: str = "") -> None:
    """Write a page, with another title if there is one. Errors: FailedError."""
    require_extra("report", "-o html=FILE")
    if title:
        page = page._replace(title=title)
    try:
        write_whole(out, rendered(page).encode())
    except OSError as error:
        raise FailedError(f"{out}: {error.strerror}") from None
    note(f"{out} is written; it needs no network")


def _page(options: CommandOptions, from_start: bool) -> AnswerPage:
    recordings = [path for path in options.files if path != STANDARD_INPUT and has_rounds(path)]
    if recordings and len(recordings) == len(options.files):
        _note_offers(options, "recorded rounds have their node groups")
        return over_time(options, from_start)
    results = [path for path in options.files if is_result(path)]
    if results and len(results) < len(options.files):
        raise UsageError(f"{results[0]} is a simulation's result, the other files are not; report on one or the other")
    if results:
        _note_offers(options, "a simulation has its node groups")
        return simulated(merged([(path, read_result(path)) for path in results]), from_start)
    _check_overlay(0, from_start)
    return planned(options)


def _note_offers(options: CommandOptions, why: str) -> None:
    if options.offers is not None:
        note(f"--offers has no effect: {why}")


def _check_overlay(count: int, from_start: bool) -> None:
    if from_start and count < 2:
        raise UsageError("--from-start overlays recordings, or results of `trimtab simulate`; give several")


def is_result(path: Path) -> bool:
    """Return whether a file contains a result rather than objects; False for unreadable files, which their reader
    reports.
    """
    if path == STANDARD_INPUT:
        return False
    try:
        with open_input(path) as file:
            data = read_bounded(file)
    except (OSError, InputSizeError, DamagedInputError):
        return False
    return any(f'"kind":"{kind}"'.encode() in data for kind in KINDS)


def merged(named: Sequence[tuple[Path, Json]]) -> Json:
    """Return the results of several files as one comparison; settings with equal names also get the names of their
    files.
    """
    if len(named) == 1:
        return named[0][1]
    runs = [(path, run) for path, document in named for run in document.get("runs") or [document]]
    names = [run["settings"]["name"] for _, run in runs]
    for path, run in runs:
        if names.count(run["settings"]["name"]) > 1:
            run["settings"]["name"] = f"{path.name.split('.')[0]}: {run['settings']['name']}"
    return {"runs": [run for _, run in runs]}


def over_time(options: CommandOptions, from_start: bool = False) -> AnswerPage:
    """Return the page of one recording, with what its last cluster could save, or of several overlaid; that of one
    round is the page of its cluster.
    """
    _check_overlay(len(options.files), from_start)
    prices = options.prices_of_file
    labels = read_labels(options.group_by)
    histories = [read_history(path, prices, labels, options.max_input_bytes) for path in options.files]
    if len(histories) == 1 and histories[0].round_count <= 1:
        return planned(options)
    for path, history in zip(options.files, histories, strict=True):
        if not history.round_count:
            raise UsageError(f"{path}: this recording has no rounds; record with `trimtab record`")
    results = [history.result for history in histories]
    if len({result["settings"]["name"] for result in results}) < len(results):
        for path, result in zip(options.files, results, strict=True):
            result["settings"]["name"] = str(path)
    names = [result["settings"]["name"] for result in results]
    rounds = "; ".join(_rounds_text(result, len(results) > 1) for result in results)
    last = _last_blocks(_last_answer(options, histories[0])) if len(histories) == 1 else ()
    return AnswerPage(
        f"Recording: {', '.join(names)}",
        (
            Sentence(f"{rounds}.{_overlay(results, from_start)}", Style.HEADLINE),
            figures_table(results),
            *charts(results, from_start=from_start),
            *drain_charts(results),
            *last,
            *(table for name, result in zip(names, results, strict=True) for table in drain_tables(name, result)),
            *_named_decisions(results),
        ),
    )


def _overlay(results: Sequence[Json], from_start: bool) -> str:
    """Return how several results are overlaid, "" = they begin at the same time."""
    spans = sorted((one["scenario"]["begin"], one["scenario"]["durationS"]) for one in results)
    if spans[0][0] == spans[-1][0]:
        return ""
    if from_start:
        return " They are overlaid by the time since the start of each."
    apart = all(one[0] + one[1] < other[0] for one, other in pairwise(spans))
    why = "They are of different times: " if apart else ""
    return f" They are overlaid by date and time (UTC). {why}--from-start overlays them by the time since their starts."


def _rounds_text(result: Json, is_named: bool) -> str:
    """Return how long a recording is, and its numbers of nodes."""
    counts, scenario = totals(result), result["scenario"]
    text = f"{counted(result['summary']['rounds'], 'round')} in {duration(scenario['durationS'])}"
    nodes = f"between {min(counts):,} and {max(counts):,} nodes"
    return f"{result['settings']['name']}: {text}, {nodes}" if is_named else f"{text}, {nodes}"


def _last_blocks(answer: PlanAnswer) -> Iterator[Block]:
    """Yield what the last cluster of a recording could save, what blocks it, and what to change."""
    moment = f"At {shown_time(answer.now_ns / 1e9)}, the last round."
    for block in plan_page(answer, with_pictures=True).blocks:
        if isinstance(block, Facts):
            yield Facts((f"Last round {block.texts[0]}", *block.texts[1:]))
        elif isinstance(block, Table) and not block.is_searchable:
            yield block._replace(note=f"{moment} {block.note}".strip())
        else:
            yield block


def _last_answer(options: CommandOptions, history: RecordedHistory) -> PlanAnswer:
    """Return the recorded answer about the last cluster; a new one if there is none, or if the options ask for another.

    Other prices and groups do not change an answer's reasons, but groups change which nodes may go.
    """
    assert history.last is not None, "there are rounds"
    asked, answer = history.last
    is_own = any((options.settings, options.set_values, options.state, options.now, options.planner))
    request = options.request() if is_own else plan_pb2.PlanRequest(settings=asked.settings, now=asked.now)
    if history.is_whole:
        # Its reading over time has remarked everything.
        snapshot = options.cluster(request, with_notes=False)
    else:
        (path,), count, most = options.files, history.round_count, options.max_input_bytes
        snapshot = options.completed(lambda: BuiltSnapshot(last_cluster(path, count, most), []), request)
    is_of_it = {one.node for one in answer.nodes} == {node.name for node in snapshot.nodes}
    is_new = is_own or not is_of_it or bool(snapshot.node_groups and not history.has_groups)
    return _advised(options.asked(snapshot, request), None if is_new else answer)


def simulated(document: Json, from_start: bool = False) -> AnswerPage:
    """Return the page of a simulation or a comparison."""
    every: Sequence[Json] = document.get("runs") or [document]
    _check_overlay(len(every), from_start)
    if len(every) > MOST_COLUMNS:
        document = {**document, "recommendation": document.get("recommendation") or _without_limits(every)}
    results = _shown(every, document)
    names = [one["settings"]["name"] for one in results]
    named, told = list(zip(names, results, strict=True)), _headline(every, document.get("recommendation"))
    return AnswerPage(
        f"Simulation: {subject(results[0])}",
        (
            Sentence(told + _overlay(results, from_start), Style.HEADLINE),
            _figures(every, names),
            *_curve(document),
            *charts(results, from_start=from_start),
            *gang_charts(results),
            *reclaim_charts(results),
            *drain_charts(results),
            *_maps(results),
            *(_blockers(name, one) for name, one in named),
            *(table for name, one in named for table in gang_tables(name, one)),
            *(table for name, one in named for table in reclaim_tables(name, one)),
            *(table for name, one in named for table in drain_tables(name, one)),
            *_named_decisions(results),
        ),
    )


def _figures(results: Sequence[Json], shown: Sequence[str]) -> Table:
    """Return the figures of simulations, with a warning if they had different loads."""
    subjects = sorted({subject(result) for result in results})
    loads = f"These had different loads, and say little of the settings: {'; '.join(subjects)}." if subjects[1:] else ""
    more = f" Of {len(results)} settings, the rest of the page shows {', '.join(shown)}."
    return figures_table(results, f"{loads}{more if len(results) > MOST_COLUMNS else ''}".strip())


def _shown(results: Sequence[Json], document: Json) -> Sequence[Json]:
    """Return the simulations to show in detail: all, or of many the recommended one and the first ones of the curve."""
    if len(results) <= MOST_COLUMNS:
        return results
    found = document["recommendation"]
    names = list(dict.fromkeys([*filter(None, [found["recommended"]]), *found["curve"]]))[:MOST_COLUMNS]
    return [result for result in results if result["settings"]["name"] in names]


def _without_limits(results: Sequence[Json]) -> Json:
    """Return what is recommended if there are no limits."""
    found = recommend([result["summary"] for result in results], ())
    return as_document(found, [result["settings"]["name"] for result in results], ())


def _curve(document: Json) -> list[Chart]:
    """Return the trade-off of a comparison that recommends something."""
    found = document.get("recommendation")
    return [trade_off(document["runs"], found)] if found else []


def _maps(results: Sequence[Json]) -> list[Maps]:
    """Return the cluster before and after one simulation, and after each of several."""
    kept = [(one["settings"]["name"], one.get("packing") or []) for one in results]
    if len(kept) == 1:
        named = list(zip(("Before", "After"), kept[0][1], strict=False))
    else:
        named = [(f"After, {name}", found[-1]) for name, found in kept if found]
    found = [(f"{title}, {shown_time(one['time'])}", recorded(one), one["leftOut"]) for title, one in named]
    return [maps(found)] if found else []


def planned(options: CommandOptions) -> AnswerPage:
    """Return the page of a plan over a cluster."""
    asked = options.ask()
    (cluster,) = options.clusters
    return plan_page(_advised(asked), cluster.name, with_pictures=True)


def _advised(asked: AskedCluster, recorded: plan_pb2.PlanResponse | None = None) -> PlanAnswer:
    """Return a planner's answer with all that its page shows. recorded : the answer to show instead; it has advice only
    if the planner lets the same nodes go.
    """
    options = asked.options
    shown = asked.answer(recorded) if recorded is not None else None
    try:
        with open_planner(options.planner, options.settings) as planner:
            answer = asked.plan(planner)
            shown = shown or answer
            if _going(shown.response) == _going(answer.response):
                found = asked.advised(planner, answer, advice_options(asked.usage, is_brief=not options.verbose))
                shown = replace(shown, advice=found.advice)
    except (MissingExtraError, UsageError, FailedError, TrimtabError) as error:
        if shown is None:
            raise
        note(f"the page has no advice: {error}")
    for text in shown.summary.notes if recorded is None else ():
        note(text)
    # A page has all rows in any case.
    return replace(shown, verbose=False)


def _going(answer: plan_pb2.PlanResponse) -> set[str]:
    return {one.node for one in going(answer)}


def _headline(results: Sequence[Json], recommended: Json | None = None) -> str:
    """Return the recommended settings, else the cheapest ones, and their effect on pods."""
    if recommended is not None and recommended["limits"]:
        limits, name = ", ".join(recommended["limits"]), recommended["recommended"]
        return f"{name} is the cheapest that keeps {limits}." if name else f"No settings keep {limits}."
    priced = all(result["summary"]["money"] for result in results)
    key = "money" if priced else "nodeHours"
    best = min(results, key=lambda result: result["summary"][key])["summary"]
    amount = f"cost {money(best['money'])}" if priced else f"{best['nodeHours']:,.0f} node-hours"
    waits = f"99 % of pods are scheduled within {best['timeToScheduleS']['p99']:,.0f} s"
    if len(results) == 1:
        return f"{amount[0].upper()}{amount[1:]}; {waits}; {counted(best['evictions'], 'eviction')}."
    name = next(result["settings"]["name"] for result in results if result["summary"] is best)
    worst = max(result["summary"][key] for result in results)
    less = f", {100 - 100 * best[key] / worst:.1f} % less than the most expensive" if worst else ""
    return f"{name} is the cheapest: {amount}{less}; {waits}."


def _named_decisions(results: Sequence[Json]) -> list[DecisionList]:
    """Return the decisions of each result with a title."""
    titles = [f"Decisions, {one['settings']['name']}" if len(results) > 1 else "Decisions" for one in results]
    named = enumerate(zip(titles, results, strict=True))
    return [DecisionList(title, tuple(_decisions(number, one))) for number, (title, one) in named]


def _decisions(number: int, result: Json) -> Iterator[RecordedDecision]:
    for index, one in enumerate(result["decisions"]):
        reasons = [(what, _group_words(why_not)) for what, why_not in one.get("reasons", {}).items()]
        if one.get("pods"):
            reasons.insert(0, ("for pods such as", ", ".join(one["pods"])))
        if one.get("nodes") and not reasons:
            reasons.append(("nodes", ", ".join(one["nodes"])))
        if one.get("pricePerHour"):
            sign = "more" if one["kind"] == "scale-up" else "less"
            reasons.append(("cost", f"{money(one['pricePerHour'])} an hour {sign}"))
        if one.get("again"):
            reasons.append(("decided again", f"in {counted(one['again'], 'round')}, until {shown_time(one['last'])}"))
        identity = f"decision-{number}-{index}"
        yield RecordedDecision(identity, shown_time(one["time"]), one["kind"], one["text"], tuple(reasons))


def _blockers(name: str, result: Json) -> Table:
    """Return why nodes stay at the end, by cost."""
    lines = [
        (
            _why(one),
            f"{one['nodes']:,}",
            money(cost) if (cost := one["pricePerHour"]) else "",
            f"{cost * HOURS_A_MONTH:,.0f}" if cost else "",
        )
        for one in result["blockers"]
    ]
    possible = result["possibleSavingPerHour"]
    note_ = f"Nodes that were not needed at that moment cost {money(possible)} an hour." if possible else ""
    by = ", by money" if any(one["pricePerHour"] for one in result["blockers"]) else ""
    return without_empty_columns(
        Table(f"What keeps nodes at the end{by}: {name}", ("", "nodes", "an hour", "a month"), rows(lines), note_)
    )


def _group_words(text: str) -> str:
    """Return why a node group did not grow in words; any other text is returned unchanged."""
    code = dict(reason_pb2.NodeGroupReason.Code.items()).get(text)
    return text if code is None else f"it did not grow: {NODE_GROUP_SENTENCES[code]}"


def _why(blocker: Json) -> str:
    """Return the reason of a result in words; a code that this version does not know is returned unchanged."""
    node = dict(reason_pb2.UnremovableReason.Code.items()).get(blocker["reason"])
    pod = dict(reason_pb2.BlockingPodReason.Code.items()).get(blocker["blocking"])
    text = blocker["reason"] if node is None else NODE_SENTENCES[node]
    return f"{text}: it {POD_SENTENCES[pod]}" if pod else text
