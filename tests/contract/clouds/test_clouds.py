"""The guarantees of every cloud provider: the same tests for each."""

from collections.abc import Callable, Iterator

import pytest

from tests.builders.cloud_promises import PROMISES
from tests.builders.clouds import WORLDS, World


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with WORLDS[request.param]() as made:
        yield made


@pytest.mark.parametrize("promise", PROMISES, ids=lambda one: one.__name__)
def test_every_promise_holds(world: World, promise: Callable[[World], None]) -> None:
    promise(world)
