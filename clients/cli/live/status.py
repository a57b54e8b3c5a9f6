"""`trimtab top --status`: the loop's last decisions and their costs, deletions in progress, evictions, back-offs.

Reads the loop's status ConfigMap and the actuator's status; writes nothing. Times are shown as ages.
"""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Group
from rich.live import Live

from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.cli.amounts import duration
from trimtab.clients.cli.answers.actuation import status_blocks
from trimtab.clients.cli.answers.answer import money
from trimtab.clients.cli.blocks import AnswerPage, Sentence, Style, led
from trimtab.clients.cli.command_options import TopOptions
from trimtab.clients.cli.failures import FailedError, UsageError, cluster_failures
from trimtab.clients.cli.live.sources import ClusterSource
from trimtab.clients.cli.output import Format, as_document, note, stdout_console
from trimtab.clients.cli.printing import print_found
from trimtab.clients.cli.sentences import RESULT_SENTENCES
from trimtab.clients.cli.terminal import printed
from trimtab.clients.loop.status_map import KEY
from trimtab.common.documents.loading import DocumentError, load_document
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.errors import ApiError, ConfigurationError, KubernetesError
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.common.rpc.errors import TrimtabError
from trimtab.v1 import actuator_pb2, reason_pb2

Json = dict[str, Any]


@dataclass(frozen=True)
class ShownStatus:
    """What was found. loop : the loop's status, {} = none; actuator : None = not read."""

    loop: Json
    actuator: actuator_pb2.ActuatorStatus | None


def status(options: TopOptions) -> None:
    """Print the status: on a terminal until Ctrl-C, otherwise once or as often as `--rounds` says."""
    with cluster_failures(), ExitStack() as stack:
        api = _api(options)
        client = stack.enter_context(ActuatorClient(options.actuator)) if options.actuator else None
        if api is None and client is None:
            raise UsageError("there is nothing to show; give --actuator, or a --status-config-map of a cluster")
        looks = _looks(options, api, client)
        form = options.output.format
        is_screen = form is Format.TABLE and sys.stdout.isatty()
        if options.once or not (is_screen or options.rounds):
            _print(next(looks), form, is_line=False)
        elif is_screen:
            with Live(console=stdout_console(), auto_refresh=False, screen=True) as live:
                for seen in looks:
                    live.update(Group(*printed(page(seen, time.time()).blocks)), refresh=True)
        else:
            for seen in looks:
                _print(seen, form)


def page(seen: ShownStatus, now_s: float) -> AnswerPage:
    """Return what was found for people. now_s : Unix seconds, for ages."""
    of_actuator = status_blocks(seen.actuator, now_s) if seen.actuator is not None else ()
    return AnswerPage("Status", (*_loop_sentences(seen.loop, now_s), *of_actuator))


def _api(options: TopOptions) -> Api | None:
    """Connect to the cluster that has the ConfigMap. Without a cluster the actuator's status is enough."""
    if not options.status_map:
        return None
    contexts = options.contexts or ("",)
    if len(contexts) > 1:
        raise UsageError("trimtab top shows one cluster; give --context once")
    try:
        return ClusterSource(options.kubeconfig, contexts[0]).api()
    except ConfigurationError as error:
        if options.actuator is None or options.kubeconfig is not None or options.contexts:
            raise
        note(f"the loop's status is not shown: {error}")
        return None


def _looks(options: TopOptions, api: Api | None, client: ActuatorClient | None) -> Iterator[ShownStatus]:
    """Yield what is found at each look."""
    count = 0
    while True:
        try:
            yield ShownStatus(_loop(options, api), client.get_status() if client is not None else None)
        except TrimtabError as error:
            raise FailedError(f"actuator {options.actuator}: {error}") from None
        count += 1
        if options.rounds and count >= options.rounds:
            return
        time.sleep(options.interval_s)


def _loop(options: TopOptions, api: Api | None) -> Json:
    """Read the loop's status; {} = there is none."""
    if api is None:
        return {}
    namespace, _, name = options.status_map.rpartition("/")
    path = BY_KIND["ConfigMap"].path_in(namespace, name)
    try:
        found = api.json("GET", path)
        document = load_document((found.get("data") or {}).get(KEY) or "{}")
    except ApiError as error:
        if error.status == 404:
            note(f"ConfigMap {options.status_map} does not exist: no loop has written its status")
            return {}
        raise
    except DocumentError as error:
        where = f"ConfigMap {options.status_map}"
        raise KubernetesError(f"{where}: data.{KEY} is not YAML: {error}") from None
    return document if isinstance(document, dict) else {}


def _print(seen: ShownStatus, form: Format, *, is_line: bool = True) -> None:
    """Print what was found; in a watch, JSON is one object per line."""
    document: Json = {"loop": seen.loop}
    if seen.actuator is not None:
        document["actuator"] = as_document(seen.actuator)
    print_found(page(seen, time.time()), form, lambda: document, is_line=is_line)


def _loop_sentences(loop: Json, now_s: float) -> Iterator[Sentence]:
    """Yield the last round of the loop in words: whether it runs, what it found, what the cluster costs."""
    if not loop:
        return
    whole = loop.get("clusterWide") or {}
    yield led(
        Style.HEADLINE, "loop", f": {loop.get('autoscalerStatus', '?')}, last seen {_ago(loop.get('time'), now_s)}"
    )
    if loop.get("message"):
        yield Sentence(f"trouble: {loop['message']}", indent=2)
    if whole:
        yield from (Sentence(text, indent=2) for text in _of_cluster(whole, loop.get("waitingPods", 0)))
    cost = loop.get("cost")
    if isinstance(cost, dict):
        for what, name in (("costs now", ""), ("costs after the plan", "AfterPlan"), ("unneeded nodes", "Unneeded")):
            hour, month = (_money(cost, f"{unit}{name}") for unit in ("perHour", "perMonth"))
            yield Sentence(f"{what}: {hour} an hour, {month} a month", indent=2)


def _of_cluster(whole: Json, waiting: object) -> Iterator[str]:
    """Yield what the last round found in the cluster: nodes, scale-up, scale-down."""
    removal, growth = whole.get("scaleDown") or {}, whole.get("scaleUp") or {}
    nodes = ((whole.get("health") or {}).get("nodeCounts") or {}).get("registered") or {}
    result = str(removal.get("result"))
    code = dict(reason_pb2.ScaleDownResult.Code.items()).get(result)
    yield f"nodes: {nodes.get('total', '?')}"
    yield f"scale-up: {_words(growth.get('status'))}; pods that stay pending: {waiting}"
    counts = f"{removal.get('candidates', 0)} unneeded, {removal.get('inProgress', 0)} going"
    yield f"scale-down: {counts}; {result if code is None else RESULT_SENTENCES[code]}"


def _words(status: object) -> str:
    """Return a status such as "NoActivity" in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(status)).lower()


def _money(cost: Json, name: str) -> str:
    value = cost.get(name)
    return money(value) if isinstance(value, int | float) else "?"


def _ago(text: object, now_s: float) -> str:
    """Return how long ago a time in the ConfigMap is."""
    try:
        moment = text if isinstance(text, datetime) else datetime.fromisoformat(str(text))
        then_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        return "at an unknown time"
    return f"{duration(max(0.0, now_s - then_s))} ago"
