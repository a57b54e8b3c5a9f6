"""Evicted pods, reconstructed from earlier observations."""

from tests.builders import kubernetes as k8s
from trimtab.common.objects import decode_objects
from trimtab.common.objects.pod_rows import PodRow, pod_row
from trimtab.common.watched.pod_history import PodHistory
from trimtab.v1 import actuator_pb2

WEB = k8s.replica_set("web", 2)


def rows(*objects: k8s.Json) -> list[PodRow]:
    return [pod_row(pod) for pod in decode_objects(list(objects)).of("Pod")]


def eviction(row: PodRow, uid: str = "", owner: str = "") -> actuator_pb2.Eviction:
    return actuator_pb2.Eviction(
        namespace=row.namespace, name=row.name, uid=uid or row.uid, owner_uid=owner or row.owner
    )


def test_a_single_pod_that_is_gone_is_reported_as_it_was() -> None:
    memory = PodHistory()
    (lone,) = rows(k8s.pod("lone"))
    memory.see([lone])
    memory.see([])
    assert memory.describe([eviction(lone)]) == [lone]


def test_a_pod_of_another_identity_under_the_same_name_is_not_taken_for_it() -> None:
    memory = PodHistory()
    first, second = rows(*k8s.pods_of(k8s.stateful_set("db", 1), 1))[0], rows(k8s.pod("db-0", cpu="7"))[0]
    second = second._replace(uid="another")
    memory.see([first])
    memory.see([second])
    assert memory.describe([eviction(first), eviction(second)]) == [first, second]


def test_a_pod_that_was_never_seen_is_reported_like_a_sibling_present_or_gone() -> None:
    memory = PodHistory()
    web = rows(*k8s.pods_of(WEB, 2))
    memory.see(web)
    unseen = actuator_pb2.Eviction(namespace="default", name="unseen", uid="u9", owner_uid=web[0].owner)
    expected = web[0]._replace(name="unseen", uid="u9")
    assert memory.describe([unseen, unseen]) == [expected, expected]
    memory.see([])
    (told,) = memory.describe([unseen])
    assert told is not None
    assert (told.spec_key, told.uid) == (expected.spec_key, "u9")
    stranger = actuator_pb2.Eviction(namespace="default", name="x", uid="u", owner_uid="stranger")
    assert memory.describe([stranger]) == [None]
