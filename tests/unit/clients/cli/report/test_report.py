"""`-o html=FILE`: one page that holds all it needs, and lets nothing of the input become markup."""

import json
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from tests.builders.full_disk import full_disk
from tests.unit.clients.cli.report.pages import Reader, page_of
from tests.unit.clients.cli.report.recordings import recorded, scenario
from trimtab.clients.cli.live.rounds_reader import Recorded, RoundsRecorder, read_rounds
from trimtab.clients.cli.report.history import read_history
from trimtab.clients.simulation.recommendation import as_document, read_limits, recommend
from trimtab.clients.simulation.result import encoded, read_result, result_of, write_result
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.simulation import ClusterSimulation
from trimtab.clients.verdicts import staying
from trimtab.common.recording import RecordingReader, RecordingWriter
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.reason_texts import NODE_SENTENCES
from trimtab.v1 import plan_pb2

NOW = "2026-03-01T00:00:00Z"
SCRIPT = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    groups = [{"name": zone, "zone": zone, "size": 2, "price": 0.5, "maxSize": 4} for zone in "ab"]
    bursts = {"base": 2, "size": 18, "every": "2h", "length": "10m", "first": "5m"}
    workloads = [{"name": "web", "bursts": bursts, "pod": {"cpu": 1}}]
    document = {"duration": "1h", "nodeGroups": groups, "workloads": workloads}
    return result_of(ClusterSimulation(Scenario.model_validate(document)).run(), "defaults")


def page_of_result(trimtab: Run, directory: Path, result: dict[str, Any]) -> Reader:
    saved = directory / "result.json.gz"
    write_result(saved, result)
    return page_of(trimtab, directory, saved)


def test_a_simulation_has_charts_and_every_decision_with_its_reasons(
    trimtab: Run, tmp_path: Path, result: dict[str, Any]
) -> None:
    page = page_of_result(trimtab, tmp_path, result)
    nodes, pending, *_ = page.figures()
    kinds = {one["kind"] for one in result["decisions"]}
    assert kinds == {"scale-up", "scale-down"}
    assert {trace["name"] for trace in nodes["data"]} == {"a, zone a", "b, zone b", *kinds}
    assert pending["data"][0]["name"] == "defaults"
    clicks = {identity for trace in nodes["data"] for identity in trace.get("customdata", ())}
    assert clicks == page.identities() != set()
    lines = page.figures()[-1]["data"]
    assert [trace["name"] for trace in lines] == ["taint to first eviction", "evictions", "last eviction to end"]
    shown = {text.partition(",")[0] for trace in lines for text in trace.get("text", ())}
    assert shown == {one["node"] for one in result["drains"]} != set()
    assert "Nodes that took longest to go: defaults" in page.text
    assert "pods to move: " in page.text
    assert "What keeps nodes at the end, by money: defaults" in page.text


def test_a_simulation_with_slack_shows_what_was_kept_free(trimtab: Run, tmp_path: Path, result: dict[str, Any]) -> None:
    kept = json.loads(encoded(result))
    kept["samples"]["slackCpuMilli"][1:3] = [1500, 2000]
    kept["summary"] |= {"slackCpuHours": 7.5, "slackMoney": 1.25, "slackTaken": 3, "slackTakenCpu": 4.5}
    page = page_of_result(trimtab, tmp_path, kept)
    assert "Cpu that slack keeps free" in page.text
    assert "slack, core-hours 7.5 cost 1.25 placeholders that pods took 3 cores that pods took 4.5" in page.text
    charts = [figure for figure in page.figures() if figure["layout"]["yaxis"]["title"]["text"] == "cores"]
    assert [figure["data"][0]["y"][:4] for figure in charts] == [[0, 1.5, 2, 0]]
    without = page_of_result(trimtab, tmp_path, result).text
    assert "Cpu that slack keeps free" not in without
    assert "slack, core-hours" not in without


def test_nothing_is_loaded_from_anywhere(trimtab: Run, tmp_path: Path, result: dict[str, Any]) -> None:
    page = page_of_result(trimtab, tmp_path, result)
    links = [attributes[name] for _, attributes in page.elements for name in ("src", "href") if name in attributes]
    assert links == ["data:,"]


def test_charts_are_named_for_those_who_do_not_see_them(trimtab: Run, tmp_path: Path, result: dict[str, Any]) -> None:
    page = page_of_result(trimtab, tmp_path, result)
    labels = [attributes["aria-label"] for _, attributes in page.elements if attributes.get("role") == "img"]
    assert len(labels) == len(page.figures()) == 6
    maps = [attributes["aria-label"] for _, attributes in page.elements if attributes.get("role") == "group"]
    assert [str(label).partition(",")[0] for label in maps] == ["Before", "After"]
    assert all(label and len(label) > 20 for label in (*labels, *maps))
    assert ("html", {"lang": "en"}) in page.elements


def test_a_comparison_shows_its_simulations_side_by_side(trimtab: Run, tmp_path: Path, result: dict[str, Any]) -> None:
    other = json.loads(encoded(result))
    other["settings"]["name"], other["summary"]["money"] = "dear", 2 * result["summary"]["money"]
    comparison = {"kind": "SimulationComparison", "version": 1, "runs": [result, other]}
    page = page_of_result(trimtab, tmp_path, comparison)
    assert "defaults is the cheapest" in page.text
    assert "50.0 % less than the most expensive" in page.text
    assert [trace["name"] for trace in page.figures()[0]["data"]] == ["defaults", "dear"]
    assert "Decisions, dear" in page.text


def test_of_many_simulations_the_best_are_shown_in_detail(trimtab: Run, tmp_path: Path, result: dict[str, Any]) -> None:
    runs = [json.loads(encoded(result)) for _ in range(9)]
    for number, one in enumerate(runs):
        one["settings"]["name"] = f"s{number}"
        one["summary"] |= {"money": 20.0 - number, "nodeHours": 7.0}
        one["summary"]["timeToScheduleS"]["p99"] = {8: 90.0, 3: 30.0}.get(number, 100.0)
    page = page_of_result(trimtab, tmp_path, {"kind": "SimulationComparison", "version": 1, "runs": runs})
    assert "Of 9 settings, the rest of the page shows s3, s8." in page.text
    assert "s8 is the cheapest: cost 12.00, 40.0 % less than the most expensive" in page.text
    assert all(f"s{number} 7.0 {20 - number}.00" in page.text for number in range(9))
    curve, nodes, *_ = page.figures()
    assert curve["data"][1]["text"] == [f"s{number}" for number in range(8)]
    assert [trace["name"] for trace in nodes["data"]] == ["s3", "s8"]
    assert ("Decisions, s8" in page.text, "Decisions, s1" in page.text) == (True, False)


def test_files_are_compared_and_settings_of_the_same_name_distinguished(
    trimtab: Run, tmp_path: Path, result: dict[str, Any]
) -> None:
    other = json.loads(encoded(result))
    other["scenario"]["seed"] = 7
    for name, one in (("monday", result), ("tuesday", other)):
        write_result(tmp_path / f"{name}.json", one)
    page = page_of(trimtab, tmp_path, tmp_path / "monday.json", tmp_path / "tuesday.json")
    assert [trace["name"] for trace in page.figures()[0]["data"]] == ["monday: defaults", "tuesday: defaults"]
    assert "These had different loads" in page.text
    assert "After, tuesday: defaults" in page.text
    mixed = trimtab(
        "plan", tmp_path / "monday.json", listed(tmp_path, k8s.node("n")), "-o", f"html={tmp_path / 'out.html'}"
    )
    assert (mixed.code, "monday.json is a simulation's result, the other files are not" in mixed.err) == (2, True)


def test_a_recommendation_is_the_headline_and_has_its_curve(
    trimtab: Run, tmp_path: Path, result: dict[str, Any]
) -> None:
    other = json.loads(encoded(result))
    other["settings"]["name"], other["summary"]["money"] = "dear", 2 * result["summary"]["money"]
    other["summary"]["timeToScheduleS"]["p99"] = 0.0
    runs, names, limits = [result, other], ["defaults", "dear"], read_limits(["evictions<=1000"])
    found = recommend([one["summary"] for one in runs], limits)
    document = {"kind": "SimulationComparison", "version": 1, "runs": runs}
    page = page_of_result(
        trimtab,
        tmp_path,
        {**document, "recommendation": as_document(found._replace(by="time_to_schedule_p99"), names, limits)},
    )
    assert "defaults is the cheapest that keeps evictions<=1000." in page.text
    settings, recommended = page.figures()[0]["data"][1:]
    assert (settings["text"], recommended["text"]) == (["dear"], ["defaults"])


def test_no_text_of_the_input_becomes_markup(trimtab: Run, tmp_path: Path, result: dict[str, Any]) -> None:
    evil = json.loads(encoded(result).replace(b'"defaults"', json.dumps(SCRIPT).encode()))
    evil["scenario"]["name"] = SCRIPT
    evil["decisions"][0]["text"] = SCRIPT
    evil["drains"][0]["node"] = evil["packing"][0]["nodes"][0]["group"] = SCRIPT
    evil["packing"][1]["nodes"][0]["cpuRequested"][SCRIPT] = 4000
    evil["samples"]["nodes"][f"{SCRIPT}/"] = evil["samples"]["nodes"].pop("a/a")
    page = page_of_result(trimtab, tmp_path, evil)
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert SCRIPT in page.text
    assert any("<script>" in trace["name"] for trace in page.figures()[0]["data"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '{"kind":"SimulationResult","version":9}',
            "form of version 9; this version of trimtab reads version 1; make it",
        ),
        ('{"kind":"SimulationComparison","version":1,"runs":[]}', "this comparison has no runs"),
        ('{"kind":"SimulationComparison","version":1,"runs":[3]}', "it has no summary; make it again"),
        ('{"kind":"SimulationResult",', "this is no JSON"),
    ],
)
def test_a_result_that_cannot_be_read_is_named(trimtab: Run, tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(text)
    done = trimtab("plan", file, "-o", f"html={tmp_path / 'page.html'}")
    assert done.code == 2
    assert told in done.err
    assert str(file) in done.err


@pytest.mark.parametrize("is_comparison", [False, True])
def test_a_result_of_an_earlier_version_is_named_with_what_it_lacks(
    trimtab: Run, tmp_path: Path, result: dict[str, Any], *, is_comparison: bool
) -> None:
    """Results had no drains and no maps at first, and their figures said nothing of budgets."""
    old = json.loads(encoded(result))
    del old["drains"], old["packing"], old["summary"]["budgetWaits"]
    new = json.loads(encoded(result))
    document = {"kind": "SimulationComparison", "version": 1, "runs": [new, old]} if is_comparison else old
    saved = tmp_path / "old.json"
    write_result(saved, document)
    done = trimtab("plan", saved, "-o", f"html={tmp_path / 'page.html'}")
    assert done.code == 2
    told = "this result is that of another version of trimtab: it has no summary.budgetWaits, drains, packing; make it"
    assert told in " ".join(done.err.split())
    assert "trimtab simulate SCENARIO --save FILE" in " ".join(done.err.split())


def test_a_result_with_a_key_given_twice_is_refused(tmp_path: Path, result: dict[str, Any]) -> None:
    saved = tmp_path / "result.json"
    saved.write_bytes(encoded(result).rstrip()[:-1] + b',"version":1}')
    with pytest.raises(ScenarioError, match=r"result\.json: key 'version' is given twice"):
        read_result(saved)


def test_a_page_that_cannot_be_written_is_named(trimtab: Run, tmp_path: Path, result: dict[str, Any]) -> None:
    saved = tmp_path / "result.json"
    write_result(saved, result)
    assert read_result(saved) == json.loads(encoded(result))
    done = trimtab("plan", saved, "-o", f"html={tmp_path / 'absent' / 'page.html'}")
    assert (done.code, "page.html: No such file" in done.err) == (1, True)
    out = tmp_path / "page.html"
    out.write_text("old")
    with full_disk(10_000):
        done = trimtab("plan", saved, "-o", f"html={out}")
    assert (done.code, "page.html: File too large" in done.err) == (1, True)
    assert (out.read_text(), sorted(path.name for path in tmp_path.iterdir())) == ("old", ["page.html", "result.json"])


@pytest.fixture(scope="module")
def tuesday(tmp_path_factory: pytest.TempPathFactory, recording: Path) -> Path:
    """Return a recording that begins a day after the other one and is half as long."""
    path = tmp_path_factory.mktemp("recorded") / "tuesday.trimtab"
    day_after = datetime.fromtimestamp(read_history(recording).result["scenario"]["begin"] + 86_400, UTC)
    recorded(path, scenario(duration="30m", start=day_after.isoformat()))
    return path


def test_a_recording_has_charts_decisions_and_what_its_last_cluster_could_save(
    trimtab: Run, tmp_path: Path, recording: Path
) -> None:
    history = read_history(recording)
    page = page_of(trimtab, tmp_path, recording)
    decisions, samples = history.result["decisions"], history.result["samples"]
    assert f"{history.round_count} rounds in 59 min" in page.text
    assert "Last round 2026-03-02 00:59 UTC" in page.text
    assert "Now 730 2 nodes, a month After the plan 730 2 nodes Saved a month 0" in page.text
    assert "What to change" in page.text
    nodes, *others = page.figures()
    counts = {trace["name"]: trace["y"] for trace in nodes["data"] if "stackgroup" in trace}
    assert counts == {f"{zone}, zone {zone}": samples["nodes"][f"{zone}/{zone}"] for zone in "ab"}
    clicks = {identity for trace in nodes["data"] for identity in trace.get("customdata", ())}
    assert clicks == page.identities() == {f"decision-0-{number}" for number in range(len(decisions))} != set()
    lines = {trace["name"]: trace["y"] for figure in others for trace in figure["data"] if "wanted" in trace["name"]}
    assert lines["monday, wanted"] == samples["placeholders"]
    titles = [str(attributes["aria-label"]).partition(".")[0] for tag, attributes in page.elements if tag == "div"
              and attributes.get("role") == "img"]  # fmt: skip
    assert titles == [
        *("Nodes by group and zone", "Pending pods", "Share of cpu that is requested"),
        *("Share of memory that is requested", "Cpu that slack keeps free", "Placeholders of slack"),
        *("Cost of an hour", "How nodes went"),
    ]
    for text in (
        "What keeps nodes, by their price a month",
        "the last round.",
        "Nodes that took longest to go",
        "How nodes are packed",
    ):
        assert text in page.text
    assert "time to schedule" not in page.text, "rounds do not tell it"


def test_blockers_of_a_recording_are_the_recorded_ones_unless_other_settings_are_given(
    trimtab: Run, tmp_path: Path, recording: Path
) -> None:
    with recording.open("rb") as opened:
        *_, last = read_rounds("x", opened)
    assert isinstance(last, Recorded)
    code = next(staying(last.answer)).reason
    assert NODE_SENTENCES[code] in page_of(trimtab, tmp_path, recording).text
    settings = tmp_path / "never.yaml"
    settings.write_text("scaleDown: {utilizationThreshold: 0.0}\n")
    assert "utilization above the threshold" in page_of(trimtab, tmp_path, recording, "--settings", settings).text


def test_a_price_file_prices_a_recording(trimtab: Run, tmp_path: Path) -> None:
    kind = {"node.kubernetes.io/instance-type": "m5.large"}
    file, prices = tmp_path / "x.trimtab", tmp_path / "prices.csv"
    prices.write_text("type,price\nm5.large,0.25\n")
    with RoundsRecorder(file) as recorder:
        for number, count in enumerate((1, 3)):
            nodes = [k8s.node(f"n{node}", labels=kind) for node in range(count)]
            request = plan_pb2.PlanRequest(now=Timestamp(seconds=1_790_000_000 + 3600 * number))
            recorder.add(SnapshotUpdate(k8s.snapshot_of(nodes, []), None), request, plan_pb2.PlanResponse())
    page = page_of(trimtab, tmp_path, file, "--prices", prices)
    assert "3 of 3 nodes can go (100 %). That saves 0.75 of 0.75 an hour" in page.text
    assert "node-hours 1.0 cost 0.25" in page.text


@pytest.mark.ci
def test_recordings_of_different_days_are_overlaid_by_date_or_if_asked_for_from_their_starts(
    trimtab: Run, tmp_path: Path, recording: Path, tuesday: Path
) -> None:
    out = tmp_path / "out.html"
    page = page_of(trimtab, tmp_path, recording, tuesday)
    assert [trace["name"] for trace in page.figures()[0]["data"]] == ["monday", "tuesday"]
    assert "Decisions, tuesday" in page.text
    hours = [f"{read_history(path).result['summary']['nodeHours']:.1f}" for path in (recording, tuesday)]
    assert f"Figures monday tuesday node-hours {' '.join(hours)} cost" in page.text.replace(
        "Figures Figures", "Figures"
    )
    assert "overlaid by date and time (UTC). They are of different times: --from-start overlays them" in page.text
    starts = [trace["x"][0] for trace in page.figures()[0]["data"]]
    assert starts[0][:10] < starts[1][:10]
    page = page_of(trimtab, tmp_path, recording, tuesday, "--from-start")
    assert "They are overlaid by the time since the start of each." in page.text
    lines = [chart for chart in page.figures() if chart["data"][0]["name"] == "monday"]
    assert len(lines) >= 5
    for chart in lines:
        assert chart["layout"]["xaxis"]["title"]["text"] == "hours since the start"
        for trace in chart["data"]:
            length_h = 0.5 if trace["name"].startswith("tuesday") else 1.0
            assert trace["x"][0] == 0
            assert trace["x"][-1] == pytest.approx(length_h, abs=0.05)
    for alone in ([recording], [listed(tmp_path, k8s.node("n"))]):
        done = trimtab("plan", *alone, "-o", f"html={out}", "--from-start")
        assert (done.code, "--from-start overlays recordings" in done.err) == (2, True)


def test_one_round_is_reported_as_its_cluster(trimtab: Run, tmp_path: Path) -> None:
    file, snapshot = tmp_path / "one.trimtab", k8s.snapshot_of([k8s.node("n")], [])
    with RoundsRecorder(file) as recorder:
        request = plan_pb2.PlanRequest(now=Timestamp(seconds=1_790_000_000))
        recorder.add(SnapshotUpdate(snapshot, None), request, plan_pb2.PlanResponse())
    page = page_of(trimtab, tmp_path, file, "--now", NOW)
    assert "what the cluster needs, and what it can do without" in page.text
    assert page.figures() == []
    both = trimtab("plan", file, listed(tmp_path, k8s.node("n")), "-o", f"html={tmp_path / 'out.html'}")
    assert (both.code, "give it alone" in both.err) == (2, True)


def test_of_a_recording_that_is_cut_off_the_rounds_before_are_reported(
    trimtab: Run, tmp_path: Path, recording: Path
) -> None:
    cut, stopped, out = tmp_path / "cut.trimtab", tmp_path / "stopped.trimtab", tmp_path / "out.html"
    data, whole = recording.read_bytes(), read_history(recording)
    cut.write_bytes(data[: len(data) // 50])
    done = trimtab("plan", cut, "-o", f"html={out}")
    assert (done.code, "cut off before its first frame" in done.err, out.exists()) == (2, True, False)
    cut.write_bytes(data[: len(data) // 2])
    done = trimtab("plan", cut, "-o", f"html={out}")
    assert (done.code, "was not closed: its last rounds may be missing" in done.err) == (0, True)
    assert done.err.count("note: ") == 2, "that the page is written, and nothing twice"
    before = read_history(cut)
    assert 1 < before.round_count < whole.round_count
    assert (
        before.result["samples"]["pods"][:-1]
        == whole.result["samples"]["pods"][: len(before.result["samples"]["pods"]) - 1]
    )
    with recording.open("rb") as opened:
        frames = list(RecordingReader("x", opened))[:9]
    writer = RecordingWriter(stopped)
    for frame in frames:
        writer.write(getattr(frame, str(frame.WhichOneof("frame"))))
    writer.abandon()
    done = trimtab("plan", stopped, "-o", f"html={out}")
    assert (done.code, "was not closed" in done.err) == (0, True)
    assert "3 rounds in" in Reader(out.read_text(encoding="utf-8")).text


def test_of_a_recording_that_is_cut_off_inside_a_round_the_rounds_before_are_reported(
    trimtab: Run, tmp_path: Path
) -> None:
    file, out = tmp_path / "x.trimtab", tmp_path / "page.html"
    with RoundsRecorder(file) as recorder:
        for number in range(3):
            answer = plan_pb2.PlanResponse()
            # More than a block of the compression, so that a part of the last round is in the file.
            answer.summary.notes.append(Random(number).randbytes(300_000 if number == 2 else 1).hex())
            request = plan_pb2.PlanRequest(now=Timestamp(seconds=1_790_000_000 + 60 * number))
            update = SnapshotUpdate(k8s.snapshot_of([k8s.node(f"n{node}") for node in range(number + 1)], []), None)
            recorder.add(update, request, answer)
    data = file.read_bytes()
    file.write_bytes(data[:-1000])
    done = trimtab("plan", file, "-o", f"html={out}")
    assert (done.code, "cut off inside a frame" in done.err) == (0, True)
    assert "the report is about the 2 rounds before" in done.err
    page = Reader(out.read_text(encoding="utf-8"))
    assert "2 rounds in 1 min, between 1 and 2 nodes." in page.text
    assert "At 2026-09-21 14:14:20, the last round." in page.text
    assert "2 of 2 nodes can go" in page.text, "of the last whole round, not of the cluster of the one that is cut off"
    assert "What can go node used pods when its pods go to n0 0 % 0" in page.text
