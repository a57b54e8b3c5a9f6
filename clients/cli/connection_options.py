"""How the commands reach planner and actuator: the options before the command's name.

Decides that the options hold for every connection of the process: they go into its environment, where
`clients.transport.client.connect` finds them. Files that cannot be used are reported before anything is begun.
"""

import os
from pathlib import Path

from clients.cli.failures import InputError


def use(
    tls_ca: Path | None, tls_cert: Path | None, tls_key: Path | None, tls_server_name: str, token_file: Path | None
) -> None:
    """Take the options for all connections from here on. Errors: InputError."""
    given = {
        "TRIMTAB_TLS_CA": tls_ca,
        "TRIMTAB_TLS_CERT": tls_cert,
        "TRIMTAB_TLS_KEY": tls_key,
        "TRIMTAB_TLS_SERVER_NAME": tls_server_name,
        "TRIMTAB_TOKEN_FILE": token_file,
    }
    variables = {name: str(value) for name, value in given.items() if value}
    if not variables:
        return
    from clients.transport.channel_security import ChannelSecurity

    security = ChannelSecurity.from_environment(variables)
    try:
        security.check()
        security.files.read()
        if token_file is not None:
            token_file.read_text()
    except (ValueError, OSError) as error:
        raise InputError(str(error)) from error
    os.environ.update(variables)


def forget() -> None:
    """Connect in plain text from here on, whatever the environment says: for services of our own on loopback."""
    from clients.transport.channel_security import VARIABLES

    for name in VARIABLES:
        os.environ.pop(name, None)
