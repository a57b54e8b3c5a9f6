"""`trimtab advise FILE…`: make a plan, then say what to change so that more nodes could go."""

from trimtab.clients.advice.result import MOST_PLANS
from trimtab.clients.cli.advice import advice_options, find_advice
from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.answers.advice import render
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.scale_down import headline
from trimtab.clients.cli.decisions import default_decisions
from trimtab.clients.cli.output import Format, note, print_document, stdout_console
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cluster_view import ClusterView

MOST_ADVICE = 10
"""Lines of advice without `--verbose`."""


def advise(options: CommandOptions, most_plans: int = MOST_PLANS) -> None:
    """Print the advice on a plan over the cluster."""
    request = options.request()
    snapshot = options.cluster(request)
    request.decisions.extend(default_decisions(request.settings, snapshot))
    view = ClusterView(snapshot)
    usage = options.usage_of(view)
    with open_planner(options.planner, options.settings) as planner:
        answer = planner.plan(snapshot, request)
        report = find_advice(planner, view, request, answer, advice_options(most_plans, usage))
    for text in answer.summary.notes:
        note(text)
    if options.output is not Format.TABLE:
        print_document(report.document(), options.output)
        return
    shown = PlanAnswer(
        answer, view, request.settings, request.now.ToNanoseconds(), options.verbose, options.prices_of_file
    )
    console = stdout_console()
    console.print(f"[bold]{headline(shown)}[/bold]", "", sep="\n")
    most = len(report.advice) if options.verbose else MOST_ADVICE
    for part in render(report, most, every_line=options.verbose):
        console.print(part)
    left = f", {counted(report.left_out_count, 'blocker')} not tried: --most-plans" if report.left_out_count else ""
    tried = f"{counted(report.plan_count, 'what-if plan')} tried{left}"
    console.print(f"\n[dim]Each line shows what that change alone would free on top of this plan ({tried}).[/dim]")
