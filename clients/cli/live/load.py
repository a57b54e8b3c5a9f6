"""`trimtab admin load`: check the options, put bursts on a live cluster, and print the results."""

import time
from datetime import datetime
from typing import Any

from trimtab.clients.cli.blocks import AnswerPage, Table, rows
from trimtab.clients.cli.command_options import LoadOptions
from trimtab.clients.cli.failures import UsageError, cluster_failures
from trimtab.clients.cli.live.sources import ClusterSource
from trimtab.clients.cli.live.stopping import Stopping
from trimtab.clients.cli.output import stderr_console
from trimtab.clients.cli.printing import print_found
from trimtab.clients.load.bursts import Around, LoadSettings, run
from trimtab.clients.load.cluster import LoadedCluster
from trimtab.common.kubernetes.names import RULE, is_label
from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.quantities import parse_quantity
from trimtab.common.objects.times import go_duration_ns


def load(options: LoadOptions) -> None:
    """Put the load on the cluster until it is over, or until SIGTERM or SIGINT; remove all of it in any case."""
    settings = _settings(options)
    console = stderr_console()

    def say(text: str) -> None:
        console.print(f"{datetime.now():%H:%M:%S} {text}")

    stopping = Stopping()
    with cluster_failures(), stopping.on_signals():
        cluster = LoadedCluster(ClusterSource(options.kubeconfig, options.context).api(), settings)
        found = [one.document() for one in run(cluster, settings, Around(time.monotonic, time.sleep, say))]
        print_found(_page(found), options.output.format, lambda: {"bursts": found})


def _settings(options: LoadOptions) -> LoadSettings:
    """Return the settings of the load, checked. Errors: UsageError."""
    if not is_label(options.namespace):
        raise UsageError(
            f"--namespace {options.namespace}: a namespace has {RULE.replace(chr(39) + '.' + chr(39), '')}"
        )
    for option, text in (("--cpu", options.cpu), ("--memory", options.memory)):
        try:
            is_amount = parse_quantity(text) >= 0
        except FieldError:
            is_amount = False
        if not is_amount:
            raise UsageError(f'{option} {text}: give a quantity of Kubernetes such as "500m" or "1Gi"')
    return LoadSettings(
        namespace=options.namespace,
        burst_count=options.bursts,
        deployment_count=options.deployments,
        replicas=options.replicas,
        cpu=options.cpu,
        memory=options.memory,
        length_s=_seconds("--length", options.length),
        quiet_s=_seconds("--quiet", options.quiet),
        node_selector=dict(_label(one) for one in options.node_selector or ()),
        image=options.image,
    )


def _seconds(option: str, text: str) -> float:
    try:
        found = go_duration_ns(text) / 1e9
    except FieldError:
        found = -1.0
    if found < 0:
        raise UsageError(f'{option} {text}: give a duration such as "90s" or "1h30m"')
    return found


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"--node-selector {text}: give KEY=VALUE, a label of nodes")
    return key, value


def _page(documents: list[dict[str, Any]]) -> AnswerPage:
    heads = ("burst", "pods", "scheduled", "at once", "median wait", "longest wait", "nodes before", "most", "after")
    cells = []
    for document in documents:
        waits = ["-" if document[key] is None else f"{document[key]:g} s" for key in ("medianWaitS", "longestWaitS")]
        counts = [str(document[key]) for key in ("number", "pods", "scheduled", "atOnce")]
        nodes = [str(document[key]) for key in ("nodesBefore", "nodesMost", "nodesAfter")]
        cells.append((*counts, *waits, *nodes))
    return AnswerPage("Load", (Table("", heads, rows(cells)),))
