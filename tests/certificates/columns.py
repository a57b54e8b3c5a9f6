"""Columns of an answer: they agree with one another, refer to what is there, and are in order."""

from collections.abc import Iterator

from trimtab.v1 import plan_pb2 as pb


def broken_columns(places: pb.Places) -> Iterator[str]:
    """Check that the columns of places agree, that each name is there once, and the order: by the node that pods leave,
    then by new node, then by pod."""
    if len(places.destinations) != len(places.pods) or len(places.sources) not in (0, len(places.pods)):
        yield "the columns of places differ in length"
    if any(not 0 < at < len(places.nodes) for at in places.destinations):
        yield "a place is on a node without a name"
    if len(set(places.nodes)) != len(places.nodes) or places.nodes[:1] not in ([], [""]):
        yield "a node is named twice"
    if len(set(places.pods)) != len(places.pods):
        yield "a pod has two places"
    rows = []
    sources = places.sources or [0] * len(places.pods)
    for pod, source, at in zip(places.pods, sources, places.destinations, strict=True):
        group, _, number = places.nodes[at].rpartition("#") if not source else ("", "", "")
        new = (group, int(number)) if group and number != "upcoming" else ("", 0)
        rows.append((places.nodes[source], *new, "" if source else pod))
    if rows != sorted(rows):
        yield "places are not sorted"
