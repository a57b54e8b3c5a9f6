"""Compile every kernel before the service is ready, by answering small requests built like real ones. Decides which
requests are needed: a whole snapshot with unordered pods, a delta, a plan, a check of fitting nodes, a split of new
nodes. The arrays have the types and layout of real ones, because they are made in the same way. Results are dropped. If
kernels have to be compiled and there is a second core, a second process compiles half of them
(`trimtab.planner.service.compile_ahead`). A quick start waits only for the kernels of scale-down with default settings.
The second process then compiles those of scale-up while the service already answers; all others are compiled on first
use.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Final

import numpy as np
from opentelemetry.metrics import NoOpMeterProvider

from trimtab.common.kubernetes.signals import well_known
from trimtab.common.rpc.collection import collection_rare
from trimtab.planner.capacity_requests.requests import ATOMIC_SCALE_UP
from trimtab.planner.compiled.kernel_cache import when_cold
from trimtab.planner.decisions.table import TABLE, codes
from trimtab.planner.service.request_handler import Caller, RequestHandler
from trimtab.planner.service.request_limits import cores
from trimtab.v1 import plan_pb2, planner_pb2
from trimtab.v1 import snapshot_pb2 as pb

NOW_S: Final = 1_700_000_000
QUICK: Final = "--quick-start"
_ENOUGH_BYTES: Final = 16 << 20
_STRINGS: Final = (
    "", "default", well_known.HOSTNAME.key, "a", "b", "zone", "app", "web", "owner", "c", "key", "csi", "disk"
)  # fmt: skip
_PODS: Final = (
    ("web-2", "a", 0, 4), ("web-1", "b", 0, 4), ("waits", "", 1, 4), ("bound", "c", 1, 4), ("gone", "a", 0, 0)
)  # fmt: skip


def warm_up(quick: bool = False) -> None:
    """Compile or load kernels, all or those for which a quick start waits.

    Takes a minute to compile all, half of that for a quick start, a second if they are loaded.
    """
    with second_process(quick), collection_rare():
        answer_requests(quick, growth=False)


@contextmanager
def second_process(quick: bool = False) -> Iterator[None]:
    """Start a second compiling process once there is something to compile; end it when it is no longer needed. quick :
    it goes on, to compile what a quick start does not wait for, and ends by itself or with this process.
    """
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        # sys.path, because this process may have been started from elsewhere.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        command = [sys.executable, "-m", "trimtab.planner.service.compile_ahead", *([QUICK] if quick else [])]
        silent = subprocess.DEVNULL
        with suppress(OSError):
            started.append(
                subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=silent, stderr=silent)
            )

    with ExitStack() as stack:
        # After an error, too.
        stack.callback(_kill, started)
        with when_cold(start) if cores() > 1 else nullcontext():
            yield
        if quick:
            stack.pop_all()
            for process in started:
                threading.Thread(target=_await, args=(process,), name="second process", daemon=True).start()


def _await(process: "subprocess.Popen[bytes]") -> None:
    """Wait until a process ends by itself, and close its standard input only then: when that closes, it ends."""
    with process:
        process.wait()


def _kill(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    for process in processes:
        process.kill()
        process.communicate()


def answer_requests(quick: bool = False, growth: bool = True) -> None:
    """Answer one request of each kind, so that every kernel is called as in real use; quick : only the usual kinds.

    growth : with scale-up, even if quick
    """
    handler = RequestHandler(NoOpMeterProvider().get_meter("warm-up"), _ENOUGH_BYTES, log_decisions=False)
    request = _usual_request(growth) if quick else _full_request()
    # Where groups are kept even, no nodes are exchanged: only those of the first request.
    even = request.settings.scale_down.balance
    request.settings.scale_down.balance = False
    first = handler.plan(request, growing_cluster().SerializeToString(), Caller())
    request.settings.scale_down.balance = even
    request.state.CopyFrom(first.state)
    request.base_version = first.snapshot_version
    request.now.seconds += 60
    delta = pb.SnapshotDelta(changed=growing_cluster(), deleted_pods=["default/gone"])
    del delta.changed.nodes[:], delta.changed.owners[:]
    _leave_out_last_pod(delta.changed.pods)
    handler.plan(request, delta.SerializeToString(), Caller())
    if quick:
        return
    for _ in handler.check_fit(request, b"", Caller()):
        pass
    handler.balance_scale_up(small_split())


def _full_request() -> plan_pb2.PlanRequest:
    """Return a request for all decisions, with the settings that call most kernels."""
    request = plan_pb2.PlanRequest(decisions=codes(TABLE))
    request.now.seconds = NOW_S
    for decision in TABLE:
        decision.warm_up(request.settings)
    return request


def _usual_request(growth: bool) -> plan_pb2.PlanRequest:
    """Return a request for scale-down, and scale-up if wanted, with default settings, except that nodes are deleted at
    once and groups are balanced.
    """
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
    if growth:
        request.decisions.insert(0, plan_pb2.Decision.SCALE_UP)
    request.now.seconds = NOW_S
    request.settings.scale_down.unneeded_time.seconds = 0
    request.settings.scale_up.balance_similar_node_groups = True
    return request


def small_split() -> planner_pb2.BalanceScaleUpRequest:
    """Return two groups of different sizes, and more nodes than they can add."""
    groups = [planner_pb2.NodeGroupSize(node_group=name, current_size=i, max_size=3) for i, name in enumerate("ab")]
    return planner_pb2.BalanceScaleUpRequest(node_groups=groups, new_nodes=6)


def _large_request() -> pb.CapacityRequests:
    """Return a ProvisioningRequest that nothing has room for: others decide as without it."""
    dictionary = pb.PodDictionary(strings=[""], resources=["cpu"], pod_specs=[pb.PodSpec()])
    dictionary.pod_specs[0].requests.add(resource=0, amount=3950)
    sets = [pb.CapacityPodSet(spec=0, count=500)]
    request = pb.CapacityRequest(namespace="default", name="large", class_name=ATOMIC_SCALE_UP, pod_sets=sets)
    return pb.CapacityRequests(dictionary=dictionary, requests=[request])


def growing_cluster() -> pb.ClusterSnapshot:
    """Return the small cluster with two similar node groups, and pods that need new nodes in them."""
    cluster = small_cluster((*_PODS[:-1], ("large-1", "", 2, 0), ("large-2", "", 2, 0), _PODS[-1]))
    cluster.pod_specs.append(_plain_spec(3950))
    cluster.node_groups.add(id="like it", max_size=5, price_per_hour=1)
    for group in cluster.node_groups:
        group.template.label_set = 2
        group.template.allocatable.extend([8000, 16 << 30, 110])
        group.template.daemonset_pods.add(namespace="default", spec=0)
    cluster.capacity_requests.CopyFrom(_large_request())
    return cluster


def small_cluster(pods: Sequence[tuple[str, str, int, int]] = _PODS) -> pb.ClusterSnapshot:
    """Return three nodes, and movable pods that use every predicate: their names, nodes, specs, labels."""
    cluster = pb.ClusterSnapshot(strings=_STRINGS, resources=["cpu", "memory", "pods"])
    text = {name: i for i, name in enumerate(_STRINGS)}
    labels = [[], *([(text[well_known.HOSTNAME.key], text[name]), (text["zone"], text[name])] for name in "abc")]
    labels.append([(text["app"], text["web"])])
    cluster.label_sets.offsets = _int32(np.cumsum([0, *map(len, labels)]))
    cluster.label_sets.keys = _int32([key for pairs in labels for key, _ in pairs])
    cluster.label_sets.values = _int32([value for pairs in labels for _, value in pairs])
    cluster.pod_specs.extend([_plain_spec(), _bound_spec(text)])
    cluster.volumes.add(id="default/disk", state=pb.VolumeState.BOUND, driver=text["csi"])
    for i, name in enumerate("abc"):
        node = cluster.nodes.add(name=name, label_set=i + 1, ready=True, node_group="group")
        node.allocatable.extend([4000, 16 << 30, 110])
        node.attach_limits.add(driver=text["csi"], count=8)
    cluster.node_groups.add(id="group", min_size=0, max_size=5, target_size=3, price_per_hour=1)
    cluster.owners.add(uid="owner", kind="ReplicaSet", name="web", namespace="default", desired_replicas=9)
    budget = cluster.pod_disruption_budgets.add(namespace="default", name="web")
    budget.selector.requirements.add(key=text["app"], operator=pb.LabelOperator.IN, values=[text["web"]])
    budget.status.disruptions_allowed, budget.status.observed = 5, True
    _add_pods(cluster.pods, text, pods)
    return cluster


def _plain_spec(cpu_milli: int = 100) -> pb.PodSpec:
    spec = pb.PodSpec()
    spec.requests.add(resource=0, amount=cpu_milli)
    spec.requests.add(resource=1, amount=1 << 20)
    return spec


def _bound_spec(text: dict[str, int]) -> pb.PodSpec:
    """Return a spec with ports, affinity and spread."""
    spec = _plain_spec()
    spec.host_ports.add(port=80)
    spec.tolerations.add(key=text["key"], operator=pb.TolerationOperator.EXISTS)
    spec.node_affinity.terms.add().match_expressions.add(key=text["zone"], operator=pb.LabelOperator.EXISTS)
    for terms in (spec.pod_affinity, spec.pod_anti_affinity):
        term = terms.add(topology_key=text[well_known.HOSTNAME.key])
        value = "web" if terms is spec.pod_affinity else "key"
        term.selector.requirements.add(key=text["app"], operator=pb.LabelOperator.IN, values=[text[value]])
    spread = spec.topology_spread.add(max_skew=3, topology_key=text["zone"])
    spread.selector.requirements.add(key=text["app"], operator=pb.LabelOperator.EXISTS)
    spec.exclusive_disks.append(text["disk"])
    return spec


def _add_pods(table: pb.PodTable, text: dict[str, int], pods: Sequence[tuple[str, str, int, int]]) -> None:
    names, nodes, specs, labels = zip(*pods, strict=True)
    count = len(names)
    table.count = count
    table.namespace = _int32([text["default"]] * count)
    table.names = table.uids = "".join(names).encode()
    table.name_lengths = table.uid_lengths = _int32([len(name) for name in names])
    table.spec = _int32(specs)
    table.label_set = _int32(labels)
    table.node = _int32([text[name] for name in nodes])
    table.owner = _int32([text["owner"]] * count)
    table.phase = bytes(pb.PodPhase.PENDING if not node else pb.PodPhase.RUNNING for node in nodes)
    table.flags = bytes([1] * count)
    table.volume_pod, table.volume = _int32([3]), _int32([0])


def _leave_out_last_pod(table: pb.PodTable) -> None:
    table.count -= 1
    size = 4 * table.count
    last = int(np.frombuffer(table.name_lengths, "<i4")[-1])
    table.names = table.uids = table.names[:-last]
    for field in ("namespace", "name_lengths", "uid_lengths", "spec", "label_set", "node", "owner"):
        setattr(table, field, getattr(table, field)[:size])
    table.phase, table.flags = table.phase[:-1], table.flags[:-1]


def _int32(values: object) -> bytes:
    return np.asarray(values, "<i4").tobytes()
