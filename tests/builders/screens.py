"""A small cluster as the live screen shows it, and the terminal screen as text."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from textual.pilot import Pilot

from tests.builders import kubernetes as k8s
from tests.builders.cli import listed
from tests.builders.waiting import LIMIT_S
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.decisions import default_decisions
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.top.app import TopApp
from trimtab.clients.cli.top.feed import Feed, Picture, StillFeed
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.verdicts import staying
from trimtab.v1 import actuator_pb2, plan_pb2, snapshot_pb2

NOW = "2026-03-01T00:00:00Z"
NOW_S = 1772323200
Keys = Callable[[Pilot[None]], Awaitable[None]]


def cluster_objects() -> list[dict[str, Any]]:
    """Two groups: in `pool-a` a well used node, a node with a bare pod and an empty one; in `pool-b` a node that can be
    drained and a well used one. Pods wait: for some pool-a can grow, one fits nowhere.
    """
    of_a, of_b = {"pool": "a"}, {"pool": "b"}
    nodes = [k8s.node(f"a-{i}", cpu="4", labels=of_a) for i in (1, 2, 3)]
    nodes += [k8s.node(name, cpu="4", labels=of_b) for name in ("b-1", "b-2")]
    web, job = k8s.replica_set("web", replicas=4), k8s.replica_set("batch", replicas=2)
    pods = [k8s.pod(f"web-{i}", cpu="900m", memory="3Gi", node="a-1", owner=web) for i in range(3)]
    pods += [k8s.pod("bare", cpu="200m", node="a-2"), k8s.pod("web-3", cpu="500m", node="b-1", owner=web)]
    pods += [k8s.pod("web-4", cpu="3", node="b-2", owner=web)]
    pods += [k8s.pod(f"batch-{i}", cpu="3900m", owner=job, node_selector=of_a) for i in range(2)]
    pods += [k8s.pod("huge", cpu="64")]
    groups = [
        k8s.node_group("pool-a", min_size=1, max_size=5, selector=of_a, price=0.5),
        k8s.node_group("pool-b", min_size=0, max_size=5, selector=of_b, price=1.0),
    ]
    return [*nodes, web, job, *pods, *groups]


def status_of(node: str = "b-1") -> actuator_pb2.ActuatorStatus:
    """A drain that has begun half a minute ago, and a deletion that has failed."""
    moving = actuator_pb2.NodeDeletion(
        node=node,
        node_group="pool-b",
        drain=True,
        state=actuator_pb2.DeletionState.DRAINING,
        state_time=Timestamp(seconds=NOW_S - 30),
        pods_total_count=7,
        pods_gone_count=3,
    )
    over = actuator_pb2.NodeDeletion(
        node="a-9",
        node_group="pool-a",
        state=actuator_pb2.DeletionState.FAILED,
        state_time=Timestamp(seconds=NOW_S - 90),
        detail="the cloud refused",
    )
    return actuator_pb2.ActuatorStatus(deletions=[moving], finished=[over])


@cache
def planned() -> PlanAnswer:
    """Plan for the small cluster."""
    with TemporaryDirectory() as folder:
        options = CommandOptions((listed(Path(folder), *cluster_objects()),), now=NOW)
        request = options.request()
        snapshot = options.cluster(request)
    request.decisions.extend(default_decisions(request.settings, snapshot))
    with open_planner(None) as planner:
        response = planner.plan(snapshot, request)
    return PlanAnswer(response, ClusterView(snapshot), request.settings, request.now.ToNanoseconds())


def picture() -> Picture:
    """Return a picture of the small cluster."""
    return Picture(planned(), status_of(), "shop")


def renamed(name: str) -> PlanAnswer:
    """Return the same plan with another name of the node b-2, one that a recording can have and no API server takes."""
    answer = planned()
    response, snapshot = plan_pb2.PlanResponse(), snapshot_pb2.ClusterSnapshot()
    response.CopyFrom(answer.response)
    snapshot.CopyFrom(answer.view.snapshot)
    snapshot.strings[:] = [name if text == "b-2" else text for text in snapshot.strings]
    for node in snapshot.nodes:
        node.name = name if node.name == "b-2" else node.name
    for one in staying(response):
        one.node = name if one.node == "b-2" else one.node
    return replace(answer, response=response, view=ClusterView(snapshot))


def many(count: int) -> PlanAnswer:
    """Return a plan that says nothing of `count` nodes."""
    nodes = [snapshot_pb2.Node(name=f"n-{i:05}", node_group=f"g{i % 9}", ready=True) for i in range(count)]
    groups = [snapshot_pb2.NodeGroup(id=f"g{i}", max_size=count) for i in range(9)]
    snapshot = snapshot_pb2.ClusterSnapshot(nodes=nodes, node_groups=groups, strings=[""])
    return replace(planned(), response=plan_pb2.PlanResponse(), view=ClusterView(snapshot))


def text_of_terminal(app: TopApp) -> str:
    """Return what the terminal shows, without trailing blanks."""
    strips = app.screen._compositor.render_strips()
    lines = ["".join(segment.text for segment in strip).rstrip() for strip in strips]
    return "\n".join(lines).rstrip() + "\n"


async def until(app: TopApp, pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end_s, f"this is shown:\n{text_of_terminal(app)}"
        await pilot.pause(0.02)


async def until_shown(app: TopApp, pilot: Pilot[None], text: str) -> None:
    """Wait until the terminal shows a text."""
    await until(app, pilot, lambda: text in text_of_terminal(app))


def with_terminal(
    act: Callable[[TopApp, Pilot[None]], Awaitable[None]], feed: Feed | None = None, size: tuple[int, int] = (80, 24)
) -> TopApp:
    """Run the app on a terminal of a size, without one; `act` uses it once the first picture is shown."""
    app = TopApp(feed or StillFeed(picture()), clock=lambda: NOW_S + 7.0)

    async def use() -> None:
        async with app.run_test(size=size) as pilot:
            while app.picture is None and app.failure is None and not app.trouble:
                await pilot.pause(0.02)
            await pilot.pause()
            await act(app, pilot)

    asyncio.run(use())
    return app
