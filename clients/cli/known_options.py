"""What an option means that a command does not have: a flag of the Cluster Autoscaler, a field of Karpenter, or a
setting, all of which the contract names. Only completes the message of an unknown option.
"""

from typing import Any

from trimtab.clients.cli.failures import UsageError
from trimtab.setting_options import plain_name, settings_by_name


def explain_option(error: Any) -> None:
    """Raise a better error than one about an unknown option, if its name is known. Errors: UsageError."""
    name = str(error.option_name).partition("=")[0]
    path = settings_by_name().get(plain_name(name))
    if path is None:
        return
    takes = error.ctx is not None and any("--set" in one.opts for one in error.ctx.command.params)
    how = f"give --set {path}=VALUE, or a file of --settings" if takes else "it belongs in settings (--settings, --set)"
    raise UsageError(f"{name} is the setting {path} here: {how}") from None
