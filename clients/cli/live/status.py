"""`trimtab top --status`: the loop's last decisions and their costs, deletions in progress, evictions, back-offs.

Reads the loop's status ConfigMap and the actuator's status; writes nothing. Times are shown as ages.
"""

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape

from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.cli.amounts import counted, duration
from trimtab.clients.cli.answers.answer import money
from trimtab.clients.cli.blocks import Table, rows
from trimtab.clients.cli.command_options import TopOptions
from trimtab.clients.cli.failures import FailedError, UsageError, cluster_failures
from trimtab.clients.cli.live.sources import ClusterSource
from trimtab.clients.cli.output import Format, as_document, note, print_document, stdout_console
from trimtab.clients.cli.sentences import RESULT_SENTENCES
from trimtab.clients.cli.terminal import table_on_terminal
from trimtab.clients.loop.status_map import KEY
from trimtab.common.documents.loading import DocumentError, load_document
from trimtab.common.documents.output import escaped
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.errors import ApiError, ConfigurationError, KubernetesError
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.common.rpc.errors import TrimtabError
from trimtab.v1 import actuator_pb2, reason_pb2, snapshot_pb2

MOST_EVICTIONS: Final = 10
MOST_FINISHED: Final = 10
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
            _print(next(looks), form)
        elif is_screen:
            with Live(console=stdout_console(), auto_refresh=False, screen=True) as live:
                for seen in looks:
                    live.update(shown(seen, time.time()), refresh=True)
        else:
            for seen in looks:
                _print(seen, form, is_line=True)


def shown(seen: ShownStatus, now_s: float) -> RenderableType:
    """Return what was found for people. now_s : Unix seconds, for ages."""
    parts: list[RenderableType] = list(_loop_lines(seen.loop, now_s))
    if seen.actuator is not None:
        parts += [*_replacements(seen.actuator, now_s), *_deletions(seen.actuator, now_s)]
        parts += [*_evictions(seen.actuator, now_s), _groups(seen.actuator, now_s)]
    return Group(*parts)


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


def _print(seen: ShownStatus, output: Format, is_line: bool = False) -> None:
    """Print what was found; in a watch, JSON is one object per line."""
    if output is Format.TABLE:
        stdout_console().print(shown(seen, time.time()))
        return
    document: Json = {"loop": seen.loop}
    if seen.actuator is not None:
        document["actuator"] = as_document(seen.actuator)
    if is_line and output is Format.JSON:
        sys.stdout.write(escaped(json.dumps(document, ensure_ascii=False)) + "\n")
        sys.stdout.flush()
    else:
        print_document(document, output)


def _loop_lines(loop: Json, now_s: float) -> Iterator[str]:
    """Yield the last round of the loop in words: whether it runs, what it found, what the cluster costs."""
    if not loop:
        return
    whole = loop.get("clusterWide") or {}
    state = escape(str(loop.get("autoscalerStatus", "?")))
    yield f"[bold]loop[/bold]: {state}, last seen {_ago(loop.get('time'), now_s)}"
    if loop.get("message"):
        yield f"  trouble: {escape(str(loop['message']))}"
    if whole:
        yield from _cluster_lines(whole, loop.get("waitingPods", 0))
    cost = loop.get("cost")
    if isinstance(cost, dict):
        for what, name in (("costs now", ""), ("costs after the plan", "AfterPlan"), ("unneeded nodes", "Unneeded")):
            hour, month = (_money(cost, f"{unit}{name}") for unit in ("perHour", "perMonth"))
            yield f"  {what}: {hour} an hour, {month} a month"


def _cluster_lines(whole: Json, waiting: object) -> Iterator[str]:
    """Yield what the last round found in the cluster: nodes, scale-up, scale-down."""
    removal, growth = whole.get("scaleDown") or {}, whole.get("scaleUp") or {}
    nodes = ((whole.get("health") or {}).get("nodeCounts") or {}).get("registered") or {}
    result = str(removal.get("result"))
    code = dict(reason_pb2.ScaleDownResult.Code.items()).get(result)
    yield f"  nodes: {nodes.get('total', '?')}"
    yield f"  scale-up: {_words(growth.get('status'))}; pods that stay pending: {waiting}"
    yield (
        f"  scale-down: {removal.get('candidates', 0)} unneeded, {removal.get('inProgress', 0)} going; "
        f"{escape(result) if code is None else RESULT_SENTENCES[code]}"
    )


def _words(status: object) -> str:
    """Return a status such as "NoActivity" in words."""
    return escape(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(status)).lower())


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


def _age(moment: Timestamp, now_s: float) -> str:
    return duration(max(0.0, now_s - moment.ToMilliseconds() / 1000))


def _deletions(found: actuator_pb2.ActuatorStatus, now_s: float) -> Iterator[RenderableType]:
    """Yield the deletions in progress, and the recently ended ones."""
    yield f"\n[bold]{counted(len(found.deletions), 'deletion')} in progress[/bold]"
    if found.deletions:
        yield _nodes(found.deletions, now_s)
    ended = sorted(found.finished, key=lambda one: -one.state_time.ToMilliseconds())
    if ended:
        yield f"\n[bold]ended recently[/bold]: {counted(len(ended), 'deletion')}"
        yield _nodes(ended[:MOST_FINISHED], now_s)


def _replacements(found: actuator_pb2.ActuatorStatus, now_s: float) -> Iterator[RenderableType]:
    """Yield the replacement in progress and those that ended recently, latest first; nothing if there are none."""
    if not found.replacements:
        return
    yield f"\n[bold]{counted(len(found.replacements), 'replacement')}[/bold], in progress or ended recently"
    cells = []
    latest = sorted(found.replacements, key=lambda one: -one.stage_time.ToMilliseconds())
    for one in latest[:MOST_FINISHED]:
        stage = actuator_pb2.ReplacementStage.Code.Name(one.stage).lower().replace("_", " ")
        leaving = ", ".join(node.node for node in one.leaving)
        new = ", ".join(node.node or node.name for node in one.new_nodes)
        saved = money(one.achieved_saving_per_hour) if one.HasField("achieved_saving_per_hour") else ""
        reason = reason_pb2.ReplacementReason.Code.Name(one.reason) if one.reason else ""
        why = f"{reason} {one.detail}".strip()
        cells.append((leaving, new, stage, _age(one.stage_time, now_s), saved, why))
    yield _table(cells, "leaving", "new nodes", "stage", "for", "saved an hour", "why")


def _nodes(deletions: Any, now_s: float) -> RenderableType:
    cells = []
    for one in deletions:
        state = actuator_pb2.DeletionState.Code.Name(one.state).lower().replace("_", " ")
        reason = reason_pb2.DeletionReason.Code.Name(one.reason) if one.reason else ""
        gone = f"{one.pods_gone_count} of {one.pods_total_count}" if one.drain else "empty"
        why = f"{reason} {one.detail}".strip()
        cells.append((one.node, one.node_group, state, _age(one.state_time, now_s), gone, why))
    return _table(cells, "node", "node group", "state", "for", "pods gone", "why")


def _evictions(found: actuator_pb2.ActuatorStatus, now_s: float) -> Iterator[RenderableType]:
    """Yield the latest evictions."""
    if not found.recent_evictions:
        return
    yield f"\n[bold]{counted(len(found.recent_evictions), 'recent eviction')}[/bold]"
    cells = []
    for one in list(found.recent_evictions)[: -MOST_EVICTIONS - 1 : -1]:
        of = f"{one.owner_kind}/{one.owner_name}" if one.owner_kind else ""
        cells.append((f"{one.namespace}/{one.name}", of, one.node, _age(one.evict_time, now_s)))
    yield _table(cells, "pod", "of", "node", "ago")


def _groups(found: actuator_pb2.ActuatorStatus, now_s: float) -> RenderableType:
    """Return the node groups with their back-offs and prices."""
    cells = []
    for one in found.node_groups:
        backoff = _backoff(one, now_s)
        cost = money(one.price_per_hour * one.instance_count) if one.HasField("price_per_hour") else ""
        sizes = (one.instance_count, one.target_size, one.min_size, one.max_size, one.deletion_count)
        cells.append((one.id, *map(str, sizes), cost, backoff))
    return _table(cells, "node group", "size", "wanted", "least", "most", "going", "an hour", "back-off")


def _backoff(group: actuator_pb2.NodeGroupStatus, now_s: float) -> str:
    """Return how long a group is backed off, and why; "" = it is not."""
    if group.health != snapshot_pb2.NodeGroupHealth.BACKED_OFF:
        return ""
    if not group.HasField("backoff_until"):
        return f"until a node joins: {group.health_detail}"
    left_s = group.backoff_until.ToMilliseconds() / 1000 - now_s
    return f"{duration(max(0.0, left_s))} left: {group.health_detail}"


def _table(cells: Sequence[tuple[str, ...]], *columns: str) -> RenderableType:
    return table_on_terminal(Table("", columns, rows(cells), sentences=columns))
