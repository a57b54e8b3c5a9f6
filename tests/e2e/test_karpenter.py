"""Karpenter with our disruption method on a real control plane: the planner's plans are carried out within budgets and
without losing a pod, and without a planner that can be used Karpenter goes on alone and says so.

Karpenter is its own kwok build, of the public module, with the method of `clients/go/karpenter`.
"""

import os
import signal
from pathlib import Path

import pytest

from tests.builders.tls import make_ca
from tests.e2e.actuator_process import until
from tests.e2e.control_plane.control_plane import ControlPlane, free_ports
from tests.e2e.karpenter import wrong_sizes
from tests.e2e.karpenter.history import history_of
from tests.e2e.karpenter.karpenter_process import Karpenter, install_kinds, karpenter
from tests.e2e.karpenter.lying_planner import lying_planner
from tests.e2e.loop_processes import planner_at
from tests.e2e.watch_log import WatchLog

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
NODES, SLOW_S = 24, 240.0
DECISIONS = "karpenter_voluntary_disruption_decisions_total"
APPS: list[wrong_sizes.App] = []


@pytest.fixture(scope="module")
def filled(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> ControlPlane:
    """Return a control plane with nodes of wrong sizes that nothing disrupts yet; no Karpenter runs."""
    install_kinds(plane)
    with karpenter(plane, tmp_path_factory.mktemp("karpenter")):
        APPS[:] = wrong_sizes.fill(plane, NODES)
    return plane


def own_commands(running: Karpenter) -> float:
    """Return the number of commands of Karpenter's own consolidation."""
    return running.count(DECISIONS, consolidation_type="multi") + running.count(DECISIONS, consolidation_type="single")


def check_goes_on_alone(plane: ControlPlane, running: Karpenter, reason: str) -> None:
    """Check that Karpenter says that there is no plan, and why, and consolidates by itself."""
    wrong_sizes.open_budget(plane, "1")
    until(lambda: own_commands(running) > 0, SLOW_S, "a command of Karpenter's own")
    wrong_sizes.open_budget(plane, "0")
    assert running.count("trimtab_karpenter_fallbacks_total", reason=reason) > 0
    lines = [line for line in running.lines() if line["message"].startswith("karpenter goes on alone")]
    assert lines, "the log does not say so"
    if reason == "disagreement":
        assert {"over-budget"} <= {line["reason"] for line in lines} <= {"over-budget", "not-a-candidate"}
    else:
        assert reason in {line["reason"] for line in lines}
    assert running.count(DECISIONS, consolidation_type="trimtab") == 0
    until(lambda: not any(map(wrong_sizes.is_disrupted, wrong_sizes.listed(plane, "nodes"))), SLOW_S, "it is over")
    pods = sum(app.replicas for app in APPS)
    until(lambda: wrong_sizes.running_pods(plane) == pods, SLOW_S, "all pods run")


@pytest.mark.timeout(900)
def test_a_planner_that_is_gone_leaves_karpenter_alone(filled: ControlPlane, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with planner_at(address, tmp_path) as planner, karpenter(filled, tmp_path, f"--trimtab-address={address}") as one:
        planner.kill()
        planner.wait(30)
        check_goes_on_alone(filled, one, "unavailable")


@pytest.mark.timeout(900)
def test_a_planner_that_is_slow_leaves_karpenter_alone(filled: ControlPlane, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    flags = (f"--trimtab-address={address}", "--trimtab-deadline=1s")
    with planner_at(address, tmp_path) as planner, karpenter(filled, tmp_path, *flags) as one:
        os.kill(planner.pid, signal.SIGSTOP)
        check_goes_on_alone(filled, one, "deadline")
        os.kill(planner.pid, signal.SIGCONT)


@pytest.mark.timeout(900)
def test_a_planner_with_a_wrong_certificate_leaves_karpenter_alone(filled: ControlPlane, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    ours, other = make_ca(tmp_path / "ours"), make_ca(tmp_path / "other")
    secured = (f"--tls-cert={ours.directory / 'server.crt'}", f"--tls-key={ours.directory / 'server.key'}")
    flags = (f"--trimtab-address={address}", f"--trimtab-tls-ca={other.ca}")
    with (
        planner_at(address, tmp_path, *secured, security=ours.channel()),
        karpenter(filled, tmp_path, *flags) as one,
    ):
        check_goes_on_alone(filled, one, "credentials")


@pytest.mark.timeout(900)
def test_a_plan_that_breaks_a_budget_is_not_carried_out(filled: ControlPlane, tmp_path: Path) -> None:
    with lying_planner() as address, karpenter(filled, tmp_path, f"--trimtab-address={address}") as one:
        check_goes_on_alone(filled, one, "disagreement")


@pytest.mark.timeout(900)
def test_plans_are_carried_out_within_budgets_and_no_pod_is_lost(filled: ControlPlane, tmp_path: Path) -> None:
    before = wrong_sizes.listed(filled, "nodes")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with (
        planner_at(address, tmp_path),
        karpenter(filled, tmp_path, f"--trimtab-address={address}") as one,
        WatchLog(filled, tmp_path) as log,
    ):
        until(log.has_begun, 60, "the watches")
        wrong_sizes.open_budget(filled, "4")
        until(lambda: one.count("trimtab_karpenter_commands_total", state="completed") >= 3, SLOW_S, "three commands")
        wrong_sizes.open_budget(filled, "0")
        wrong_sizes.watch_until_settled(filled, SLOW_S, 20)
        changes = log.changes()
        assert one.count(DECISIONS, consolidation_type="trimtab") >= 3
    after = wrong_sizes.listed(filled, "nodes")
    assert wrong_sizes.price_of(after) < 0.75 * wrong_sizes.price_of(before)
    history = history_of(changes, [app.name for app in APPS])
    assert 1 < history.most_leaving <= 4
    for app in APPS:
        assert history.lowest[app.name] >= app.least_healthy, app
    assert wrong_sizes.running_pods(filled) == sum(app.replicas for app in APPS)
