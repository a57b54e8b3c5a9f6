"""The planner as a process. Decides only the order of start and stop.

Reports an error in a setting in one line.
"""

import dataclasses
import gc
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

import typer

from trimtab.clusterautoscaler import expander_pb2_grpc
from trimtab.common.documents.output import visible
from trimtab.common.kubernetes.token_review import open_review
from trimtab.common.rpc.addresses import ANONYMOUS_OPTION, split_address
from trimtab.common.rpc.extras import MissingExtraError
from trimtab.common.rpc.options import add_command
from trimtab.common.rpc.port_security import ExposedPortError, is_loopback
from trimtab.common.rpc.rights import Right
from trimtab.common.rpc.server import Registration, Shell, serve
from trimtab.common.rpc.server_options import ServerOptions
from trimtab.common.rpc.telemetry import Telemetry, configure_logging, start_telemetry
from trimtab.planner.compiled.kernel_cache import kept_in
from trimtab.planner.expander.question import LastPlans
from trimtab.planner.expander.servicer import SERVICE as EXPANDER
from trimtab.planner.expander.servicer import ChoiceRecorder, ExpanderServicer
from trimtab.planner.service.request_handler import RequestHandler
from trimtab.planner.service.request_limits import RequestMemory
from trimtab.planner.service.servicer import PlannerServicer
from trimtab.planner.service.settings import ExpanderOptions, PlannerOptions, StartOptions
from trimtab.planner.service.warm_up import warm_up
from trimtab.v1 import planner_pb2_grpc

SERVICE: Final = "trimtab.v1.Planner"
MAX_MESSAGE_BYTES: Final = 128 << 20
"""The header carries the planner's state: 3 MB for 50,000 nodes with 1.5 million pods, less than this for the largest
snapshot allowed. Snapshots are sent in small pieces. A Cluster Autoscaler sends all its options in one message, and
takes answers up to this size."""


def run(server: ServerOptions, options: PlannerOptions, expander: ExpanderOptions, start: StartOptions) -> None:
    """Decide which nodes are not needed, where pods would go, what fits where. Acts on nothing."""
    if start.compile:
        compile_all()
        return
    try:
        configure_logging(server.log_level)
        expander.chain()
        with ExitStack() as stack:
            _serve(server, options, expander, partial(prepare, start.quick_start), stack)
    except (ValueError, OSError, MissingExtraError) as error:
        sys.stderr.write(f"trimtab-planner: {visible(str(error))}\n")
        sys.exit(2)


def _serve(
    server: ServerOptions,
    options: PlannerOptions,
    expander: ExpanderOptions,
    warm_up_first: Callable[[], None],
    stack: ExitStack,
) -> None:
    settings = dataclasses.replace(server.settings(open_review), max_message_bytes=MAX_MESSAGE_BYTES)
    telemetry = start_telemetry("trimtab-planner", server.metrics_address, settings.security)
    memory = RequestMemory(options.max_request_memory)
    handler = RequestHandler(telemetry.meter, options.cache_bytes)
    plans = LastPlans()
    handler.on_plan = plans.remember
    recorder = None
    if expander.expander_record is not None:
        recorder = ChoiceRecorder(expander.expander_record)
        stack.callback(recorder.close)
    choices = Registration(
        expander_pb2_grpc.add_ExpanderServicer_to_server,
        ExpanderServicer(plans, expander, options, memory, recorder),
        EXPANDER,
    )
    planning = Registration(
        planner_pb2_grpc.add_PlannerServicer_to_server,
        PlannerServicer(handler, options, settings.access, memory),
        SERVICE,
    )
    shell = Shell("trimtab-planner", [planning, choices], settings, telemetry)
    own_port = _own_port(expander, shell, choices, telemetry)

    def ready() -> None:
        warm_up_first()
        if own_port is not None:
            own_port.start()
            own_port.ready()

    def close() -> None:
        if own_port is not None:
            own_port.stop()

    serve(shell, ready, close=close)


def _own_port(expander: ExpanderOptions, shell: Shell, choices: Registration, telemetry: Telemetry) -> Shell | None:
    """Return the separate server for autoscalers, which cannot present a certificate; None = none configured. Errors:
    ValueError if it would answer anyone on the network without explicit permission.
    """
    if not expander.expander_address:
        return None
    host, _ = split_address(expander.expander_address)
    security = dataclasses.replace(shell.settings.security, client_ca=None)
    is_granted = shell.settings.access.policy is not None and shell.settings.access.grants_anonymous(Right.CHOOSE)
    if not is_granted and not security.allow_anonymous and not is_loopback(host):
        raise ExposedPortError(
            f"--expander-address {expander.expander_address}: a Cluster Autoscaler shows no certificate; grant"
            f" `anonymous: [{Right.CHOOSE}]` in the file of --policy, or give {ANONYMOUS_OPTION}"
        )
    settings = dataclasses.replace(
        shell.settings,
        address=expander.expander_address,
        address_file=None,
        security=dataclasses.replace(security, allow_anonymous=True),
    )
    return Shell("trimtab-expander", [choices], settings, telemetry)


def compile_all() -> None:
    """Compile all kernels and cache them. Exits with 1 if there is no directory for the cache."""
    if not kept_in():
        sys.stderr.write(
            "trimtab-planner: compiled kernels cannot be cached; set NUMBA_CACHE_DIR to a writable directory\n"
        )
        sys.exit(1)
    warm_up()
    sys.stdout.write(f"compiled kernels are cached in {os.path.commonpath(kept_in())}\n")


def prepare(quick: bool = False) -> None:
    """Warm up, and exclude modules and kernels from garbage collection, which saves 60 ms per full collection."""
    warm_up(quick)
    gc.collect()
    gc.freeze()


app = typer.Typer(
    add_completion=False, context_settings={"auto_envvar_prefix": "TRIMTAB_PLANNER"}, pretty_exceptions_enable=False
)
add_command(app, run, ServerOptions, PlannerOptions, ExpanderOptions, StartOptions)
