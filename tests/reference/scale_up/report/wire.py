"""Names of pods as a message of the contract writes them."""

from trimtab.v1 import plan_pb2


def write_pods(names: list[str]) -> bytes:
    """Return the bytes of the field `NewNode.pods`."""
    return plan_pb2.NewNode(pods=names).SerializeToString()
