"""The service `trimtab.v1.EmbeddedCluster`: reads and scales the simulated cluster."""

from collections.abc import Iterator

import grpc
import msgspec

from trimtab.actuator.kube.cluster import NotFoundError
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.common.rpc.errors import Reason, ServiceError, invalid_request
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
