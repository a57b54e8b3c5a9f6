"""Watching an actuator that may be killed meanwhile: pictures of its cluster, and its stream of statuses. While the
actuator is down there are none; both continue once it is back. Units: seconds.
"""

import threading
import time
from collections.abc import Iterator

from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.cli.demo.evidence import Witness, picture
from trimtab.clients.cli.demo.services import ActuatorProcess
from trimtab.common.rpc.errors import TrimtabError
from trimtab.v1 import actuator_pb2

INTERVAL_S = 1.0
"""Time from one plan to the next while deletions are in progress; upstream's default is ten."""
SAMPLE_INTERVAL_S = 0.5


def statuses(address: str) -> Iterator[actuator_pb2.ActuatorStatus]:
    """Yield statuses until nothing is in progress, at most for `INTERVAL_S`."""
    end = time.monotonic() + INTERVAL_S
    with ActuatorClient(address) as watcher:
        # Closing the connection ends a watch that receives nothing.
        alarm = threading.Timer(INTERVAL_S, watcher.close)
        alarm.daemon = True
        alarm.start()
        try:
            for status in watcher.watch_status():
                yield status
                if not status.deletions or time.monotonic() > end:
                    return
        except (TrimtabError, ValueError):
            if time.monotonic() < end:
                raise
        finally:
            alarm.cancel()


class Sampler:
    """Gives the witness a picture of the cluster about twice a second while the context is open."""

    def __init__(self, actuator: ActuatorProcess, witness: Witness) -> None:
        self._actuator, self._witness = actuator, witness
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def _sample(self) -> None:
        pause_s = SAMPLE_INTERVAL_S
        while not self._stop.wait(pause_s):
            started = time.monotonic()
            try:
                with ActuatorClient(self._actuator.address) as client:
                    self._witness.look(picture(client.list_objects()))
            except TrimtabError:
                continue
            # On a slow machine the samples must not slow down the actual work.
            pause_s = max(SAMPLE_INTERVAL_S, 3 * (time.monotonic() - started))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
