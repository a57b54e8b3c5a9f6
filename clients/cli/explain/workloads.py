"""Which nodes a workload keeps, what they cost, and what its own change would free."""

from collections import Counter
from collections.abc import Iterator

from rich.markup import escape

from trimtab.clients.advice import LEAST_SAVING, WorkloadReport
from trimtab.clients.advice.workloads import PodWorkloads, WorkloadName, top_of
from trimtab.clients.cli.amounts import counted, some
from trimtab.clients.cli.answers.answer import Costs, money
from trimtab.clients.cli.answers.blockers import budget_text
from trimtab.clients.cluster_view import ClusterView
from trimtab.prices import HOURS_A_MONTH
from trimtab.reason_texts import POD_SENTENCES
from trimtab.v1 import reason_pb2

KINDS = {
    "Deployment": ("deploy", "deployment", "deployments"),
    "StatefulSet": ("sts", "statefulset", "statefulsets"),
    "DaemonSet": ("ds", "daemonset", "daemonsets"),
    "ReplicaSet": ("rs", "replicaset", "replicasets"),
    "ReplicationController": ("rc", "replicationcontroller", "replicationcontrollers"),
    "Job": ("job", "jobs"),
    "CronJob": ("cj", "cronjob", "cronjobs"),
}
"""Kinds of workloads, and how kubectl abbreviates them."""
_PodReason = reason_pb2.BlockingPodReason
_BUDGETS = (_PodReason.NOT_ENOUGH_PDB, _PodReason.SEVERAL_BUDGETS)


def kind_of(text: str) -> str:
    """Return the kind of workloads that a user names, "" = none."""
    return next((kind for kind, names in KINDS.items() if text.lower() in names), "")


def find_workload(view: ClusterView, asked: WorkloadName) -> WorkloadName | None:
    """Return a workload with pods: the one that is named, or the one to which that belongs; None = there is none."""
    workloads = PodWorkloads(view)
    if workloads.rows(asked):
        return asked
    owners = (one for one in view.snapshot.owners if (one.kind, one.namespace, one.name) == asked)
    return next((top for one in owners if workloads.rows(top := top_of(one))), None)


def workload_names(view: ClusterView) -> list[str]:
    """Return all workloads with pods, as users name them."""
    short = {kind: names[0] for kind, names in KINDS.items()}
    return [
        f"{short.get(one.kind, one.kind.lower())}/{one.namespace}/{one.name}" for one in PodWorkloads(view).all
    ]  # fmt: skip


def workload_lines(view: ClusterView, report: WorkloadReport, costs: Costs) -> Iterator[str]:
    """Yield the explanation as lines of rich text."""
    pods, nodes = counted(report.pod_count, "pod"), counted(report.node_count, "node")
    yield f"[bold]{escape(str(report.workload))}[/bold], with {pods} on {nodes}."
    if not report.kept:
        yield "[green]It keeps no node.[/green]"
        return
    kept = [one.node for one in report.kept]
    cost = ""
    if costs.known:
        hour = costs.of(kept)
        them = "It costs" if len(kept) == 1 else "They cost"
        cost = f" {them} {money(hour)} an hour, {hour * HOURS_A_MONTH:,.0f} a month."
    yield f"[red]It keeps {counted(len(kept), 'node')}[/red].{cost}"
    for alone, text in ((True, "which nothing else keeps"), (False, "which something else keeps as well")):
        names = [one.node for one in report.kept if one.alone == alone]
        if names:
            yield f"  {counted(len(names), 'node')} {text}: [cyan]{escape(some(names, 5))}[/cyan]"
    yield ""
    yield from _reason_lines(view, report)
    yield ""
    if report.advice is None:
        yield "No change of it alone would free a node."
        return
    if report.advice.node_count <= 0 and (report.advice.saving_per_hour or 0.0) <= LEAST_SAVING:
        yield f"If {escape(report.advice.condition)}, no more nodes could go."
        return
    yield f"[green]{escape(report.advice.sentence)}[/green]"
    for line in report.advice.lines:
        yield f"  {escape(line)}"


def _reason_lines(view: ClusterView, report: WorkloadReport) -> Iterator[str]:
    """Yield why its pods are in the way, the reason on most nodes first."""
    nodes = Counter(why for one in report.kept for why in {why for _, reasons in one.pods for why in reasons})
    example = {why: pod for one in report.kept for pod, reasons in one.pods for why in reasons}
    for why, count in sorted(nodes.items(), key=lambda pair: (-pair[1], pair[0])):
        code = _PodReason.Code.ValueType(why)
        name = _PodReason.Code.Name(code)
        yield f"  {counted(count, 'node')}: a pod {POD_SENTENCES[code]} [dim]({name})[/dim]"
        if why in _BUDGETS:
            yield f"    {escape(budget_text(view, example[why]))}"
