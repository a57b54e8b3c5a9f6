"""Numbers in annotations: a live cluster's pods give the same rows as files."""

import math

import pytest

from tests.builders.kubernetes import Json, pod
from tests.builders.kubernetes_protobuf import encoded
from trimtab.common.objects import decode_objects
from trimtab.common.objects.annotated_numbers import number_of
from trimtab.common.objects.pod_rows import PodRow, pod_row
from trimtab.common.watched.pod_reader import PodRowBuilder

KEYS = ("example.com/idle", "example.com/work")


def both(annotations: Json, numbers: tuple[str, ...] = KEYS) -> list[PodRow]:
    """Return the row read from a file and that of a live cluster."""
    item = pod("p", annotations=annotations)
    (decoded,) = decode_objects([item], numbers).of("Pod")
    return [pod_row(decoded, numbers), PodRowBuilder(numbers).read(encoded(item).SerializeToString())]


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        ({}, ()),
        ({"example.com/other": "1"}, ()),
        ({"example.com/idle": "2.5"}, ((KEYS[0], 2.5),)),
        ({"example.com/work": "1e3", "example.com/idle": "0"}, ((KEYS[0], 0.0), (KEYS[1], 1000.0))),
        ({"example.com/idle-too": "1", "example.com/work": "7"}, ((KEYS[1], 7.0),)),
    ],
)
def test_numbers_are_read_alike_from_files_and_live_clusters(annotations: Json, wanted: object) -> None:
    file, live = both(annotations)
    assert file.numbers == live.numbers == wanted
    assert both(annotations, ())[0].numbers == both(annotations, ())[1].numbers == ()


def test_an_annotation_that_means_something_else_as_well_may_hold_a_number() -> None:
    cost = "controller.kubernetes.io/pod-deletion-cost"
    for row in both({cost: "-5"}, (cost,)):
        assert (row.deletion_cost, row.numbers) == (-5, ((cost, -5.0),))


@pytest.mark.parametrize("text", ["", "x", "1_000", " 1", "nan", "inf", "-inf", "1e999", "0x10", "٣", "9" * 65])
def test_an_invalid_number_is_not_a_number(text: str) -> None:
    assert math.isnan(number_of(text))


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        ({"karpenter.sh/disruption-cost": "5"}, (("karpenter.sh/disruption-cost", 5.0),)),
        (
            {"node-autoscaling.kubernetes.io/disruption-cost": "-5", KEYS[0]: "1"},
            ((KEYS[0], 1.0), ("node-autoscaling.kubernetes.io/disruption-cost", -5.0)),
        ),
        ({"karpenter.sh/do-not-disrupt": "90m"}, (("karpenter.sh/do-not-disrupt", 1_767_229_200.0 + 5400),)),
        ({"karpenter.sh/do-not-disrupt": "-1h"}, ()),
        ({"karpenter.sh/do-not-disrupt": "no", KEYS[0]: "1"}, ((KEYS[0], 1.0),)),
    ],
)
def test_annotations_about_disruption_are_read_from_every_pod(annotations: Json, wanted: object) -> None:
    status = {"phase": "Running", "startTime": "2026-01-01T01:00:00Z"}
    item = pod("p", annotations=annotations, status=status)
    (decoded,) = decode_objects([item], KEYS).of("Pod")
    assert pod_row(decoded, KEYS).numbers == wanted
    assert PodRowBuilder(KEYS).read(encoded(item).SerializeToString()).numbers == wanted


def test_a_pod_that_must_never_be_disrupted_has_no_number() -> None:
    for row in both({"karpenter.sh/do-not-disrupt": "true"}, ()):
        ((key, until),) = row.numbers
        assert key == "karpenter.sh/do-not-disrupt"
        assert math.isnan(until)
