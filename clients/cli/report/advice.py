"""The section of a page that says what to change, in one cluster or in several. It shows advice that others found."""

from collections.abc import Iterator, Sequence
from typing import Final

from trimtab.clients.advice import Advice, AdviceReport
from trimtab.clients.cli.advise_several import ClusterAdvice
from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.answers.advice import step_text
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.report.page import AdviceLine, AdviceSection

TITLE: Final = "What to change"
MOST_LINES: Final = 30
"""Lines of one change, and changes of one page; `trimtab advise -v` has all."""


def advice_section(answer: PlanAnswer) -> AdviceSection | None:
    """Return the advice of an answer; None = it has none that frees anything."""
    report = answer.advice
    if report is None or not (report.advice or report.together):
        return None
    return AdviceSection(TITLE, _note(answer, report), tuple(_lines(report)))


def _note(answer: PlanAnswer, report: AdviceReport) -> str:
    """Return how the advice was found, and what it assumes."""
    tried = counted(report.plan_count, "what-if plan")
    note = f"Each line shows what that change alone would free on top of this plan ({tried} tried)."
    if answer.usage is not None:
        note += f" Lower requests are the use ({answer.usage.source}) and {100 * answer.usage.margin:g} %."
    if report.left_out_count:
        note += f" {counted(report.left_out_count, 'blocker')} not tried: `trimtab advise` tries more."
    return note


def _lines(report: AdviceReport) -> Iterator[AdviceLine]:
    """Yield what several changes free together, then the single ones."""
    if report.together is not None:
        yield _line(report.together, "Together:")
    for one in report.advice[:MOST_LINES]:
        yield _line(one)


def _line(advice: Advice, label: str = "") -> AdviceLine:
    found = advice.lines
    lines = tuple(found[:MOST_LINES])
    if len(found) > MOST_LINES:
        lines += (f"… and {len(found) - MOST_LINES:,} more: trimtab advise -v",)
    return AdviceLine(advice.sentence, lines, label, ", ".join(map(step_text, advice.steps)))


def clusters_advice(found: Sequence[ClusterAdvice]) -> AdviceSection | None:
    """Return the advice on several clusters, the most valuable first; None = there is none."""
    if not found:
        return None
    note = "Each line shows what that change alone would free on top of the cluster's plan."
    return AdviceSection(TITLE, note, tuple(_line(one.advice, f"{one.cluster}:") for one in found[:MOST_LINES]))
