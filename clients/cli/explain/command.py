"""`trimtab explain FILE… SUBJECT`: ask the planner about a pod, a node, a workload, a pod group, a ProvisioningRequest,
a placeholder, slack, or on which nodes pods fit, and explain its answer.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from trimtab.clients.advice.advise import AdviceOptions
from trimtab.clients.advice.of_workload import explain_workload
from trimtab.clients.advice.workloads import WorkloadName
from trimtab.clients.cli.answers.answer import Costs
from trimtab.clients.cli.answers.any_decision import blocks as any_blocks
from trimtab.clients.cli.answers.any_decision import naming
from trimtab.clients.cli.answers.nodes import explain_node, goes_with_node, node_sentences
from trimtab.clients.cli.answers.page import without_blocks
from trimtab.clients.cli.blocks import AnswerPage, Block, Sentence
from trimtab.clients.cli.decisions import asking, default_decisions
from trimtab.clients.cli.explain.gangs import (
    answer_to_request,
    explain_gang,
    group_keys,
    pod_group_sentences,
    request_sentences,
)
from trimtab.clients.cli.explain.growth import explain_growth, growth_sentences
from trimtab.clients.cli.explain.pods import PodExplanation, explain_pod, fit_sentences, pod_sentences
from trimtab.clients.cli.explain.replacement import (
    explain_replacement,
    has_price,
    replacement_sentences,
)
from trimtab.clients.cli.explain.slack import (
    explain_slack,
    placeholder_sentences,
    slack_sentences,
)
from trimtab.clients.cli.explain.workloads import KINDS, find_workload, kind_of, workload_names, workload_sentences
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.fit import fit
from trimtab.clients.cli.output import note
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.prices import Prices
from trimtab.clients.cli.printing import messages_and_blocks, print_found
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.clients.planner_client import PlannerClient
from trimtab.clients.verdicts import staying
from trimtab.v1 import plan_pb2, reason_pb2

_MOST_CHECKS = 200_000
"""Most pairs of a pod and a node that the explanation of a node checks."""
_NO_PLACE = reason_pb2.UnremovableReason.NO_PLACE_TO_MOVE_PODS
_POD, _NODE, _SLACK, _PLACEHOLDER = "pod", "node", "slack", "placeholder"
_REQUEST, _GANG, _FIT = "provreq", "podgroup", "fit"
_SUBJECTS = (
    "pod/NAMESPACE/NAME, node/NAME, a workload such as deploy/NAMESPACE/NAME, podgroup/NAMESPACE/NAME, "
    "provreq/NAMESPACE/NAME, placeholder/NAME, slack, fit, or fit/NAMESPACE/NAME"
)


class Question(NamedTuple):
    """A question about one thing in a cluster. request : what to decide with, without decisions; name : of the thing;
    prices : of a file.
    """

    planner: PlannerClient
    view: ClusterView
    request: plan_pb2.PlanRequest
    name: str
    prices: Prices | None

    def known(self, what: str, names: Iterable[str]) -> str:
        """Return the name. Errors: UsageError with the nearest names, if there is nothing of that name."""
        known = list(names)
        if self.name not in known:
            raise UsageError(f"{what.format(self.name)}{_near(self.name, known)}")
        return self.name

    def fit(self, pod: ShownPod) -> PodExplanation:
        """Return where one pod fits. Errors: UsageError."""
        asked = asking(self.request, fit_pods=(pod.key,))
        answers = list(self.planner.check_fit(self.view.snapshot, asked))
        if len(answers) != 1:
            raise UsageError(f"pod {pod.key} has ended and uses no resources; there is nothing to explain")
        return explain_pod(self.view, pod, answers[0])


class Explained(NamedTuple):
    """An explanation: the planner's messages, by name, for programs, and blocks."""

    messages: dict[str, Message | dict[str, Any]]
    blocks: list[Block]


def explain(options: CommandOptions) -> None:
    """Explain the subject, which is the last of `options.files`."""
    if not options.files:
        raise UsageError(f"usage: trimtab explain FILE… {_SUBJECTS}")
    files = list(options.files)
    fits = [str(files.pop()) for one in reversed(options.files) if re.match(r"fit(/|$)", str(one))]
    if fits:
        _explain_fits(replace(options, files=tuple(files)), fits[::-1])
        return
    kind, name = _subject(str(options.files[-1]))
    options = replace(options, files=options.files[:-1])
    request = options.request()
    view = ClusterView(options.cluster(request))
    with open_planner(options.planner, options.settings) as planner:
        question = Question(planner, view, request, name, options.prices_of_file)
        explained = _EXPLAINERS[kind](question) if kind in _EXPLAINERS else _workload(question, kind)
    page = AnswerPage("", tuple(explained.blocks))
    print_found(page, options.output, lambda: messages_and_blocks(explained.messages, page), verbose=True)


def _explain_fits(options: CommandOptions, subjects: Sequence[str]) -> None:
    """Print on which nodes pods fit. subjects : "fit" = all that wait, or some "fit/NAMESPACE/NAME"."""
    pods = [subject.removeprefix("fit/") for subject in subjects if subject != _FIT]
    for pod in pods:
        if pod.count("/") != 1 or pod.startswith("/") or pod.endswith("/"):
            raise UsageError(f"fit/{pod}: write it as fit/NAMESPACE/NAME")
    fit(options, [] if _FIT in subjects else pods)


def _subject(text: str) -> tuple[str, str]:
    """Read a subject as `_SUBJECTS` has them: its kind and its name."""
    kind, _, name = text.partition("/")
    parts = name.split("/")
    if text == _SLACK or (kind == _PLACEHOLDER and name):
        return kind, name
    if (kind in (_POD, _REQUEST, _GANG) and len(parts) == 2 and all(parts)) or (
        kind == _NODE and len(parts) == 1 and name
    ):
        return kind, name
    if kind_of(kind) and len(parts) == 2 and all(parts):
        return kind_of(kind), name
    hint = "the files are named, but not the subject" if Path(text).exists() else f"{text!r} is none of them"
    raise UsageError(f"the last argument is {_SUBJECTS}; {hint}")


def _near(name: str, names: Iterable[str]) -> str:
    """Return the names closest to a mistyped one."""
    near = difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    return f"; is it {' or '.join(near)}?" if near else ""


def _pod(question: Question) -> Explained:
    """Explain a pod; if it waits, also what scale-up does for it.

    A recorded cluster may break the contract: the planner's error then names table, row and field.
    """
    planner, view, request = question[:3]
    try:
        pod = view.pod(question.name)
    except (IndexError, ValueError):
        list(planner.check_fit(view.snapshot, request))
        raise
    if pod is None:
        raise UsageError(f"there is no pod {question.name} in these files{_near(question.name, view.pod_keys)}")
    explanation = question.fit(pod)
    found = Explained({"fit": explanation.answer}, [*pod_sentences(explanation)])
    if not pod.node:
        growth = explain_growth(planner, view, pod, request, explanation.fits, question.prices)
        found.messages["scaleUp"] = growth.decision
        found.blocks.extend([Sentence(""), *growth_sentences(growth)])
    return found


def _pod_group(question: Question) -> Explained:
    key = question.known("there is no pod group {} in these files", group_keys(question.view))
    explanation = explain_gang(question.planner, question.view, key, question.request)
    gang = {"gang": explanation.result} if explanation.result is not None else {}
    return Explained({"podGroup": explanation.group, **gang}, [*pod_group_sentences(question.view, explanation)])


def _slack(question: Question) -> Explained:
    """Explain a placeholder, or slack as a whole if there is no name."""
    explanation = explain_slack(question.planner, question.view, question.request, question.prices)
    if not question.name:
        return Explained({"slack": explanation.answer.slack}, [*slack_sentences(explanation)])
    known = {one.name: one for one in explanation.placeholders}
    placeholder = known[question.known("slack has no placeholder {} here", known)]
    return Explained({"placeholder": placeholder}, [*placeholder_sentences(explanation, placeholder)])


def _request(question: Question) -> Explained:
    one = answer_to_request(question.planner, question.view, question.name, question.request)
    return Explained({"request": one}, [*request_sentences(one)])


def _workload(question: Question, kind: str) -> Explained:
    """Explain which nodes a workload keeps."""
    view, request = question.view, question.request
    asked = WorkloadName(kind, *question.name.split("/"))
    workload = find_workload(view, asked)
    if workload is None:
        short = f"{KINDS[kind][0]}/{question.name}"
        raise UsageError(f"there is no {asked} with pods in these files{_near(short, workload_names(view))}")
    if workload != asked:
        note(f"{asked} belongs to {workload}")
    request.decisions.extend(default_decisions(request.settings, view.snapshot))
    answer = question.planner.plan(view.snapshot, request)
    costs = Costs(answer, view, question.prices)
    report = explain_workload(question.planner, view, request, answer, AdviceOptions(), workload)
    return Explained({"workload": report.document()}, [*workload_sentences(view, report, costs)])


def _homeless(question: Question, answer: plan_pb2.PlanResponse) -> frozenset[str]:
    """Return the pods that a drain of the node would evict and that fit no other node, even alone; none if checking
    them would take long.
    """
    view, name = question.view, question.name
    blocked = {pod.pod for one in answer.nodes for pod in one.blocking_pods}
    pods = [one.key for one in view.pods_on(name) if one.key not in blocked and not goes_with_node(view, one)]
    if not pods or len(pods) * len(view.nodes) > _MOST_CHECKS:
        return frozenset()
    asked = asking(question.request, fit_pods=pods)
    return frozenset(
        one.pod
        for one in question.planner.check_fit(view.snapshot, asked)
        if not any(fit.fits and fit.node != name and view.nodes[fit.node].ready for fit in one.nodes)
    )


def _node(question: Question) -> Explained:
    """Explain a node, with what keeps it from being replaced where its price is known; if a pod of it fits nowhere
    else, also why no other node takes the pod.
    """
    view, request = question.view, question.request
    name = question.known("there is no node {} in these files", view.nodes)
    request.decisions.extend(default_decisions(request.settings, view.snapshot))
    is_asked = plan_pb2.Decision.REPLACEMENT in request.decisions
    if has_price(view, name) and not is_asked:
        request.decisions.append(plan_pb2.Decision.REPLACEMENT)
    request.explain_nodes.append(name)
    answer = question.planner.plan(view.snapshot, request)
    for text in answer.summary.notes:
        note(text)
    stays = any(one.node == name for one in staying(answer))
    homeless = _homeless(question, answer) if stays else frozenset[str]()
    explanation = explain_node(view, name, answer, request, homeless)
    costs, replaced = Costs(answer, view, question.prices), None
    if answer.HasField("replacement"):
        replaced = explain_replacement(name, answer, costs, is_asked=is_asked)
    messages: dict[str, Message | dict[str, Any]] = {"verdict": explanation.verdict}
    blocks: list[Block] = [*node_sentences(explanation, is_replaced=bool(replaced and replaced.leaving))]
    if replaced is not None:
        blocks += [Sentence(""), *replacement_sentences(replaced)] if replaced.leaving or replaced.kept else []
    for field, result in without_blocks(answer).items():
        if (part := naming(result, name)) is not None:
            messages[plan_pb2.PlanResponse.DESCRIPTOR.fields_by_name[field].json_name] = part
            blocks += any_blocks(field, part)
    verdict = explanation.verdict
    pod = view.pod(verdict.blocking_pod) if verdict.reason == _NO_PLACE else None
    if pod is not None:
        alone = f"Considered alone, without the other pods that would have to move, {verdict.blocking_pod}:"
        blocks += [Sentence(""), Sentence(alone), *fit_sentences(question.fit(pod))]
    return Explained(messages, blocks)


_EXPLAINERS: Final[Mapping[str, Callable[[Question], Explained]]] = {
    _POD: _pod,
    _NODE: _node,
    _SLACK: _slack,
    _PLACEHOLDER: _slack,
    _REQUEST: _request,
    _GANG: _pod_group,
}
"""By kind of the subject; all others are workloads."""
