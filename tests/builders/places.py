"""Changes of the places in an answer."""

from collections.abc import Mapping

from trimtab.places import Place, each_place, places_of
from trimtab.v1 import plan_pb2 as pb


def move(places: pb.Places, where: Mapping[str, str]) -> None:
    """Send pods to other nodes, by pod; "" = it is not mentioned any more."""
    rows = [Place(pod, source, where.get(pod, to)) for pod, source, to in each_place(places)]
    places.CopyFrom(places_of([row for row in rows if row.destination]))


def add_place(places: pb.Places, pod: str, source: str, destination: str) -> None:
    """Add a row."""
    places.CopyFrom(places_of([*each_place(places), Place(pod, source, destination)]))
