"""The expander service on loopback, called in the way of every Cluster Autoscaler version."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from tests.builders.best_options import VERSIONS, Options, a_node, a_pod, sent
from tests.builders.kubernetes import Json, node_group, snapshot_of
from tests.builders.waiting import LIMIT_S
from trimtab.clusterautoscaler import expander_pb2 as ca
from trimtab.clusterautoscaler import expander_pb2_grpc
from trimtab.common.recording import RecordingReader
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.server import Registration, ServerSettings, Shell
from trimtab.planner.expander.question import LastPlans
from trimtab.planner.expander.servicer import SERVICE, ChoiceRecorder, ExpanderServicer
from trimtab.planner.process import MAX_MESSAGE_BYTES
from trimtab.planner.service.request_limits import RequestMemory
from trimtab.planner.service.settings import ExpanderOptions, PlannerOptions
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import option_choice_pb2, plan_pb2
from trimtab.v1.plan_pb2 import Expander

Ask = Callable[[ca.BestOptionsRequest], ca.BestOptionsResponse]
NODES = {"small": a_node("s", cpu="2"), "large": a_node("l", cpu="8")}
PODS = [a_pod(f"p{i}") for i in range(6)]
OPTIONS: Options = {"small": (4, PODS), "large": (1, PODS)}


@contextmanager
def serving(plans: LastPlans | None = None, record: Path | None = None, **options: Any) -> Iterator[Ask]:
    """Yield an expander's client like the autoscaler's."""
    limits = PlannerOptions()
    recorder = ChoiceRecorder(record) if record else None
    servicer = ExpanderServicer(
        plans or LastPlans(),
        ExpanderOptions(**options),
        limits,
        RequestMemory(limits.max_request_memory),
        recorder,
    )
    registration = Registration(expander_pb2_grpc.add_ExpanderServicer_to_server, servicer, SERVICE)
    shell = Shell("expander", [registration], ServerSettings(max_message_bytes=MAX_MESSAGE_BYTES))
    with shell, connect(shell.address) as channel:
        stub = expander_pb2_grpc.ExpanderStub(channel)
        yield lambda request: stub.BestOptions(request, timeout=2 * LIMIT_S)
    if recorder is not None:
        recorder.close()


def planned(*groups: Json, cluster: str = "here", **scale_up: Any) -> LastPlans:
    """Return the known clusters after one plan."""
    plans = LastPlans()
    remember(plans, *groups, cluster=cluster, **scale_up)
    return plans


def remember(plans: LastPlans, *groups: Json, cluster: str, **scale_up: Any) -> None:
    request = plan_pb2.PlanRequest(cluster=cluster)
    request.settings.scale_up.MergeFrom(plan_pb2.ScaleUpSettings(**scale_up))
    plans.remember(request, canonicalize(snapshot_of(*groups)))


def chosen(answer: ca.BestOptionsResponse) -> list[str]:
    return [one.node_group_id for one in answer.options]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_encoding_of_every_version_is_read_to_the_last_pod(version: str, tmp_path: Path) -> None:
    with serving(record=tmp_path / "choices.trimtab", expander_chain="least-nodes") as ask:
        answer = ask(sent(OPTIONS, NODES, version))
    assert chosen(answer) == ["large"]
    (choice,) = recorded(tmp_path / "choices.trimtab")
    assert [(one.node_count, one.pod_count, one.cpu_milli, one.memory_bytes) for one in choice.options] == [
        (4, 6, 6000, 6 << 30),
        (1, 6, 6000, 6 << 30),
    ]
    assert {one.node_group: one.capacity["cpu"] for one in choice.groups} == {"large": 8000, "small": 2000}


def recorded(path: Path) -> list[option_choice_pb2.OptionChoice]:
    with path.open("rb") as opened:
        return [frame.choice for frame in RecordingReader(str(path), opened) if frame.HasField("choice")]


def test_prices_sizes_and_health_come_from_the_last_plan_of_the_cluster() -> None:
    plans = planned(node_group("small", price=1.0), node_group("large", price=3.0), expanders=[Expander.CHEAPEST_PLAN])
    with serving(plans) as ask:
        assert chosen(ask(sent(OPTIONS, NODES))) == ["large"]
        remember(
            plans, node_group("small", price=1.0), node_group("large", price=90.0), cluster="here",
            expanders=[Expander.CHEAPEST_PLAN],
        )  # fmt: skip
        assert chosen(ask(sent(OPTIONS, NODES))) == ["small"]


def test_balanced_takes_the_smaller_of_similar_groups() -> None:
    alike = {"a": a_node("a"), "b": a_node("b")}
    options: Options = {"a": (2, PODS), "b": (2, PODS)}
    for a, b, expected in ((3, 2, "b"), (2, 3, "a")):
        plans = planned(
            node_group("a", target=a, max_size=9), node_group("b", target=b, max_size=9),
            expanders=[Expander.BALANCED],
        )  # fmt: skip
        with serving(plans) as ask:
            assert chosen(ask(sent(options, alike))) == [expected]


def test_without_a_snapshot_the_choice_rests_on_what_was_sent_and_the_log_says_so() -> None:
    with capture_logs() as logs, serving(expander_chain="most-pods,least-nodes") as ask:
        assert chosen(ask(sent(OPTIONS, NODES))) == ["large"]
    (line,) = [one for one in logs if one["event"] == "best_options"]
    assert (line["log_level"], line["chosen"], line["snapshot_version"]) == ("warning", "large", "")
    assert any("sizes, prices and health are unknown" in note for note in line["notes"])


@pytest.mark.parametrize(
    ("options", "lacking"),
    [
        ({}, "its chain of expanders is not known"),
        ({"expander_chain": "cheapest-plan,balanced"}, "its prices are not known"),
        ({"expander_chain": "price"}, "its prices are not known"),
    ],
    ids=str,
)
def test_after_a_start_all_options_are_left_until_a_plan_brings_chain_and_prices(
    options: dict[str, Any], lacking: str
) -> None:
    plans = planned(node_group("of another cluster"), cluster="other", expanders=[Expander.LEAST_NODES])
    with capture_logs() as logs, serving(plans, **options) as ask:
        request = sent(OPTIONS, NODES)
        request.options.add(node_group_id="large", node_count=7)
        assert chosen(ask(request)) == ["small", "large"]
        (line,) = [one for one in logs if one["event"] == "best_options"]
        assert (line["log_level"], line["options"]) == ("warning", 2)
        assert lacking in line["notes"][0]
        dear, cheap = node_group("small", price=9.0), node_group("large", price=1.0)
        remember(plans, dear, cheap, cluster="here", expanders=[Expander.PRICE])
        assert chosen(ask(request)) == ["large"]


def test_of_clusters_with_the_same_groups_the_named_one_counts() -> None:
    cheap, dear = node_group("large", price=1.0), node_group("large", price=99.0)
    plans = planned(node_group("small", price=5.0), dear, cluster="one", expanders=[Expander.PRICE])
    remember(plans, node_group("small", price=5.0), cheap, cluster="two", expanders=[Expander.PRICE])
    for cluster, expected in (("one", "small"), ("two", "large")):
        with serving(plans, expander_cluster=cluster) as ask:
            assert chosen(ask(sent(OPTIONS, NODES))) == [expected]
    found = plans.find("", ["small"])
    assert found.plan is None
    assert "--expander-cluster" in found.note


def test_an_answer_is_empty_only_for_an_empty_request() -> None:
    # PRICE excludes groups of unknown price, here all of them: the autoscaler keeps all its options.
    with serving(planned(node_group("small"), node_group("large")), expander_chain="price") as ask:
        assert chosen(ask(sent(OPTIONS, NODES))) == ["small", "large"]
        assert chosen(ask(sent({}, NODES))) == []


def test_unreadable_pods_and_nodes_do_not_prevent_an_answer() -> None:
    request = sent(OPTIONS, NODES)
    request.options[0].pod_bytes.append(b"\xff")
    request.options[1].pod_bytes.append(a_pod("odd", cpu="lots").SerializeToString())
    request.node_bytes_map["large"] = b"\xff\xff"
    request.options.add(node_group_id="unknown", node_count=-3)
    request.options.add(node_group_id="large", node_count=7)
    with serving(expander_chain="most-pods") as ask:
        assert chosen(ask(request)) in (["small"], ["large"])


@pytest.mark.parametrize("chain", ["least-waste", "most-pods", "cheapest-plan"])
def test_absurd_amounts_do_not_prevent_an_answer(chain: str) -> None:
    huge = [a_pod(f"p{i}", cpu="200E", memory="200E") for i in range(3)]
    nodes = NODES | {"most": a_node("m", cpu="9E", memory="9E")}
    request = sent(OPTIONS | {"huge": (2**31 - 1, huge), "most": (2**31 - 1, PODS)}, nodes)
    groups = [node_group(name, price=1.0) for name in ("small", "large", "huge", "most")]
    with serving(planned(*groups), expander_chain=chain) as ask:
        assert len(chosen(ask(request))) == 1
    # Amounts beyond the limit count as large ones and must not wrap around to negative numbers.
    with serving(expander_chain="least-waste") as ask:
        assert chosen(ask(sent({"small": (3, PODS), "most": (2**31 - 1, PODS)}, nodes))) == ["small"]


def test_contradictory_settings_are_an_error_and_not_a_veto() -> None:
    with serving(expander_chain="priority") as ask, pytest.raises(grpc.RpcError) as failed:
        ask(sent(OPTIONS, NODES))
    assert failed.value.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.ci
def test_a_request_of_a_hundred_mib_is_answered() -> None:
    pods = [a_pod(f"p{i}") for i in range(1000)]
    request = sent({f"g{i}": (100, pods) for i in range(20)}, {})
    for option in request.options:
        option.debug = "x" * (5 << 20)
    assert 100 << 20 < request.ByteSize() < MAX_MESSAGE_BYTES
    with serving(expander_chain="least-nodes") as ask:
        assert len(chosen(ask(request))) == 1


@pytest.mark.parametrize("name", ["cheap", "", "unspecified"])
def test_a_chain_of_unknown_names_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(ValueError, match="is not an expander"):
        ExpanderOptions(expander_chain=f"balanced,{name}").chain()
