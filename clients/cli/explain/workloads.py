"""Which nodes a workload keeps, what they cost, and what its own change would free."""

from collections import Counter
from collections.abc import Iterator

from trimtab.clients.advice.advise import LEAST_SAVING
from trimtab.clients.advice.of_workload import WorkloadReport
from trimtab.clients.advice.workloads import PodWorkloads, WorkloadName, top_of
from trimtab.clients.cli.amounts import counted, some
from trimtab.clients.cli.answers.answer import Costs
from trimtab.clients.cli.answers.blockers import budget_text
from trimtab.clients.cli.blocks import Sentence, Style, led
from trimtab.clients.cluster_view import ClusterView
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


def find_workload(view: ClusterView, workload: WorkloadName) -> WorkloadName | None:
    """Return a workload with pods: the one that is named, or the one to which that belongs; None = there is none."""
    workloads = PodWorkloads(view)
    if workloads.rows(workload):
        return workload
    owners = (owner for owner in view.snapshot.owners if (owner.kind, owner.namespace, owner.name) == workload)
    return next((top for owner in owners if workloads.rows(top := top_of(owner))), None)


def workload_names(view: ClusterView) -> list[str]:
    """Return all workloads with pods, as users name them."""
    short = {kind: names[0] for kind, names in KINDS.items()}
    return [
        f"{short.get(one.kind, one.kind.lower())}/{one.namespace}/{one.name}" for one in PodWorkloads(view).all
    ]  # fmt: skip


def workload_sentences(view: ClusterView, report: WorkloadReport, costs: Costs) -> Iterator[Sentence]:
    """Yield the explanation as sentences."""
    pods, nodes = counted(report.pod_count, "pod"), counted(report.node_count, "node")
    yield led(Style.HEADLINE, str(report.workload), f", with {pods} on {nodes}.")
    if not report.kept:
        yield Sentence("It keeps no node.", Style.GOOD)
        return
    kept = [one.node for one in report.kept]
    cost = ""
    if costs.known:
        hour = costs.of(kept)
        them = "It costs" if len(kept) == 1 else "They cost"
        cost = f" {them} {costs.rate(hour)}."
    yield led(Style.BAD, f"It keeps {counted(len(kept), 'node')}", f".{cost}")
    for alone, text in ((True, "which nothing else keeps"), (False, "which something else keeps as well")):
        names = [one.node for one in report.kept if one.alone == alone]
        if names:
            yield Sentence(f"{counted(len(names), 'node')} {text}: {some(names, 5)}", indent=2)
    yield Sentence("")
    yield from _reason_sentences(view, report)
    yield Sentence("")
    if report.advice is None:
        yield Sentence("No change of it alone would free a node.")
        return
    if report.advice.node_count <= 0 and (report.advice.saving_per_hour or 0.0) <= LEAST_SAVING:
        yield Sentence(f"If {report.advice.condition}, no more nodes could go.")
        return
    yield Sentence(report.advice.sentence, Style.GOOD)
    for line in report.advice.lines:
        yield Sentence(line, indent=2)


def _reason_sentences(view: ClusterView, report: WorkloadReport) -> Iterator[Sentence]:
    """Yield why its pods are in the way, the reason on most nodes first."""
    nodes = Counter(why for one in report.kept for why in {why for _, reasons in one.pods for why in reasons})
    example = {why: pod for one in report.kept for pod, reasons in one.pods for why in reasons}
    for why, count in sorted(nodes.items(), key=lambda pair: (-pair[1], pair[0])):
        code = _PodReason.Code.ValueType(why)
        name = _PodReason.Code.Name(code)
        yield Sentence(f"{counted(count, 'node')}: a pod {POD_SENTENCES[code]} ({name})", indent=2)
        if why in _BUDGETS:
            yield Sentence(budget_text(view, example[why]), indent=4)
