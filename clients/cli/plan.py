"""`trimtab plan`: one request over files, one answer."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.advice.advise import AdviceOptions
from trimtab.clients.advice.levers.requests import DEFAULT_MARGIN
from trimtab.clients.cli.advice import advice_options, find_advice
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.decisions import default_decisions
from trimtab.clients.cli.documents import check_state, read_now, read_settings, read_state, settings_notes
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.label_groups import group_by_labels, read_labels
from trimtab.clients.cli.offer_files import OfferFile, read_offers
from trimtab.clients.cli.output import Format, as_document, note, stdout_console
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.price_files import given_prices
from trimtab.clients.cli.prices import Prices, apply_prices
from trimtab.clients.cli.printing import print_document
from trimtab.clients.cli.slack_objects import exported
from trimtab.clients.cli.sources import ClusterChoice, ClusterInput, read_snapshot
from trimtab.clients.cli.usage import ClusterUsage, read_usage
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.documents.bounded_input import MAX_INPUT_BYTES
from trimtab.common.objects.annotated_numbers import annotations_read
from trimtab.common.objects.build import BuiltSnapshot
from trimtab.common.objects.dominated_groups import leave_out_dominated
from trimtab.common.objects.karpenter.pool_settings import has_pools, with_pool_settings
from trimtab.v1 import plan_pb2, snapshot_pb2

MOST_GROUPS = 1200
"""Node groups from which on those are left out that others replace."""


@dataclass(frozen=True)
class CommandOptions:
    """The options of a command that calls the planner; no file is read yet. A field is the option of that name, as
    `--help` describes it. `files` : the arguments; `max_input_bytes` : of one file, decompressed.
    """

    files: tuple[Path, ...] = ()
    planner: str | None = None
    settings: Path | None = None
    state: Path | None = None
    now: str | None = None
    output: Format = Format.TABLE
    group_by: str | None = None
    verbose: bool = False
    max_input_bytes: int = MAX_INPUT_BYTES
    prices: tuple[str | Path, ...] = ()
    contexts: tuple[str, ...] = ()
    kubeconfig: Path | None = None
    named: tuple[str, ...] = ()
    title: str = ""
    usage: str | None = None
    usage_margin: float = 100 * DEFAULT_MARGIN
    offers: Path | None = None
    set_values: tuple[str, ...] = ()

    def usage_of(self, view: ClusterView) -> ClusterUsage | None:
        """Read `--usage` for a cluster; None = not given. Errors: UsageError, FailedError."""
        return read_usage(self.usage, view, self.usage_margin / 100) if self.usage is not None else None

    @cached_property
    def clusters(self) -> list[ClusterInput]:
        """The clusters that files and options name. Errors: UsageError."""
        return ClusterChoice(self.files, self.contexts, self.kubeconfig, self.named).clusters()

    def each(self) -> list["CommandOptions"]:
        """Return these options for each cluster alone. Errors: UsageError."""
        return [self._of(cluster) for cluster in self.clusters]

    def _of(self, cluster: ClusterInput) -> "CommandOptions":
        """Return these options for one cluster."""
        if cluster.is_live:
            return replace(self, files=cluster.files, contexts=(cluster.context,), named=())
        if self.named:
            return replace(
                self,
                files=(),
                contexts=(),
                kubeconfig=None,
                named=tuple(f"{cluster.name}={file}" for file in cluster.files),
            )
        return replace(self, contexts=(), kubeconfig=None)

    def read(
        self, numbers: Iterable[str] = (), *, with_notes: bool = True, needs_nodes: bool = False
    ) -> snapshot_pb2.ClusterSnapshot:
        """Read the one cluster, from files or live. Errors: UsageError, also for several; FailedError."""
        return self.read_built(numbers, with_notes=with_notes, needs_nodes=needs_nodes).snapshot

    def read_built(
        self, numbers: Iterable[str] = (), *, with_notes: bool = True, needs_nodes: bool = False
    ) -> BuiltSnapshot:
        """Read the same, with what its NodePools ask of plans."""
        offers = self.offers_of_file.offers if self.offers_of_file is not None else None
        clusters = self.clusters
        if len(clusters) > 1:
            names = ", ".join(cluster.name for cluster in clusters)
            raise UsageError(f"several clusters are given ({names}); this command takes one")
        if clusters and clusters[0].is_live:
            from trimtab.clients.cli.live.sources import read_live

            return read_live(clusters[0], numbers, with_notes=with_notes, offers=offers)
        files, most = clusters[0].files if clusters else (), self.max_input_bytes
        return read_snapshot(files, most, numbers, with_notes=with_notes, needs_nodes=needs_nodes, offers=offers)

    def cluster(self, request: plan_pb2.PlanRequest, *, with_notes: bool = True) -> snapshot_pb2.ClusterSnapshot:
        """Read the cluster; one without node groups gets groups by label. Check that the request is for it.

        with_notes : write what the reader of the files remarks
        """
        numbers = annotations_read(request.settings)

        def read() -> BuiltSnapshot:
            built = self.read_built(numbers, with_notes=with_notes)
            add_pool_settings(request, built.settings)
            return built

        return self.completed(read, request)

    def completed(
        self, read: Callable[[], BuiltSnapshot], request: plan_pb2.PlanRequest
    ) -> snapshot_pb2.ClusterSnapshot:
        """Return the cluster that `read` returns with the groups and prices of the options; check the request, and take
        settings of unknown node groups out of it.
        """
        labels = read_labels(self.group_by)
        prices = self.prices_of_file
        built = read()
        snapshot = built.snapshot
        try:
            group_by_labels(snapshot, labels, has_pools=has_pools(built.settings))
            if prices is not None:
                apply_prices(snapshot, prices)
            leave_out_groups(snapshot, request.settings)
            orphaned = ClusterView(snapshot).orphaned_pods()
        except (IndexError, ValueError) as error:
            raise UsageError(f"the recorded cluster is damaged: {error}; record again") from error
        if orphaned:
            note(orphaned_note(orphaned))
        check_state(self.state, request.state, snapshot)
        for name, text in settings_notes(request.settings, snapshot).items():
            note(text)
            # Without effect, and already reported: the planner would say it again.
            del request.settings.node_groups[name]
        return snapshot

    @cached_property
    def offers_of_file(self) -> OfferFile | None:
        """The offerings of `--offers`, read once; None = not given. Errors: UsageError."""
        return read_offers(self.offers) if self.offers is not None else None

    @cached_property
    def prices_of_file(self) -> Prices | None:
        """The prices of `--prices`, read once; None = not given. Errors: UsageError."""
        return given_prices(self.prices)

    def ask(self, decisions: Iterable[plan_pb2.Decision.Code.ValueType] = ()) -> "AskedCluster":
        """Read the cluster and what is asked about it. decisions : none = those that the input asks for."""
        request = self.request()
        request.decisions.extend(decisions)
        return self.asked(self.cluster(request), request)

    def asked(self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest) -> "AskedCluster":
        """Return what is asked about a cluster, with the decisions that the input asks for if there are none."""
        if not request.decisions:
            request.decisions.extend(default_decisions(request.settings, snapshot))
        view = ClusterView(snapshot)
        return AskedCluster(self, view, request, self.usage_of(view))

    def request(self) -> plan_pb2.PlanRequest:
        """Read everything but the cluster: its errors are then reported before a large file is read."""
        request = plan_pb2.PlanRequest(settings=read_settings(self.settings, self.set_values), now=self.moment())
        state = read_state(self.state)
        if state is not None:
            request.state.CopyFrom(state)
        return request

    def moment(self) -> Timestamp:
        """Read `--now`."""
        return read_now(self.now)


def add_pool_settings(request: plan_pb2.PlanRequest, pools: plan_pb2.PlanSettings | None) -> None:
    """Complete the settings of a request by what NodePools ask, in place."""
    if pools is not None:
        request.settings.CopyFrom(with_pool_settings(request.settings, pools))


def leave_out_groups(snapshot: snapshot_pb2.ClusterSnapshot, settings: plan_pb2.PlanSettings) -> None:
    """Leave node groups that no plan by price needs out of a snapshot with very many, in place, and say so."""
    if len(snapshot.node_groups) <= MOST_GROUPS:
        return
    count = leave_out_dominated(snapshot, settings)
    if count:
        note(
            f"{count:,} node groups are left out: for each there is another that no pod can tell apart from it, costs "
            f"no more and offers at least as much; {len(snapshot.node_groups):,} remain"
        )


def orphaned_note(pods: Sequence[tuple[str, str]]) -> str:
    """Return the note about pods that are bound to nodes which are not in the input. pods : with their nodes."""
    what = "1 pod is bound to a node that is" if len(pods) == 1 else f"{len(pods)} pods are bound to nodes that are"
    example = "{} on {}".format(*pods[0])
    return f"{what} not in the input ({example}) and left out; give all nodes, or leave such pods out"


class AskedCluster(NamedTuple):
    """A cluster that has been read, and what is asked about it. usage : what its pods use, None = not known."""

    options: CommandOptions
    view: ClusterView
    request: plan_pb2.PlanRequest
    usage: ClusterUsage | None

    def plan(self, planner: PlannerClient, advice: AdviceOptions | None = None) -> PlanAnswer:
        """Return a planner's answer. advice : how to look for what to change, None = not at all."""
        answer = self.answer(planner.plan(self.view.snapshot, self.request))
        return answer if advice is None else self.advised(planner, answer, advice)

    def answer(self, response: plan_pb2.PlanResponse) -> PlanAnswer:
        """Return a response as the answer to what is asked."""
        given, now_ns = self.options, self.request.now.ToNanoseconds()
        return PlanAnswer(
            response, self.view, self.request.settings, now_ns, given.verbose, given.prices_of_file, self.usage
        )

    def advised(self, planner: PlannerClient, answer: PlanAnswer, advice: AdviceOptions) -> PlanAnswer:
        """Return an answer that the planner has just made with what to change."""
        report = find_advice(planner, self.view, self.request, answer.response, advice)
        return replace(answer, advice=report)


def plan(
    options: CommandOptions,
    decisions: Sequence[plan_pb2.Decision.Code.ValueType],
    export: str | None = None,
    *,
    with_advice: bool = False,
) -> None:
    """Request a plan; print it, or the objects that keep its slack. decisions : none = as the input requests;
    export : a form of `exported`; with_advice : also what to change so that more nodes could go.
    """
    asked = options.ask(decisions)
    if export is not None and plan_pb2.Decision.SLACK not in asked.request.decisions:
        asked.request.decisions.append(plan_pb2.Decision.SLACK)
    advice = None
    if with_advice and export is None:
        advice = advice_options(asked.usage, is_brief=not options.verbose and options.output is Format.TABLE)
    with open_planner(options.planner, options.settings) as planner:
        answer = asked.plan(planner, advice)
    if export is not None:
        for problem in answer.response.slack.problems:
            note(problem)
        print_document(exported(answer.response.slack, export), Format.YAML)
    elif options.output is not Format.TABLE:
        print_document(plan_document(answer), options.output)
    else:
        from trimtab.clients.cli.answers.page import print_answer

        print_answer(stdout_console(), answer)


def plan_document(answer: PlanAnswer) -> dict[str, Any]:
    """Return an answer for programs. Times of stages are left out: the same input gives the same bytes."""
    document = as_document(answer.response)
    document["diagnostics"]["stages"] = []
    return document if answer.advice is None else document | {"advice": answer.advice.document()}
