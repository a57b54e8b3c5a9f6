"""The demo as pictures: planner, actuator and a simulated cluster in processes of this machine; every plan is carried
out before the eyes of the user.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.blocks import Block, Sentence, plain_text
from trimtab.clients.cli.connection_options import forget
from trimtab.clients.cli.demo import services
from trimtab.clients.cli.demo.command import generated_chapter
from trimtab.clients.cli.demo.loop import DemoSettings, run
from trimtab.clients.cli.demo.screen import Screen
from trimtab.clients.cli.output import stderr_console
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.top.feed import Feed, Picture, PictureSink
from trimtab.clients.planner_client import PlannerClient
from trimtab.v1 import actuator_pb2, plan_pb2


class DemoStoppedError(Exception):
    """The user has left."""


class DemoFeed(Feed):
    """A play of the demo's generated cluster."""

    is_live = True

    def __init__(self, planner: PlannerClient, actuator: services.ActuatorProcess, scenario: DemoSettings) -> None:
        self._planner, self._actuator, self._scenario = planner, actuator, scenario
        self._display: _PictureDisplay | None = None

    def run(self, sink: PictureSink) -> None:
        """Play until nothing changes any more, or until stopped."""
        self._display = _PictureDisplay(sink)
        try:
            run(self._planner, self._actuator, self._scenario, self._display, self._display.first)
        except DemoStoppedError:
            return
        self._display.say("nothing is left to change; q leaves")

    def stop(self) -> None:
        """End the play at its next picture."""
        if self._display is not None:
            self._display.is_stopped = True

    def pause(self, is_paused: bool) -> None:
        """Keep the picture; the cluster goes on."""
        self.is_paused = is_paused
        if self._display is not None:
            self._display.is_paused = is_paused


class _PictureDisplay(Screen):
    """The demo's display, which makes pictures instead of lines."""

    def __init__(self, sink: PictureSink) -> None:
        super().__init__(stderr_console())
        self._sink = sink
        self._answer: PlanAnswer | None = None
        self._remark = ""
        self._loop = ""
        self.is_stopped = self.is_paused = False

    def say(self, text: str) -> None:
        """Show a remark from the next picture on, and now."""
        self._remark = text
        self._show(None)

    def chapter(self, title: str, text: str) -> None:
        """Nothing: the picture says it."""

    def show(self, *blocks: Block) -> None:
        """Keep a remark for the next pictures."""
        self._remark = " ".join(plain_text(block) for block in blocks if isinstance(block, Sentence))

    def first(self, request: plan_pb2.PlanRequest, answer: PlanAnswer) -> None:
        """Nothing: the first picture says it."""

    def plan(self, answer: PlanAnswer, took_s: float, in_progress: int) -> None:
        """Show a plan."""
        moving = f", {in_progress} in progress" if in_progress else ""
        self._loops += 1
        self._loop, self._answer = f"loop {self._loops}, planned in {1000 * took_s:.0f} ms{moving}", answer
        self._show(None)

    def follow(self, statuses: Iterable[actuator_pb2.ActuatorStatus]) -> None:
        """Show deletions until the statuses end."""
        for status in statuses:
            self._show(status)

    def _show(self, status: actuator_pb2.ActuatorStatus | None) -> None:
        if self.is_stopped:
            raise DemoStoppedError
        if self._answer is None or self.is_paused:
            return
        remark = f"; {self._remark}" if self._remark else ""
        self._sink.show(Picture(self._answer, status, "demo", f"{self._loop}{remark}"))


@contextmanager
def demo_feed() -> Iterator[DemoFeed]:
    """Start the services of the demo; end them afterwards. In the main thread. Errors: FailedError."""
    forget()
    with services.workspace() as directory, ExitStack() as stack:
        with stderr_console().status("starting the planner (the first time, its kernels are compiled) …"):
            service = stack.enter_context(services.planner(directory / "planner", quick_start=True))
            chapter = generated_chapter(directory)
            actuator = stack.enter_context(services.actuator(directory / "demo", chapter.files))
            stack.callback(services.stop, [service, actuator])
            planner = stack.enter_context(open_planner(service.address))
            _ = actuator.address
        yield DemoFeed(planner, actuator, replace(chapter.scenario, kill=False))
