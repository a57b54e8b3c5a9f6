"""Requests for slack are sent with a snapshot and with a delta; bad ones are refused with their place."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import random_rows
from tests.builders.differences import difference
from tests.builders.rows import PodRow
from tests.builders.slack import cluster, spec
from tests.builders.snapshots import RESOURCES, Cluster, slack_requests, write
from trimtab.common.deltas import Application
from trimtab.planner.model.values import SlackRequest
from trimtab.planner.snapshot.checks import SnapshotError
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.planner.snapshot.pod_specs import read_slack_requests

ONE = SlackRequest("Deployment/default/web", "", "default", spec(), (("app", "web"),), 4, "50%")
TWO = SlackRequest("CapacityBuffer/default/spare", "", "default", spec(100), (), -1, "", 3, 20, (("cpu", 900),))
BAD = SlackRequest("CapacityBuffer/default/lost", "there is no such PodTemplate")


def test_requests_are_read_as_they_were_written_sorted_by_object() -> None:
    assert read_slack_requests(slack_requests([ONE, TWO, BAD])) == (BAD, TWO, ONE)


def test_clients_send_changed_requests_and_apply_them() -> None:
    base = cluster(3, {"a": "n00"})
    first, second = (write(replace(base, slack=some)) for some in ((ONE,), (ONE, TWO)))
    delta = difference(first, second)
    assert delta.changed.HasField("slack_requests")
    assert apply_delta(canonicalize(first), delta).version == canonicalize(second).version
    whole = Application(first)
    whole.add(delta)
    assert canonicalize(whole.result()).version == canonicalize(second).version


@pytest.mark.parametrize(
    ("spoil", "place"),
    [
        (lambda m: setattr(m.requests[0], "object", ""), "slack_requests.requests[0].object"),
        (lambda m: setattr(m.requests[0], "spec", 7), "slack_requests.requests[0].spec"),
        (lambda m: setattr(m.requests[0], "label_set", 7), "slack_requests.requests[0].label_set"),
        (lambda m: setattr(m.requests[0], "namespace", "a/b"), "slack_requests.requests[0].namespace"),
        (lambda m: setattr(m.requests[0], "scale", -1), "slack_requests.requests[0].scale"),
        (lambda m: m.requests[0].limits.add(resource=9), "slack_requests.requests[0].limits.resource"),
        (lambda m: m.requests.append(m.requests[0]), "slack_requests.requests[1].object"),
        (lambda m: setattr(m.dictionary.label_sets, "offsets", b"xx"), "slack_requests.dictionary.label_sets.offsets"),
        (lambda m: m.dictionary.resources.append("cpu"), "slack_requests.dictionary.resources[2]"),
    ],
)
def test_bad_requests_are_refused_with_their_place(spoil: object, place: str) -> None:
    message = slack_requests([ONE])
    assert callable(spoil)
    spoil(message)
    with pytest.raises(SnapshotError) as error:
        read_slack_requests(message)
    assert str(error.value).startswith(place)


@given(st.integers(0, 2**32))
def test_specs_are_written_so_that_they_are_read_as_those_of_pods(seed: int) -> None:
    drawn = random_rows.spec(Random(seed))
    drawn = drawn._replace(requests=tuple((name, amount) for name, amount in drawn.requests if name in RESOURCES))
    (of_pod,) = canonicalize(write(Cluster(pods={("a", "b"): PodRow(spec=drawn)}))).specs
    (found,) = read_slack_requests(slack_requests([SlackRequest("Pod/a/b", "", "a", of_pod, amount="1")]))
    assert found.spec == of_pod
