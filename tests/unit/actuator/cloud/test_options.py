"""Options of node groups as text."""

import pytest

from trimtab.actuator.cloud.options import duration_s, read_options
from trimtab.actuator.cloud.provider import GroupOptions


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("1.5h", 5400.0), ("500ms", 0.5), ("10m0s", 600.0), ("0", 0.0)],
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "10m!", "-5m", "1d"])
def test_an_invalid_duration_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration_s(text)


def test_options_are_known_by_name_whatever_the_case() -> None:
    texts = {
        "ScaleDownUtilizationThreshold": "0.6",
        "scaledowngpuutilizationthreshold": "0.7",
        "scaledownunneededtime": "5m",
        "scaledownunreadytime": "15m",
        "maxnodeprovisiontime": "20m",
        "zeroormaxnodescaling": "true",
        "ignoredaemonsetsutilization": "False",
        "jobpodsunmovable": "true",
        "drainTimeout": "2h",
        "ofanotherprogram": "x",
    }
    assert read_options(texts) == GroupOptions(0.6, 0.7, 300.0, 900.0, 1200.0, True, False, True, 7200.0)


@pytest.mark.parametrize(
    ("name", "text"),
    [("scaledownutilizationthreshold", "1.5"), ("zeroormaxnodescaling", "yes"), ("scaledownunneededtime", "soon")],
)
def test_a_value_that_cannot_be_read_names_the_option(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"option {name}: .*{text}"):
        read_options({name: text})
