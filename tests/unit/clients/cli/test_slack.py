"""`trimtab plan --decision slack`: as a table, and as objects for other autoscalers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import kubernetes as k8s
from tests.builders.capacity_buffers import refused
from tests.unit.clients.cli.conftest import Run, listed

APP = {"app": "web"}
APART = {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"labelSelector": {"matchLabels": APP}, "topologyKey": "kubernetes.io/hostname"}
]}  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Ten nodes, a workload that asks for two pods more, each on a node of its own, and a buffer that dangles."""
    template = {
        "metadata": {"labels": APP},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}],
            "affinity": {"podAntiAffinity": APART},
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }
    web = k8s.deployment("web", 4, metadata={"annotations": {"trimtab.dev/slack": "2"}})
    web["spec"]["template"] = template
    dangling = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "lost", "namespace": "default"},
        "spec": {"podTemplateRef": {"name": "absent"}, "replicas": 1},
    }
    nodes = [k8s.node(f"n{i}", cpu="4", memory="16Gi", labels={"pool": "a"}) for i in range(10)]
    listed(tmp_path, *nodes, web, dangling)
    (tmp_path / "settings.yaml").write_text("slack: {extraCapacityMinRate: 0.1}")
    return tmp_path


def asked(trimtab: Run, directory: Path, *options: str) -> Any:
    files = (directory / "cluster.json", "--settings", directory / "settings.yaml")
    return trimtab("plan", *files, "--decision", "slack", "--now", "1800000000", *options)


def objects(trimtab: Run, directory: Path, form: str) -> Sequence[dict[str, Any]]:
    outcome = asked(trimtab, directory, "-o", form)
    assert outcome.code == 0, outcome.err
    document = yaml.safe_load(outcome.out)
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    found: Sequence[dict[str, Any]] = document["items"]
    return found


def test_the_table_says_what_is_asked_for_what_is_there_where_and_what_each_holds_back(
    trimtab: Run, directory: Path
) -> None:
    outcome = asked(trimtab, directory)
    assert outcome.code == 0, outcome.err
    text = outcome.out
    assert "all the room that is asked for is there" in text
    assert "asked for: 7 cores, 18.0 GiB of memory" in text
    assert "standard" in text
    assert "0.8 cores, 3.2 GiB" in text
    assert "Deployment/default/web" in text
    assert "CapacityBuffer/default/lost" in text


def test_the_json_has_a_row_for_each_placeholder(trimtab: Run, directory: Path) -> None:
    slack = asked(trimtab, directory, "-o", "json").document()["slack"]
    assert slack["result"] == "SLACK_PRESENT"
    assert [one["name"] for one in slack["placeholders"]] == [
        "Deployment/default/web-0", "Deployment/default/web-1", *(f"standard-{i}" for i in range(5)),
    ]  # fmt: skip
    assert slack["placeholders"][0].items() >= {"kind": "WORKLOAD", "for": "Deployment/default/web"}.items()
    assert slack["pushedOut"] == []


def test_exported_buffers_are_valid_and_ask_for_the_same_slack(trimtab: Run, directory: Path) -> None:
    found = objects(trimtab, directory, "capacity-buffers")
    buffers = [one for one in found if one["kind"] == "CapacityBuffer"]
    templates = {one["metadata"]["name"]: one for one in found if one["kind"] == "PodTemplate"}
    assert [refused(one) for one in buffers] == [[], []]
    assert [one["spec"]["replicas"] for one in buffers] == [2, 5]
    web, standard = (templates[one["spec"]["podTemplateRef"]["name"]]["template"] for one in buffers)
    assert standard["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "800m", "memory": "3435973837"}
    assert web["metadata"]["labels"] == APP
    assert web["spec"]["tolerations"] == [{"operator": "Exists", "key": "spot", "effect": "NoSchedule"}]
    (rule,) = web["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"


def test_exported_buffers_are_read_back_as_the_same_slack(trimtab: Run, directory: Path) -> None:
    before = asked(trimtab, directory, "-o", "json").document()["slack"]
    found = objects(trimtab, directory, "capacity-buffers")
    nodes = [k8s.node(f"n{i}", cpu="4", memory="16Gi", labels={"pool": "a"}) for i in range(10)]
    listed(directory, *nodes, *found)
    (directory / "settings.yaml").write_text("{}")
    after = asked(trimtab, directory, "-o", "json").document()["slack"]

    def sizes(slack: Any) -> list[tuple[str, str]]:
        return sorted((one["cpuMilli"], one["memoryBytes"]) for one in slack["placeholders"])

    assert sizes(after) == sizes(before)
    # Those that are buffers already are not exported once more.
    assert objects(trimtab, directory, "capacity-buffers") == []


def test_pause_pods_come_with_a_priority_class_and_keep_apart_by_a_label_of_their_own(
    trimtab: Run, directory: Path
) -> None:
    priority, web, standard = objects(trimtab, directory, "pause-pods")
    assert (priority["kind"], priority["value"], priority["preemptionPolicy"]) == ("PriorityClass", -10, "Never")
    assert (web["kind"], web["spec"]["replicas"], standard["spec"]["replicas"]) == ("Deployment", 2, 5)
    template = web["spec"]["template"]
    assert template["spec"]["priorityClassName"] == priority["metadata"]["name"]
    labels = web["spec"]["selector"]["matchLabels"]
    assert template["metadata"]["labels"] == labels
    assert labels.keys().isdisjoint(APP)
    rules = template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rules[-1] == {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    assert standard["metadata"]["name"] == "slack-standard"
