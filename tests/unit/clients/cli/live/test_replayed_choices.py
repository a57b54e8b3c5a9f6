"""Choices among an autoscaler's options, recorded and replayed."""

from pathlib import Path

import pytest

from trimtab.clients.cli.command_options import ReplayOptions
from trimtab.clients.cli.failures import FailedError
from trimtab.clients.cli.live.replay import replay
from trimtab.clients.cli.options import Output
from trimtab.common.recording import RecordingWriter
from trimtab.planner.scale_up.option_choice import choose_option
from trimtab.v1 import option_choice_pb2 as pb
from trimtab.v1.plan_pb2 import Expander


def a_choice() -> pb.OptionChoice:
    """Return a choice by price with its answer."""
    asked = pb.OptionChoice()
    asked.settings.scale_up.expanders.append(Expander.PRICE)
    for name, price in (("a", 2.0), ("b", 1.0)):
        asked.groups.add(node_group=name, price_per_hour=price, capacity={"cpu": 4000, "memory": 1 << 34})
        asked.options.add(node_group=name, node_count=1, pod_count=1, cpu_milli=1000, memory_bytes=1 << 30)
    asked.answer.CopyFrom(choose_option(asked))
    return asked


def written(path: Path, *choices: pb.OptionChoice) -> Path:
    with RecordingWriter(path) as writer:
        for one in choices:
            writer.write(one)
    return path


def test_what_was_recorded_leads_to_the_same_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replay(ReplayOptions(files=(written(tmp_path / "x.trimtab", a_choice(), a_choice()),), output=Output("json")))
    assert '"rounds": 2' in capsys.readouterr().out


def test_another_answer_than_the_recorded_one_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = a_choice()
    other.groups[0].price_per_hour = 0.5
    with pytest.raises(FailedError):
        replay(ReplayOptions(files=(written(tmp_path / "x.trimtab", other),), output=Output("json")))
    assert '"path": "nodeGroup"' in capsys.readouterr().out
