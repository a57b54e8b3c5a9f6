"""A plan as tables for people. Reads the answer only; what is long is cut, and says so (`-o json` has everything)."""

from collections import defaultdict

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from trimtab.v1 import plan_pb2, reason_pb2

from clients.cli.amounts import counted, duration, percent, some
from clients.cli.explain.sentences import NODE_SENTENCES, POD_SENTENCES, RESULT_SENTENCES

MOST_ROWS, FEW = 40, 12
"""Rows that a table shows at most, and nodes that are told one by one."""


def print_plan(console: Console, answer: plan_pb2.PlanResponse, now_ns: int) -> None:
    """Print every decision of an answer; `now_ns` is the moment it was made for, Unix nanoseconds."""
    for field, name in (("scale_up", "Scale-up"), ("slack", "Slack"), ("pod_costs", "Pod costs")):
        if answer.HasField(field):  # type: ignore[arg-type]
            console.print(f"[bold]{name}[/bold]")
            console.print(str(getattr(answer, field)).rstrip() or "nothing", markup=False)
    if answer.HasField("scale_down"):
        print_scale_down(console, answer.scale_down, now_ns)
    print_diagnostics(console, answer.diagnostics)


def print_scale_down(console: Console, decision: plan_pb2.ScaleDownDecision, now_ns: int) -> None:
    """Print which nodes go, which could, and which stay and why."""
    code = reason_pb2.ScaleDownResult.Code.Name(decision.result)
    detail = f" — {escape(decision.detail)}" if decision.detail else ""
    console.print(f"[bold]{code}[/bold]: {RESULT_SENTENCES[decision.result]}{detail}")
    going = {**dict.fromkeys(decision.delete_empty, "empty"), **dict.fromkeys(decision.drain, "drained")}
    if going:
        console.print(_going(decision, going))
    waiting = [node for node in decision.unneeded if node.node not in going]
    if waiting:
        console.print(_waiting(waiting, now_ns))
    if decision.unremovable:
        console.print(staying(decision))
    if decision.not_evaluated:
        console.print(f"{counted(decision.not_evaluated, 'node')} were not looked at: the bound came first.")


def _going(decision: plan_pb2.ScaleDownDecision, going: dict[str, str]) -> Table:
    """The nodes to be deleted now."""
    table = Table(title=f"To be deleted now: {counted(len(going), 'node')}", title_justify="left")
    for column in ("node", "how", "used", "pods to move", "to"):
        table.add_column(column, justify="right" if column in ("used", "pods to move") else "left", overflow="fold")
    rows = [node for node in decision.unneeded if node.node in going]
    for node in rows[:MOST_ROWS]:
        targets = sorted(set(node.destinations.values()))
        table.add_row(
            escape(node.node),
            going[node.node],
            percent(node.utilization),
            str(len(node.destinations)),
            escape(some(targets)),
        )
    _cut(table, len(rows))
    return table


def _waiting(nodes: list[plan_pb2.UnneededNode], now_ns: int) -> Table:
    """The nodes that could go, but not now."""
    table = Table(title=f"Not needed, but not deleted now: {counted(len(nodes), 'node')}", title_justify="left")
    for column in ("node", "why not now", "not needed for", "used", "pods to move"):
        table.add_column(column, justify="right" if column in ("used", "pods to move") else "left", overflow="fold")
    for node in nodes[:MOST_ROWS]:
        table.add_row(
            escape(node.node),
            reason_pb2.UnremovableReason.Code.Name(node.not_now_reason) + (f" ({node.detail})" if node.detail else ""),
            duration((now_ns - node.since.ToNanoseconds()) / 1e9),
            percent(node.utilization),
            str(len(node.destinations)),
        )
    _cut(table, len(nodes))
    return table


def staying(decision: plan_pb2.ScaleDownDecision) -> Table:
    """The nodes that stay: each by itself where they are few, by reason where they are many."""
    nodes = decision.unremovable
    table = Table(title=f"Staying: {counted(len(nodes), 'node')}", title_justify="left")
    few = len(nodes) <= FEW
    table.add_column("node" if few else "nodes", justify="left" if few else "right", overflow="fold")
    for column in ("reason", "that is", "in the way" if few else "for example"):
        table.add_column(column, overflow="fold")
    if few:
        for node in nodes:
            code, sentence = _why(node)
            table.add_row(escape(node.node), code, sentence, escape(node.blocking_pod))
        return table
    found: dict[tuple[int, int], list[plan_pb2.UnremovableNode]] = defaultdict(list)
    for node in nodes:
        found[node.reason, node.blocking_reason].append(node)
    # A blocking pod's reason counts as one of its own.
    for _, alike in sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        example = [f"{node.node} ({node.blocking_pod})" if node.blocking_pod else node.node for node in alike]
        table.add_row(str(len(alike)), *_why(alike[0]), escape(some(example, 2)))
    return table


def _why(node: plan_pb2.UnremovableNode) -> tuple[str, str]:
    """The codes, and a sentence, for a node that stays."""
    codes, sentence = reason_pb2.UnremovableReason.Code.Name(node.reason), NODE_SENTENCES[node.reason]
    if node.blocking_reason:
        codes += f"\n{reason_pb2.BlockingPodReason.Code.Name(node.blocking_reason)}"
        sentence += f": {POD_SENTENCES[node.blocking_reason]}"
    return codes, sentence


def print_diagnostics(console: Console, diagnostics: plan_pb2.Diagnostics) -> None:
    """Print what it took, and what the planner wants to be known."""
    stages = ", ".join(f"{one.stage} {one.duration.ToNanoseconds() / 1e6:.1f} ms" for one in diagnostics.stages)
    console.print(
        f"[dim]{diagnostics.node_count:,} nodes in {diagnostics.node_class_count:,} classes, "
        f"{diagnostics.pod_count:,} pods in {diagnostics.pod_class_count:,} classes; {stages}[/dim]"
    )
    for text in diagnostics.notes:
        console.print(f"[dim]note: {escape(text)}[/dim]")


def _cut(table: Table, count: int) -> None:
    """Say how many rows are not shown."""
    if count > MOST_ROWS:
        table.add_row(f"… and {count - MOST_ROWS:,} more (-o json shows all)")
