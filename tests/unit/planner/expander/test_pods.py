"""Pods of options: reading equal options at once gives the same as reading each separately."""

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.best_options import a_pod
from trimtab.clusterautoscaler import expander_pb2 as ca
from trimtab.planner.expander.question import PodReader
from trimtab.planner.model.execution import UNLIMITED

AMOUNTS = [("100m", "1Gi"), ("100m", "1Gi"), ("250m", "2Gi"), ("3", "512Mi")]
PODS = [a_pod(f"p{i}", cpu, memory).SerializeToString() for i, (cpu, memory) in enumerate(AMOUNTS)] + [b"\xff"]


def requests_of(reader: PodReader, option: ca.Option) -> list[dict[str, int]]:
    numbers = reader.read_all(option.pod_bytes or option.pod).tolist()
    return [reader.shapes[reader.shape_of[number]] for number in numbers]


@given(st.lists(st.tuples(st.lists(st.sampled_from(PODS), max_size=4), st.booleans()), max_size=12))
def test_options_share_what_is_read_only_where_all_their_pods_are_the_same(
    lists: list[tuple[list[bytes], bool]],
) -> None:
    options = [ca.Option(pod=pods) if old else ca.Option(pod_bytes=pods) for pods, old in lists]
    reader = PodReader(UNLIMITED)
    together = [requests_of(reader, one) for one in options]
    assert together == [requests_of(PodReader(UNLIMITED), one) for one in options]
    assert len(reader.shape_of) == len({pod for pods, _ in lists for pod in pods})


def test_more_lists_that_look_alike_than_are_compared_are_read_one_by_one() -> None:
    first, last = PODS[0], PODS[3]
    middles = [a_pod(f"m{i}", cpu=f"{i + 1}").SerializeToString() for i in range(9)]
    options = [ca.Option(pod_bytes=[first, middle, last]) for middle in middles * 2]
    reader = PodReader(UNLIMITED)
    assert [requests_of(reader, one)[1]["cpu"] for one in options] == [1000 * (i + 1) for i in range(9)] * 2
