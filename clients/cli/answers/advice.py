"""Advice as a block: what to change, with what it frees and the lines to set or run."""

from typing import Final

from trimtab.clients.advice.result import Advice, AdviceReport
from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.blocks import ChangeLine, ChangeList

TITLE: Final = "What to change"
MOST_CHANGES: Final = 3
"""Changes beside a plan on a terminal."""


def changes_of(answer: PlanAnswer, most: int = MOST_CHANGES) -> ChangeList:
    """Return the advice of an answer: several changes together first, then single ones."""
    report = answer.advice or AdviceReport((), ())
    together = [change(report.together, answer.costs.currency, "together")] if report.together else []
    single = [change(one, answer.costs.currency) for one in report.advice]
    return ChangeList(TITLE, _note(answer, report), (*together, *single), most + len(together))


def _note(answer: PlanAnswer, report: AdviceReport) -> str:
    """Return how the advice was found, and what it assumes."""
    tried = counted(report.plan_count, "what-if plan")
    note = f"Each line shows what that change alone would free on top of this plan ({tried} tried)."
    if answer.usage is not None:
        note += f" Lower requests are the use ({answer.usage.source}) and {100 * answer.usage.margin:g} %."
    if report.left_out_count:
        note += f" {counted(report.left_out_count, 'blocker')} not tried: `trimtab advise` tries more."
    return note


def change(advice: Advice, currency: str, label: str = "") -> ChangeLine:
    """Return an advice as a change. label : such as the cluster."""
    month = advice.saving_per_month
    return ChangeLine(
        f"{advice.node_count:+,}",
        f"{month:,.0f}" if month is not None else "",
        advice.condition,
        advice.sentence_in(currency),
        ", ".join(map(_step_text, advice.steps)),
        tuple(advice.lines),
        label,
    )


def _step_text(advice: Advice) -> str:
    """Return what another value of a line frees: nodes, or money where no more nodes go."""
    month = advice.saving_per_month
    freed = f"{month:,.0f} a month" if month is not None and advice.node_count <= 0 else f"{advice.node_count:+,}"
    return f"{advice.changes[0].after}: {freed}"
