"""Settings and state files: what is read, and that errors are named. Also `--now` as users write it."""

import json
import re
import time
from pathlib import Path

import pytest
from google.protobuf import json_format

from tests.builders.kubernetes import node, node_group, snapshot_of
from trimtab.clients.cli.documents import check_state, read_now, read_settings, read_state, settings_notes
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.message_fields import checked
from trimtab.v1 import plan_pb2


def written(directory: Path, text: str, name: str = "settings.yaml") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("scaleDown: {utilizationThreshold: 0.6, unneededTime: 90s}", id="yaml"),
        pytest.param('{"scaleDown": {"utilizationThreshold": 0.6, "unneededTime": "90s"}}', id="json"),
        pytest.param('{\n\t"scaleDown": {"utilizationThreshold": 0.6,\t"unneededTime": "90s"}}', id="json with tabs"),
        pytest.param("scale_down:\n  utilization_threshold: 0.6\n  unneeded_time: 90.0s\n", id="the proto's own names"),
    ],
)
def test_settings_are_read_in_every_notation(tmp_path: Path, text: str) -> None:
    settings = read_settings(written(tmp_path, text))
    assert settings.scale_down.utilization_threshold == 0.6
    assert settings.scale_down.unneeded_time.ToSeconds() == 90


def test_amounts_of_resources_are_quantities(tmp_path: Path) -> None:
    text = """
planner:
  limits:
  - {resource: cpu, maximum: 20}
  - {resource: memory, minimum: 1Gi, maximumAdded: 1e9}
  - {resource: nodes, maximum: "7"}
slack: {resources: {cpu: {floor: 1500m}}}
"""
    settings = read_settings(written(tmp_path, text))
    cpu, memory, nodes = settings.planner.limits
    assert (cpu.maximum, memory.minimum, memory.maximum_added, nodes.maximum) == (20_000, 1 << 30, 10**9, 7)
    assert settings.slack.resources["cpu"].floor == 1500


@pytest.mark.parametrize("text", [pytest.param("", id="empty"), pytest.param("# nothing\n", id="only a comment")])
def test_an_empty_file_gives_default_settings(tmp_path: Path, text: str) -> None:
    assert read_settings(written(tmp_path, text)) == plan_pb2.PlanSettings() == read_settings(None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("scaleDown: {utilisationThreshold: 0.6}", "utilisationThreshold", id="unknown key"),
        pytest.param("scaleDwn: {}", "scaleDwn", id="unknown key at the top"),
        pytest.param("nodeGroups: {g: {minSize: 1}}", "minSize", id="unknown key of a node group"),
        pytest.param("scaleDown: {unneededTime: 600}", '"600s"', id="duration without unit"),
        pytest.param("scaleDown: {unneededTime: 10 min}", '"10m"', id="duration in another unit"),
        pytest.param(
            "scaleDown: {unneededTme: 10m}",
            "scaleDown.unneededTme: there is no such field; did you mean unneededTime?",
            id="nearest name",
        ),
        *(
            pytest.param(text, f"; that is {path} here", id=text)
            for text, path in (
                ("scaleDownUtilizationThreshold: 0.6", "scaleDown.utilizationThreshold"),
                ("--scale-down-utilization-threshold: 0.6", "scaleDown.utilizationThreshold"),
                ("scaleDown: {scale-down-unneeded-time: 5m}", "scaleDown.unneededTime"),
                ("scaleDown: {maxEmptyBulkDelete: 3}", "scaleDown.maxScaleDownParallelism"),
                ("nodeGroups: {g: {consolidationPolicy: WhenEmpty}}", "nodeGroups.NAME.consolidation"),
                ("max_node_provision_time: 10m", "planner.maxNodeProvisionTime"),
                ("scaleUp: {unneededTime: 10m}", "scaleDown.unneededTime"),
            )
        ),
        pytest.param(
            "planner: {limits: [{resource: cpu, maximum: 20 cores}]}",
            "planner.limits[0].maximum: '20 cores' is not a quantity",
            id="no quantity",
        ),
        pytest.param("scaleUp: {expanders: {}}", "scaleUp.expanders: a list is expected", id="mapping for a list"),
        pytest.param("scaleDown: {unneeded_time: 1s, unneededTime: 2s}", "given twice", id="field twice by two names"),
        pytest.param("nodeGroups: {g: {unneededTime: []}}", "nodeGroups.g.unneededTime", id="duration of a group"),
        pytest.param("a: " + "[" * 30_000, "nested more than", id="nested without end in yaml"),
        pytest.param('{"a": ' + "[" * 30_000, "nested", id="nested without end in json"),
        pytest.param('{"a": ' * 30_000, "", id="mappings without end in json"),
        pytest.param("scaleDown: {utilizationThreshold: high}", "utilizationThreshold", id="text for a number"),
        pytest.param("scaleDown: {maxDrainParallelism: 1.5}", "maxDrainParallelism", id="fraction for a whole number"),
        pytest.param("scaleDown: {enabled: 1}", "enabled", id="number for a switch"),
        pytest.param("scaleDown: 5", "scaleDown", id="number for a section"),
        pytest.param("scaleDown: {}\nscaleDown: {}", "'scaleDown' is given twice", id="key twice in yaml"),
        pytest.param('{"scaleDown": {}, "scaleDown": {}}', "'scaleDown' is given twice", id="key twice in json"),
        pytest.param("nodeGroups: {7: {}}", "7 is not text", id="number for a key"),
        pytest.param("- scaleDown", "a mapping is expected", id="list"),
        pytest.param("scaleDown: [", "neither YAML nor JSON", id="broken yaml"),
        pytest.param("!!python/object:os.system {}", "neither YAML nor JSON", id="yaml with a foreign tag"),
    ],
)
def test_what_is_wrong_with_settings_is_named_with_its_file(tmp_path: Path, text: str, complaint: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_settings(path)
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_distinguished(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x80")
    for path, complaint in (
        (tmp_path / "absent.yaml", "there is no such file"),
        (tmp_path, "this is a directory"),
        (binary, "this is not text"),
    ):
        with pytest.raises(UsageError, match=complaint):
            read_settings(path)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("600s", 600), ("10m", 600), ("1h30m", 5400), ("1.5h", 5400), ("250ms", 0.25), ("-1s", -1), ("0s", 0)],
)
def test_durations_are_read_in_units_that_people_write(tmp_path: Path, text: str, seconds: float) -> None:
    settings = read_settings(written(tmp_path, f"nodeGroups: {{a: {{unneededTime: {text}}}}}"))
    assert settings.node_groups["a"].unneeded_time.ToNanoseconds() == seconds * 1e9


def test_every_message_that_is_printed_is_read_back() -> None:
    settings = plan_pb2.PlanSettings()
    settings.scale_down.unneeded_time.FromSeconds(90)
    settings.node_groups["a"].utilization_threshold = 0.5
    for empty in (False, True):
        document = json_format.MessageToDict(settings, always_print_fields_with_no_presence=empty)
        again = plan_pb2.PlanSettings()
        json_format.ParseDict(checked(document, again.DESCRIPTOR), again)
        assert again == settings


def some_state() -> plan_pb2.PlanState:
    unneeded = plan_pb2.NodeTimes(node=b"\1\0\0\0", time_ns=(1_700_000_000 * 10**9).to_bytes(8, "little"))
    part = plan_pb2.ScaleDownState(strings=["", "n1"], unneeded=unneeded)
    return plan_pb2.PlanState(scale_down=part)


@pytest.mark.parametrize("whole", [pytest.param(False, id="the state"), pytest.param(True, id="the whole answer")])
def test_state_is_read_back_as_it_was_printed(tmp_path: Path, whole: bool) -> None:
    document = json_format.MessageToDict(some_state(), always_print_fields_with_no_presence=True)
    text = json.dumps({"state": document, "diagnostics": {}} if whole else document)
    assert read_state(written(tmp_path, text, "state.json")) == some_state()


def test_no_state_file_means_no_state() -> None:
    assert read_state(None) is None


def test_a_state_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nodes"):
        read_state(written(tmp_path, '{"nodes": []}', "state.json"))


@pytest.mark.parametrize("text", ["", "{}", '{"state": {}, "diagnostics": {}}', '{"state": null, "diagnostics": {}}'])
def test_an_empty_state_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"it is empty; a state is what .*: give the output of `trimtab plan -o json`"):
        read_state(written(tmp_path, text, "state.json"))


def test_a_state_belongs_to_a_cluster_that_has_one_of_its_nodes() -> None:
    path = Path("state.json")
    check_state(path, some_state(), snapshot_of(node("n1"), node("n2")))
    check_state(None, plan_pb2.PlanState(), snapshot_of(node("n2")))
    with pytest.raises(
        UsageError, match=r"state.json: the input has none of its 1 node, such as n1: it is the state of"
    ):
        check_state(path, some_state(), snapshot_of(node("n2")))


def test_settings_for_a_node_group_that_is_not_there_are_noted_with_the_nearest() -> None:
    settings = plan_pb2.PlanSettings()
    settings.node_groups["worker-a"].utilization_threshold = 0.5
    assert settings_notes(settings, snapshot_of(node_group("worker-a"))) == {}
    (text,) = settings_notes(settings, snapshot_of(node_group("workers-a"))).values()
    assert text == "settings: nodeGroups.worker-a: the input has no such node group; did you mean workers-a?"


@pytest.mark.parametrize(
    ("changes", "threshold"),
    [
        pytest.param(("scaleDown.utilizationThreshold=0.4",), 0.4, id="over the file"),
        pytest.param(("scale_down.utilization_threshold=0.3",), 0.3, id="as the contract has it"),
        pytest.param(("nodeGroups.a\\.b_c.unneededTime=5m",), 0.7, id="another one, of a group"),
    ],
)
def test_single_settings_are_over_those_of_the_file(tmp_path: Path, changes: tuple[str, ...], threshold: float) -> None:
    settings = read_settings(written(tmp_path, "scaleDown: {utilizationThreshold: 0.7}"), changes)
    assert settings.scale_down.utilization_threshold == threshold
    assert list(settings.node_groups) == (["a.b_c"] if "nodeGroups" in changes[0] else [])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param("scaleDown.utilizationThreshhold=0.4", "did you mean utilizationThreshold?", id="misspelled"),
        pytest.param("consolidateAfter=1m", "that is nodeGroups.NAME.consolidateAfter here", id="of Karpenter"),
        pytest.param("scaleDown", "give KEY=VALUE", id="no value"),
        pytest.param("scaleDown.enabled.x=1", "enabled has no fields", id="below a value"),
    ],
)
def test_a_single_setting_that_cannot_be_meant_is_named(tmp_path: Path, change: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        read_settings(written(tmp_path, "scaleDown: {enabled: true}"), (change,))


@pytest.mark.parametrize(
    ("text", "seconds", "nanos"),
    [
        pytest.param("2026-01-31T12:00:00Z", 1_769_860_800, 0, id="RFC 3339"),
        pytest.param("2026-01-31T13:00:00.25+01:00", 1_769_860_800, 250_000_000, id="with zone and fraction"),
        pytest.param("1769860800", 1_769_860_800, 0, id="Unix seconds"),
        pytest.param(" 1769860800.000000001 ", 1_769_860_800, 1, id="Unix seconds to the nanosecond"),
        pytest.param("0", 0, 0, id="the beginning"),
    ],
)
def test_moments_are_read_exactly(text: str, seconds: int, nanos: int) -> None:
    moment = read_now(text)
    assert (moment.seconds, moment.nanos) == (seconds, nanos)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("yesterday", id="a word"),
        pytest.param("2026-01-31", id="a day"),
        pytest.param("-5", id="negative"),
        pytest.param("", id="nothing"),
        pytest.param("1769860800000000", id="microseconds"),
        pytest.param("2026-13-31T12:00:00Z", id="a month too many"),
    ],
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match="--now"):
        read_now(text)


def test_without_the_option_it_is_the_real_now() -> None:
    earliest = time.time()
    assert earliest - 1 <= read_now(None).ToNanoseconds() / 1e9 <= time.time() + 1
