"""The planner as a process. Decides nothing but the order of start and end.

An error in a setting is told in one line.
"""

import dataclasses
import gc
import sys
from typing import Final

from trimtab.v1 import planner_pb2_grpc

from clients.transport.options import ServerOptions
from clients.transport.server import Registration, Shell, serve
from clients.transport.telemetry import configure_logging, start_telemetry
from planner.service.engine import Engine
from planner.service.servicer import PlannerServicer
from planner.service.settings import PlannerOptions
from planner.service.warm_up import warm_up

SERVICE: Final = "trimtab.v1.Planner"
MAX_MESSAGE_BYTES: Final = 128 << 20
"""The header carries the planner's state: 3 MB for 50,000 nodes with 1.5 million pods, and less than this for the most
nodes and pods that a snapshot may have. Snapshots travel in small pieces."""


def run(server: ServerOptions, options: PlannerOptions) -> None:
    """Decide which nodes are not needed, where pods would go, what fits where. Acts on nothing."""
    try:
        configure_logging(server.log_level)
        telemetry = start_telemetry("trimtab-planner", server.metrics_address)
        servicer = PlannerServicer(Engine(telemetry.meter, options.cache_bytes), options)
        registration = Registration(planner_pb2_grpc.add_PlannerServicer_to_server, servicer, SERVICE)
        settings = dataclasses.replace(server.settings(), max_message_bytes=MAX_MESSAGE_BYTES)
        shell = Shell("trimtab-planner", [registration], settings, telemetry)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"trimtab-planner: {error}\n")
        sys.exit(2)
    serve(shell, prepare)


def prepare() -> None:
    """Warm up, and spare the garbage collector what stays for good: modules and kernels, 60 ms a full collection."""
    warm_up()
    gc.collect()
    gc.freeze()
