"""The cloud `memory` of an actuator: opens the simulated cluster, and serves it as `trimtab.v1.EmbeddedCluster`.

Opening changes nothing outside the state directory. `trimtab.actuator.cloud.table` names this module.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import grpc
import msgspec
import structlog

from trimtab.actuator.cloud.table import MachineOptions, Opening, OwnCluster, SimulationOptions
from trimtab.actuator.kube.cluster import NotFoundError
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.controllers import Delays
from trimtab.common.kubernetes.object_files import Object, load_files
from trimtab.common.rpc.collection import collection_paused
from trimtab.common.rpc.errors import Reason, ServiceError, invalid_request
from trimtab.common.rpc.server import Registration
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc

PIECE_BYTES = 1 << 20
MAX_REPLICAS = 10_000


class EmbeddedClusterServicer(actuator_pb2_grpc.EmbeddedClusterServicer):
    """See `protos/trimtab/v1/actuator.proto`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def ListObjects(  # noqa: N802
        self, request: actuator_pb2.ListObjectsRequest, context: grpc.ServicerContext
    ) -> Iterator[actuator_pb2.ListObjectsResponse]:
        """Return all objects, as one `List` in pieces."""
        del request, context
        items = msgspec.Raw(self._cluster.encoded_objects())
        document = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})
        for start in range(0, len(document), PIECE_BYTES):
            yield actuator_pb2.ListObjectsResponse(json=document[start : start + PIECE_BYTES])

    def ScaleReplicaSet(  # noqa: N802
        self, request: actuator_pb2.ScaleReplicaSetRequest, context: grpc.ServicerContext
    ) -> actuator_pb2.ScaleReplicaSetResponse:
        """Set the size of a ReplicaSet."""
        del context
        if not 0 <= request.replicas <= MAX_REPLICAS:
            raise invalid_request(f"replicas is {request.replicas}; give 0 to {MAX_REPLICAS}", field="replicas")
        try:
            self._cluster.scale(request.namespace, request.name, request.replicas)
        except NotFoundError as error:
            raise ServiceError(grpc.StatusCode.NOT_FOUND, Reason.NOT_FOUND, str(error)) from None
        return actuator_pb2.ScaleReplicaSetResponse()


log = structlog.get_logger("actuator")


def wire(opening: Opening) -> OwnCluster:
    """Open the cluster and its cloud. Raises `ObjectError`, `ClusterError`."""
    simulation, machines = opening.options.of(SimulationOptions), opening.options.of(MachineOptions)
    delays = Delays(simulation.pod_start, simulation.pod_stop, machines.node_start, machines.instance_delete)
    cluster = open_cluster(opening.state_dir, simulation.cluster, delays)
    opening.stack.callback(cluster.close)
    registration = Registration(
        actuator_pb2_grpc.add_EmbeddedClusterServicer_to_server,
        EmbeddedClusterServicer(cluster),
        "trimtab.v1.EmbeddedCluster",
    )
    return OwnCluster(cluster, MemoryCloud(cluster), (registration,))


def open_cluster(directory: Path, files: Iterable[Path], delays: Delays) -> SimulatedCluster:
    """Open the simulated cluster in a state directory; files are read the first time only."""
    paths = tuple(files)
    with collection_paused():
        cluster = SimulatedCluster(_read(paths), directory / "cluster.sqlite", delays)
    if cluster.restored and paths:
        log.info("continuing with the cluster in the state directory; --cluster files are not read again")
    return cluster


def _read(files: Iterable[Path]) -> Iterator[Object]:
    """Yield the objects of files, which are read once the first object is asked for."""
    yield from load_files(files)
