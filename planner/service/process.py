"""The planner as a process. Decides only the order of start and stop.

Reports an error in a setting in one line.
"""

import dataclasses
import gc
import os
import sys
from typing import Final

from trimtab.v1 import planner_pb2_grpc

from clients.transport.options import ServerOptions
from clients.transport.server import Registration, Shell, serve
from clients.transport.telemetry import configure_logging, start_telemetry
from clients.transport.terminal import visible
from planner.model.kernel_cache import kept_in
from planner.service.request_handler import RequestHandler
from planner.service.servicer import PlannerServicer
from planner.service.settings import PlannerOptions, StartOptions
from planner.service.warm_up import warm_up

SERVICE: Final = "trimtab.v1.Planner"
MAX_MESSAGE_BYTES: Final = 128 << 20
"""The header carries the planner's state: 3 MB for 50,000 nodes with 1.5 million pods, less than this for the largest
snapshot allowed. Snapshots are sent in small pieces."""


def run(server: ServerOptions, options: PlannerOptions, start: StartOptions) -> None:
    """Decide which nodes are not needed, where pods would go, what fits where. Acts on nothing."""
    if start.compile:
        compile_all()
        return
    try:
        configure_logging(server.log_level)
        telemetry = start_telemetry("trimtab-planner", server.metrics_address, server.security())
        servicer = PlannerServicer(RequestHandler(telemetry.meter, options.cache_bytes), options)
        registration = Registration(planner_pb2_grpc.add_PlannerServicer_to_server, servicer, SERVICE)
        settings = dataclasses.replace(server.settings(), max_message_bytes=MAX_MESSAGE_BYTES)
        shell = Shell("trimtab-planner", [registration], settings, telemetry)
        serve(shell, prepare)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"trimtab-planner: {visible(str(error))}\n")
        sys.exit(2)


def compile_all() -> None:
    """Compile all kernels and keep them. Exits with 1 where there is no directory to keep them in."""
    if not kept_in():
        sys.stderr.write(
            "trimtab-planner: compiled kernels cannot be kept; set NUMBA_CACHE_DIR to a writable directory\n"
        )
        sys.exit(1)
    warm_up()
    sys.stdout.write(f"compiled kernels are kept in {os.path.commonpath(kept_in())}\n")


def prepare() -> None:
    """Warm up, and exclude modules and kernels from garbage collection, which saves 60 ms per full collection."""
    warm_up()
    gc.collect()
    gc.freeze()
