"""BestOptions over gRPC on loopback, as a Cluster Autoscaler asks it: 200 options of 1,000 pods, as bytes, over the one
connection that the autoscaler keeps."""

from dataclasses import dataclass

import grpc

from tests.benchmarks.registry import Stages, scenario
from tests.benchmarks.services import RunningPlanner
from tests.builders.best_options import a_node, a_pod, sent
from trimtab.clusterautoscaler import expander_pb2 as ca
from trimtab.clusterautoscaler import expander_pb2_grpc
from trimtab.common.rpc.client import connect

OPTIONS, PODS = 200, 1000


@dataclass
class Asking:
    """A running planner, and a request."""

    planner: RunningPlanner
    channel: grpc.Channel
    request: ca.BestOptionsRequest
    expected: str

    def peak_bytes(self) -> int:
        return self.planner.peak_bytes()

    def close(self) -> None:
        self.channel.close()
        self.planner.close()


def prepare() -> Asking:
    """Start a planner; every group could take all the pods, one of them on fewer nodes than the others."""
    pods = [a_pod(f"web-{i}", cpu=f"{100 + i % 20}m", memory="256Mi") for i in range(PODS)]
    options = {f"group-{i:03}": (30 - (i == 123), pods) for i in range(OPTIONS)}
    nodes = {name: a_node(name, **{"topology.kubernetes.io/zone": f"z{i % 3}"}) for i, name in enumerate(options)}
    planner = RunningPlanner("--expander-chain=least-waste")
    return Asking(planner, connect(planner.address), sent(options, nodes), "group-123")


def run(made: Asking, stages: Stages) -> ca.BestOptionsResponse:
    """Ask once."""
    stages.fact("sent MB", made.request.ByteSize() / 1e6)
    answer: ca.BestOptionsResponse = expander_pb2_grpc.ExpanderStub(made.channel).BestOptions(made.request, timeout=60)
    return answer


def verify(made: Asking, answer: ca.BestOptionsResponse) -> None:
    """It is the group that needs the fewest nodes."""
    assert [one.node_group_id for one in answer.options] == [made.expected]


scenario(
    name="best-options-200",
    what="an autoscaler's 200 options of 1,000 pods each, as bytes, chosen from over gRPC",
    setup=prepare,
    run=run,
    verify=verify,
    aims={"total": 0.25, "peak": 512 << 20},
    reference="a Cluster Autoscaler waits 5 s for the answer and then goes on without it",
)
