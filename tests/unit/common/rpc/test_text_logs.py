"""Log lines for people: words, no repetition, no control of the terminal."""

import pytest
import structlog

from trimtab.common.rpc.options import LogFormat
from trimtab.common.rpc.telemetry import configure_logging
from trimtab.common.rpc.text_logs import TextRenderer


def line(renderer: TextRenderer, **event: object) -> str:
    return renderer(None, "info", dict(event)).partition(" ")[2]


def test_a_line_has_the_event_in_words_with_its_values_and_its_level_if_it_matters() -> None:
    renderer = TextRenderer()
    assert line(renderer, event="state_resumed", level="info", age_s=1.5, error="") == "state resumed: age_s 1.5"
    assert line(renderer, event="round_failed", level="warning", error="away") == "warning: round failed: error away"
    assert line(renderer, event="stopped", level="info") == "stopped"
    assert line(renderer, event="a", level="info", exception="Trace\nback") == "a\nTrace\nback"


def test_a_text_is_shown_alone_and_not_again_while_it_stays_the_same() -> None:
    renderer = TextRenderer()
    assert line(renderer, event="round", text="nothing to do", pods=3) == "nothing to do"
    with pytest.raises(structlog.DropEvent):
        line(renderer, event="round", text="nothing to do", pods=4)
    assert line(renderer, event="round", text="n1 goes") == "n1 goes"
    assert line(renderer, event="round", text="nothing to do") == "nothing to do"


def test_no_value_controls_the_terminal_or_makes_a_line_of_its_own() -> None:
    assert line(TextRenderer(), event="x", text="a\x1b[2J\nb") == "a\\x1b[2J b"


def test_the_form_of_logs_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    configured = structlog.get_config() if structlog.is_configured() else None
    try:
        configure_logging("info", LogFormat.TEXT)
        structlog.get_logger("x").info("some_event", number=3)
        structlog.get_logger("x").debug("hidden")
    finally:
        structlog.reset_defaults()
        if configured is not None:
            structlog.configure(**configured)
    out, err = capsys.readouterr()
    assert (out, err.partition(" ")[2]) == ("", "some event: number 3\n")
