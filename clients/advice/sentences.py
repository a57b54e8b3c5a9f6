"""Advice in words."""

from trimtab.clients.advice.changes import Change
from trimtab.clients.advice.result import Advice


def sentence(advice: Advice) -> str:
    """Return the advice in one sentence: the change, and how many more nodes could go."""
    month = advice.saving_per_month
    money = f" ({month:,.0f} a month)" if month is not None else ""
    nodes = "1 more node" if advice.node_count == 1 else f"{advice.node_count:,} more nodes"
    return f"If {advice.condition}, {nodes}{money} could go."


def line(change: Change) -> str:
    """Return one line to change: a settings key with its value, a command, or a field of an object."""
    if not change.object:
        return f"set {change.field}: {_value(change.after)} in the settings (now {_value(change.before)})"
    if change.command.startswith("kubectl edit"):
        return f"{change.command}  # {change.field}: {_value(change.after)}"
    if change.command:
        return change.command
    return f"set {change.field}: {_value(change.after)} of {change.object} (now {_value(change.before)})"


def lines(advice: Advice) -> list[str]:
    """Return the lines to change; a field that a command already changes is not listed again."""
    commanded = {change.object for change in advice.changes if change.command}
    return [line(one) for one in advice.changes if one.command or one.object not in commanded]


def _value(value: object) -> str:
    if value is None:
        return "none"
    return f"{value}".lower() if isinstance(value, bool) else f"{value}"
