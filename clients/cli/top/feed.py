"""Where pictures of a cluster come from, as the screen sees it. A feed runs in a thread of its own and gives pictures
to a sink; it never draws.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.blocks import Sentence
from trimtab.clients.cli.top.screen import ClusterScreen, explained_node, screen_of
from trimtab.v1 import actuator_pb2


@dataclass
class Picture:
    """One plan on one cluster. status : the actuator's, None = not known; position : such as "round 3 of 12", "" = the
    feed has no rounds to go through.
    """

    answer: PlanAnswer
    status: actuator_pb2.ActuatorStatus | None = None
    name: str = ""
    position: str = ""

    @cached_property
    def screen(self) -> ClusterScreen:
        """What is shown of it."""
        return screen_of(self.answer, self.status, self.name)

    def explain(self, node: str) -> list[Sentence]:
        """Return why a node goes or stays."""
        return explained_node(self.answer, node)


class PictureSink(Protocol):
    """Takes what a feed has to show. Called from the feed's thread."""

    def show(self, picture: Picture) -> None:
        """Show a picture; what `say` told before is over."""

    def say(self, text: str) -> None:
        """Show why there is no newer picture; the last one stays."""


class Feed(Protocol):
    """A source of pictures."""

    is_live: bool
    """Whether the age of a picture matters: the cluster goes on."""
    has_rounds: bool
    """Whether `step` goes through recorded rounds."""

    @property
    def is_paused(self) -> bool:
        """Whether no new picture comes by itself."""

    def run(self, sink: PictureSink) -> None:
        """Give pictures until stopped, or until there are no more. Errors: those of commands, before the first one."""

    def stop(self) -> None:
        """Make `run` return soon."""

    def pause(self, is_paused: bool) -> None:
        """Give no new picture, or go on."""

    def step(self, target: Callable[[int, int], int]) -> None:
        """Show another round: `target` gets the index of the present one and their number. Only with `has_rounds`."""


class StillFeed:
    """One picture, of files."""

    is_live = False
    has_rounds = False
    is_paused = False

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def run(self, sink: PictureSink) -> None:
        """Give the picture."""
        sink.show(self._picture)

    def stop(self) -> None:
        """Nothing runs."""

    def pause(self, is_paused: bool) -> None:
        """Nothing changes."""

    def step(self, target: Callable[[int, int], int]) -> None:
        """There are no rounds."""


class FirstPicture:
    """A sink for one picture: ends its feed then."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.picture: Picture | None = None
        self.trouble = ""

    def show(self, picture: Picture) -> None:
        """Keep the picture."""
        self.picture = picture
        self._feed.stop()

    def say(self, text: str) -> None:
        """Keep why there is none, and try no longer."""
        self.trouble = text
        self._feed.stop()
