"""`import trimtab` loads nothing; `trimtab.plan` and the others answer as the commands do, as values, and write
nothing.
"""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import trimtab as api
from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed, runner
from tests.builders.planner_service import make_shell
from tests.builders.replacement import WEB, group, web
from trimtab.common.objects import read_files

NOW = "2026-03-01T00:00:00Z"
QUICK = {"scaleDown": {"unneededTime": "0s"}}


@pytest.fixture
def trimtab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command line."""
    return runner(monkeypatch, capsys)


@pytest.fixture
def priced(tmp_path: Path) -> Path:
    """Write two nodes at 2 an hour: the pod of n1 fits n2, on which a pod keeps data; one pod waits."""
    web = k8s.replica_set("web", replicas=2)
    group = k8s.node_group("a", min_size=0, max_size=5, selector={"pool": "a"}, price=2.0)
    nodes = [k8s.node(name, labels={"pool": "a"}) for name in ("n1", "n2")]
    stored = {"volumes": [{"name": "v", "emptyDir": {}}]}
    pods = [
        k8s.pod("web-0", node="n1", owner=web),
        k8s.pod("web-1", node="n2", owner=web, spec=stored),
        k8s.pod("waiting", cpu="3950m", owner=web),
    ]
    return listed(tmp_path, group, *nodes, web, *pods)


def test_importing_the_package_loads_nothing_else() -> None:
    program = (
        "import sys, trimtab; print(sorted({'numpy', 'numba', 'google', 'grpc', 'rich', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_name_of_the_package_exists_and_others_do_not() -> None:
    assert all(getattr(api, name) is not None for name in api.__all__)
    assert set(api.__all__) <= set(dir(api))
    with pytest.raises(AttributeError, match="has no attribute 'plans'"):
        api.plans  # noqa: B018


def test_a_plan_has_the_answer_as_attributes(priced: Path) -> None:
    plan = api.plan(priced, now=NOW, settings=QUICK)
    (gone,) = plan.removable
    assert (gone.name, gone.node_group, gone.price_per_hour, gone.goes_now) == ("n1", "a", 2.0, True)
    assert gone.destinations == {"default/web-0": "n2"}
    assert gone.since == datetime(2026, 3, 1, tzinfo=UTC)
    (stays,) = plan.staying
    assert (stays.name, stays.reason, stays.blocking_pod) == ("n2", "BLOCKED_BY_POD", "default/web-1")
    assert stays.blocking_reason == "LOCAL_STORAGE_REQUESTED"
    assert (plan.node_count, plan.cost_per_hour, plan.saving_per_hour, plan.saving_per_month) == (2, 4.0, 2.0, 1460.0)
    (grown,) = plan.growth
    assert (grown.node_group, grown.new_size - grown.current_size, grown.pods) == ("a", 1, ("default/waiting",))


def test_the_text_of_a_plan_is_what_the_command_prints(trimtab: Run, priced: Path) -> None:
    text = repr(api.plan(priced, now=NOW, settings=QUICK))
    done = trimtab("plan", priced, "--now", NOW, "--no-advice", "--set", "scaleDown.unneededTime=0s")
    assert text.splitlines() == [line.rstrip() for line in done.out.splitlines()]
    assert "1 of 2 nodes can go (50 %). That saves 2.00 of 4.00 an hour (50 %), 1,460 a month." in text


def test_a_plan_is_the_one_that_the_command_prints(trimtab: Run, priced: Path) -> None:
    assert api.plan(priced, now=NOW).as_dict() == trimtab("plan", priced, "--now", NOW, "-o", "json").document()


def test_input_may_be_a_snapshot_which_is_left_as_it_is_and_a_state_continues_timers(priced: Path) -> None:
    snapshot = read_files([priced]).snapshot
    del snapshot.node_groups[:]
    before = snapshot.SerializeToString(deterministic=True)
    first = api.plan(snapshot, now=datetime(2026, 3, 1, tzinfo=UTC))
    assert snapshot.SerializeToString(deterministic=True) == before
    assert any("nodes are grouped by" in text for text in first.notes)
    later = api.plan(snapshot, now="2026-03-01T00:11:00Z", state=first)
    assert [(one.goes_now, one.since) for one in later.removable] == [(True, first.removable[0].since)]


def test_advice_is_that_of_the_command(trimtab: Run, priced: Path) -> None:
    report = api.advise(priced, now=NOW)
    assert report.document() == trimtab("advise", priced, "--now", NOW, "-o", "json").document()
    assert report.base_nodes == ("n1",)


def test_nothing_is_written(priced: Path, capfd: pytest.CaptureFixture[str]) -> None:
    api.plan(priced, group_by=None)
    api.advise(priced)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({"settings": {"scaleDwn": {}}}, "scaleDwn", id="unknown setting"),
        pytest.param({"settings": {"scaleDown": {"utilizationThreshold": 2}}}, "utilizationThreshold", id="value"),
        pytest.param({"decisions": ["scale-sideways"]}, "scale-sideways", id="decision"),
        pytest.param({"now": "soon"}, "--now soon", id="time"),
        pytest.param({"prices": "none.csv"}, "none.csv", id="prices"),
    ],
)
def test_unusable_input_is_an_input_error_that_names_the_place(
    priced: Path, options: dict[str, object], problem: str
) -> None:
    with pytest.raises(api.InputError, match=problem):
        api.plan(priced, **options)  # type: ignore[arg-type]


def test_files_may_come_as_a_list_and_what_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    nodes, pods = listed(tmp_path / "nodes", k8s.node("n1")), listed(tmp_path, k8s.pod("p", node="n1"))
    assert api.plan([nodes, str(pods)], now=NOW).as_dict() == api.plan(nodes, pods, now=NOW).as_dict()
    with pytest.raises(api.InputError, match="a list of files or a snapshot is expected, not dict"):
        api.plan({"kind": "List"})  # type: ignore[arg-type]


def test_a_file_that_does_not_exist_is_an_input_error() -> None:
    with pytest.raises(api.InputError, match="there is no such file"):
        api.plan("nowhere.json")


def test_a_planner_that_does_not_answer_is_a_planner_error(priced: Path) -> None:
    with pytest.raises(api.PlannerError, match=r"no planner at 127\.0\.0\.1:9"):
        api.plan(priced, planner="127.0.0.1:9")


def test_a_running_planner_gives_the_same_plan_and_advice(priced: Path) -> None:
    with make_shell() as shell:
        with api.client(shell.address) as planner:
            assert planner.plan(priced, now=NOW).as_dict() == api.plan(priced, now=NOW).as_dict()
            assert planner.advise(priced, now=NOW) == api.advise(priced, now=NOW)
        assert api.plan(priced, now=NOW, planner=shell.address).as_dict() == api.plan(priced, now=NOW).as_dict()


def test_the_simulator_is_the_one_of_the_package_of_simulations() -> None:
    simulator = api.Simulator(seed=1)
    simulator.add_group("general", cpu="4", memory="16Gi", price=0.2, max_size=20)
    assert simulator.node_count() == 0


@pytest.mark.nightly
def test_a_script_with_these_names_passes_mypy_strict(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="needs mypy: pip install -e '.[dev]'")
    script = tmp_path / "script.py"
    script.write_text(
        "import trimtab\n\n"
        'settings = {"scaleDown": {"enabled": True}}\n'
        'plan: trimtab.PlanResult = trimtab.plan("c.json", settings=settings, decisions=["scale-down"])\n'
        "names: list[str] = [node.name for node in plan.removable]\n"
        "saving: float | None = plan.saving_per_hour\n"
        'report: trimtab.AdviceReport = trimtab.advise("c.json", most_plans=10)\n'
        "lines: list[str] = [line for advice in report.advice for line in advice.lines]\n"
        'with trimtab.client("127.0.0.1:8085") as planner:\n'
        '    print(planner.plan("c.json", state=plan))\n'
        "simulator = trimtab.Simulator(seed=1)\n"
        'simulator.run_for("1h")\n'
    )
    wrong = tmp_path / "wrong.py"
    wrong.write_text('import trimtab\n\ntrimtab.plan("c.json", setings={})\ntrimtab.plans("c.json")\n')
    call = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", str(script)]
    done = subprocess.run([*call, str(wrong)], cwd=tmp_path, capture_output=True, text=True, check=False)
    found = [line.partition(": error: ")[0].rpartition("/")[2] for line in done.stdout.splitlines() if "error" in line]
    assert [line for line in found if line.startswith("wrong")] == ["wrong.py:3", "wrong.py:4"], done.stdout
    assert not [line for line in found if line.startswith("script")], done.stdout


def test_the_replacement_part_is_the_message_and_stands_in_the_text(tmp_path: Path) -> None:
    names = ["l0", "l1"]
    pods = [web(f"{name}-{i}", name) for name in names for i in range(4)]
    groups = [*group("large", "16", "64Gi", 1.0, names), *group("small", "4", "16Gi", 0.2)]
    file = listed(tmp_path, WEB, *groups, *pods)
    assert api.plan(file, now=NOW).replacement is None
    plan = api.plan(file, now=NOW, decisions=["replacement"])
    assert plan.replacement is not None
    (wave,) = plan.replacement.waves
    assert ([one.node for one in wave.leaving], [one.name for one in wave.new_nodes]) == (names, ["small#0", "small#1"])
    (shown,) = plan.as_dict()["replacement"]["waves"]
    assert {pod for one in shown["leaving"] for pod in one["destinations"]} == {
        f"default/{n}-{i}" for n in names for i in range(4)
    }
    assert plan.response.summary.saved_per_month == pytest.approx(1168.0)
    assert [(one.wave_count, one.chosen, one.stopped_by) for one in plan.replacement.frontier] == [(1, True, 0)]
    told = "Replacement: 2 nodes leave, 2 new nodes come, in 1 wave. That saves 1.60 of 2.00 an hour (80 %), 1,168 a"
    assert repr(plan).startswith(told)
