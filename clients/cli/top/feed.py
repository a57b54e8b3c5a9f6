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


class Feed:
    """A source of pictures. is_live : the cluster goes on, so that the age of a picture matters; has_rounds : `step`
    goes through recorded rounds; is_paused : no new picture comes by itself.
    """

    is_live = has_rounds = is_paused = False

    def run(self, sink: PictureSink) -> None:
        """Give pictures until stopped, or until there are no more. Errors: those of commands, before the first one."""
        raise NotImplementedError

    def stop(self) -> None:
        """Make `run` return soon."""

    def pause(self, is_paused: bool) -> None:
        """Give no new picture, or go on."""
        self.is_paused = is_paused

    def step(self, target: Callable[[int, int], int]) -> None:
        """Show another round: `target` gets the index of the present one and their number. Only with `has_rounds`."""


class StillFeed(Feed):
    """One picture, of files."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def run(self, sink: PictureSink) -> None:
        """Give the picture."""
        sink.show(self._picture)

    def pause(self, is_paused: bool) -> None:
        """Nothing changes."""


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
