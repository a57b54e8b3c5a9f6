"""The service `trimtab.v1.EmbeddedCluster`: reads the simulated cluster. Decides nothing."""

from collections.abc import Iterator

import grpc
import msgspec
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc

from actuator.simulated_cluster.cluster import SimulatedCluster

PIECE_BYTES = 1 << 20


class EmbeddedClusterServicer(actuator_pb2_grpc.EmbeddedClusterServicer):
    """See `protos/trimtab/v1/actuator.proto`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def ListObjects(  # noqa: N802
        self, request: actuator_pb2.ListObjectsRequest, context: grpc.ServicerContext
    ) -> Iterator[actuator_pb2.ListObjectsResponse]:
        """Return all objects, as one `List` in pieces."""
        del request, context
        items = self._cluster.objects()
        document = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})
        for start in range(0, len(document), PIECE_BYTES):
            yield actuator_pb2.ListObjectsResponse(json=document[start : start + PIECE_BYTES])
