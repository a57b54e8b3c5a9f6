"""How the commands connect to planner and actuator: the options before the command's name. They apply to every
connection of the process, because they go into its environment, where `clients.transport.client.connect` finds them.
Unusable files are reported before anything else is done.
"""

import os
from pathlib import Path

from clients.cli.failures import InputError


def use(
    tls_ca: Path | None, tls_cert: Path | None, tls_key: Path | None, tls_server_name: str, token_file: Path | None
) -> None:
    """Use the options for all connections from now on. Errors: InputError."""
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
    """Connect in plain text from now on, whatever the environment: for our own services on loopback."""
    from clients.transport.channel_security import VARIABLES

    for name in VARIABLES:
        os.environ.pop(name, None)
