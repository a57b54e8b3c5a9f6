"""`trimtab plan --decision slack`: as a table, and as objects for other autoscalers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import kubernetes as k8s
from tests.builders.capacity_buffers import buffer, refused, template
from tests.builders.cli import Run, listed

APP = {"app": "web"}
APART = {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"labelSelector": {"matchLabels": APP}, "topologyKey": "kubernetes.io/hostname"}
]}  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Write ten nodes, a workload that requests two more pods, each on a separate node, and a dangling buffer."""
    template = {
        "metadata": {"labels": APP},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}],
            "affinity": {"podAntiAffinity": APART},
            "tolerations": [
                {"key": "spot", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "class", "operator": "Gt", "value": "5", "effect": "NoSchedule"},
            ],
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
    return trimtab("plan", "--no-advice", *files, "--decision", "slack", "--now", "1800000000", *options)


def objects(trimtab: Run, directory: Path, form: str) -> Sequence[dict[str, Any]]:
    outcome = asked(trimtab, directory, "-o", form)
    assert outcome.code == 0, outcome.err
    document = yaml.safe_load(outcome.out)
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    found: Sequence[dict[str, Any]] = document["items"]
    return found


def test_the_table_shows_requested_and_present_placeholders_their_nodes_and_what_each_blocks(
    trimtab: Run, directory: Path
) -> None:
    outcome = asked(trimtab, directory)
    assert outcome.code == 0, outcome.err
    text = outcome.out
    assert "all requested room is available" in text
    assert "Requested: at least 7 cores, 18.0 GiB of memory.\nKept free: 7 cores, 18.0 GiB of memory.\n" in text
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
    assert standard["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "800m", "memory": "3435973836"}
    assert web["metadata"]["labels"] == APP
    assert web["spec"]["tolerations"] == [
        {"operator": "Gt", "key": "class", "value": "5", "effect": "NoSchedule"},
        {"operator": "Exists", "key": "spot", "effect": "NoSchedule"},
    ]
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
    # Existing buffers are not exported again.
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
    # Real pods keep apart by their own label; another anti-affinity term would delay pods that wait for room.
    (rule,) = template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    (spread,) = template["spec"]["topologySpreadConstraints"]
    assert spread == {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    assert standard["metadata"]["name"] == "slack-standard"


@pytest.fixture
def priced(tmp_path: Path) -> Path:
    """Write two nodes at 0.50 an hour, one of them full; slack of 40 % uses the other, and one new node."""
    web = k8s.replica_set("web", 4)
    listed(
        tmp_path,
        *(k8s.node(f"n{i}", cpu="4", memory="16Gi", labels={"pool": "a"}) for i in range(2)),
        k8s.node_group("a", 0, 9, nodes=["n0", "n1"], price=0.5),
        web,
        *(k8s.pod(f"web-{i}", cpu="1", memory="1Gi", node="n0", owner=web) for i in range(4)),
    )
    (tmp_path / "settings.yaml").write_text("slack: {extraCapacityMinRate: 0.6, granularity: 2}")
    return tmp_path


def told(trimtab: Run, directory: Path, subject: str, *options: str) -> Any:
    files = (directory / "cluster.json", subject, "--settings", directory / "settings.yaml")
    outcome = trimtab("explain", *files, "--now", "1800000000", *options)
    assert outcome.code == 0, outcome.err
    return outcome


def test_slack_is_explained_as_a_whole(trimtab: Run, priced: Path) -> None:
    text = " ".join(told(trimtab, priced, "slack").out.split())
    assert "Slack: some of the requested room is missing: it waits for new nodes." in text
    assert "Requested: at least 4.8 cores, 19.2 GiB of memory." in text
    assert "Kept free: 4 cores, 16.0 GiB of memory, which costs 0.50 an hour, 365.00 a month." in text
    assert "standard: 3 placeholders of 2 cores and 8.0 GiB of memory each, a share of an average node" in text
    assert "2 on n1" in text
    assert "1 waits for a new node of a" in text
    assert "1 node stays because of slack: n1." in text


def test_a_placeholder_is_explained_with_its_node_its_cost_and_what_it_holds_back(trimtab: Run, priced: Path) -> None:
    text = " ".join(told(trimtab, priced, "placeholder/standard-0").out.split())
    assert text.startswith("Placeholder standard-0, one of 3: it keeps 2 cores and 8.0 GiB of memory free")
    assert "It is on n1 of node group a, beside 0 pods and 1 other placeholder." in text
    assert "It takes 50 % of that node, which costs 0.25 an hour, 182.50 a month." in text
    assert "Slack keeps n1" in text


def test_a_placeholder_without_a_node_shows_the_node_group_that_grows_for_it(trimtab: Run, priced: Path) -> None:
    assert "It waits for a new node: node group a grows for it." in told(trimtab, priced, "placeholder/standard-2").out


def test_explanations_of_slack_are_documents_too(trimtab: Run, priced: Path) -> None:
    whole = told(trimtab, priced, "slack", "-o", "json").document()
    assert whole["slack"]["result"] == "SLACK_LACKING"
    assert "1 node stays because of slack: n1." in [one["text"] for one in whole["blocks"]]
    one = told(trimtab, priced, "placeholder/standard-0", "-o", "json").document()
    assert one["placeholder"] == whole["slack"]["placeholders"][0]
    assert one["placeholder"]["node"] == "n1"


def test_a_placeholder_of_a_workload_says_for_whom_it_is(trimtab: Run, directory: Path) -> None:
    out = told(trimtab, directory, "placeholder/Deployment/default/web-0").out
    assert "It is for Deployment/default/web." in out
    assert "CapacityBuffer/default/lost" in told(trimtab, directory, "slack").out


def test_a_placeholder_that_there_is_not_is_refused_with_the_nearest_name(trimtab: Run, directory: Path) -> None:
    files = (directory / "cluster.json", "placeholder/standart-0", "--settings", directory / "settings.yaml")
    outcome = trimtab("explain", *files)
    assert outcome.code != 0
    assert "slack has no placeholder standart-0 here; is it standard-0" in outcome.err


def test_without_slack_the_explanation_says_how_to_ask_for_it(trimtab: Run, priced: Path) -> None:
    (priced / "settings.yaml").write_text("{}")
    out = told(trimtab, priced, "slack").out
    assert "no room is requested: set slack.extraCapacityMinRate" in out
    assert "No node stays because of slack." in out


ZONE = "topology.kubernetes.io/zone"
ASKS_TOGETHER = {"trimtab.dev/slack": "2", "trimtab.dev/slack-together": "true"}


def gang_of(count: int, key: str = "") -> Sequence[dict[str, Any]]:
    """Return a CapacityBuffer whose pods, one to a node, fit together or not at all."""
    made = buffer("train", podTemplateRef={"name": "worker"}, replicas=count)
    made["metadata"]["annotations"] = {"trimtab.dev/slack-together": "true"} | (
        {"trimtab.dev/slack-topology-key": key} if key else {}
    )
    worker = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}]}}
    return template("worker", of=worker), made


def in_zones(tmp_path: Path, most: int, *objects: dict[str, Any]) -> Path:
    """Write three nodes, two of them in zone b, a node group for zone b of at most so many nodes, and objects."""
    nodes = [k8s.node(f"n{i}", cpu="4", labels={ZONE: zone}) for i, zone in enumerate("abb")]
    of_group = k8s.node("t", cpu="4", labels={ZONE: "b"})
    group = k8s.node_group("b", 0, most, nodes=["n1", "n2"], template=of_group, price=0.5)
    listed(tmp_path, *nodes, group, *objects)
    (tmp_path / "settings.yaml").write_text("{}")
    return tmp_path


def test_the_table_says_how_many_gangs_have_room(trimtab: Run, tmp_path: Path) -> None:
    whole = in_zones(tmp_path, 2, *gang_of(2, ZONE))
    text = asked(trimtab, whole).out
    assert "CapacityBuffer/default/train: 1 of 1 gangs of 2 pods has room, all or none, each on nodes with one" in text
    assert "all requested room is available" in text


def test_a_gang_of_placeholders_that_waits_is_explained_with_the_limit(trimtab: Run, tmp_path: Path) -> None:
    short = in_zones(tmp_path, 2, *gang_of(3, ZONE))
    text = " ".join(told(trimtab, short, "slack").out.split())
    assert "requests room for 3 pods, 0 present. 0 of 1 gangs of 3 pods have room, all or none" in text
    assert "3 wait for room; its gang CapacityBuffer/default/train:1 waits: in no domain of" in text
    assert "b would help and is at the maximum size" in text
    one = " ".join(told(trimtab, short, "placeholder/CapacityBuffer/default/train:1-0").out.split())
    assert "All placeholders of its gang are on nodes, or none is." in one


def test_a_placeholder_whose_gang_gets_new_nodes_waits_for_these(trimtab: Run, tmp_path: Path) -> None:
    growing = in_zones(tmp_path, 3, *gang_of(3, ZONE))
    text = " ".join(told(trimtab, growing, "slack").out.split())
    assert "1 waits for a new node of b" in text
    assert "2 wait for the rest of the gang, on new nodes of b" in text
    rows = told(trimtab, growing, "slack", "-o", "json").document()["slack"]["placeholders"]
    texts = [" ".join(told(trimtab, growing, f"placeholder/{one['name']}").out.split()) for one in rows]
    waits = "It waits with its gang: a node has room for it, and node group b grows for the rest of it."
    assert sum(waits in text for text in texts) == 2


def test_an_exported_buffer_of_a_gang_is_read_back_as_one(trimtab: Run, tmp_path: Path) -> None:
    web = k8s.deployment("web", 2, metadata={"annotations": ASKS_TOGETHER})
    web["spec"]["template"] = gang_of(1)[0]["template"]
    found = objects(trimtab, in_zones(tmp_path, 2, web), "capacity-buffers")
    (made,) = (one for one in found if one["kind"] == "CapacityBuffer")
    assert refused(made) == []
    in_zones(tmp_path, 2, *found)
    (back,) = asked(trimtab, tmp_path, "-o", "json").document()["slack"]["objects"]
    assert (back["askedGangCount"], back["presentGangCount"], back["presentCount"]) == (1, 1, 2)


def pause_pods(exported: Sequence[dict[str, Any]], *nodes: str) -> Sequence[dict[str, Any]]:
    """Return the priority class and group of exported pause pods, and a pod on each of these nodes, "" = on none."""
    priority, group, made = exported
    template, pods = made["spec"]["template"], []
    for number, on in enumerate(nodes):
        one = k8s.pod(f"pause-{number}", cpu="3", memory="1Gi", node=on, labels=template["metadata"]["labels"])
        one["spec"] |= {key: template["spec"][key] for key in ("schedulingGroup", "affinity")} | {"priority": -10}
        pods.append(one)
    return priority, group, *pods


def test_pause_pods_of_a_gang_are_a_pod_group_that_grows_for_an_evicted_one_in_its_domain(
    trimtab: Run, tmp_path: Path
) -> None:
    web = k8s.deployment("web", 2, metadata={"annotations": ASKS_TOGETHER | {"trimtab.dev/slack-topology-key": ZONE}})
    web["spec"]["template"] = gang_of(1)[0]["template"]
    exported = objects(trimtab, in_zones(tmp_path, 2, web), "pause-pods")
    group, made = exported[1:]
    assert (group["kind"], group["spec"]) == ("PodGroup", {"schedulingPolicy": {"gang": {"minCount": 2}}})
    assert made["spec"]["template"]["spec"]["schedulingGroup"] == {"podGroupName": group["metadata"]["name"]}

    def planned(most: int) -> Any:
        # A pod of another workload took the node of the second one.
        taken = k8s.pod("taker", cpu="4", node="n2")
        in_zones(tmp_path, most, *pause_pods(exported, "n1", ""), taken)
        outcome = trimtab("plan", "--no-advice", tmp_path / "cluster.json", "--decision", "scale-up", "-o", "json")
        return outcome.document()["scaleUp"]

    (split,) = planned(3)["splits"]
    assert (split["nodeGroup"], split["pods"]) == ("b", ["default/pause-1"])
    (gang,) = planned(2)["gangs"]
    assert (gang["boundCount"], gang["lackingCount"], gang["reason"]) == (1, 1, "MAX_SIZE_REACHED")
