"""The header that load balancers use to find a cluster's planner."""

import pytest

from trimtab.common.rpc.callers import CLUSTER_KEY
from trimtab.common.rpc.client import about_cluster, new_session


@pytest.mark.parametrize(
    ("cluster", "sent"),
    [
        pytest.param("prod-1", "prod-1", id="plain"),
        pytest.param("zürich/a b", "z%C3%BCrich%2Fa%20b", id="not ASCII"),
        pytest.param("x" * 5000, "x" * 253, id="longer than a planner takes"),
    ],
)
def test_a_cluster_is_named_in_a_header_of_plain_ascii(cluster: str, sent: str) -> None:
    session = new_session()
    assert about_cluster(session, cluster) == (*session, (CLUSTER_KEY, sent))


def test_a_cluster_without_a_name_is_not_named() -> None:
    session = new_session()
    assert about_cluster(session, "") == session
