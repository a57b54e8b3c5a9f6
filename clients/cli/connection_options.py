"""How the commands connect to planner and actuator: the options before the command's name. They apply to every
connection of the process, because they go into its environment, where `trimtab.common.rpc.client.connect` finds
them. Unusable files are reported before anything else is done.
"""

import os
from pathlib import Path

from trimtab.clients.cli.failures import UsageError


def use(
    tls_ca: Path | None, tls_cert: Path | None, tls_key: Path | None, tls_server_name: str, token_file: Path | None
) -> None:
    """Use the options for all connections from now on. Errors: UsageError."""
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
    from trimtab.common.rpc.channel_security import ChannelSecurity

    for option, file in (("ca", tls_ca), ("cert", tls_cert), ("key", tls_key)):
        _check_readable(f"--tls-{option}", file)
    _check_readable("--token-file", token_file)
    security = ChannelSecurity.from_environment(variables)
    try:
        security.check()
        security.files.read()
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from error
    os.environ.update(variables)


def _check_readable(option: str, file: Path | None) -> None:
    """Check that the file of an option can be read as text. Errors: UsageError."""
    try:
        if file is not None:
            file.read_text()
    except UnicodeDecodeError:
        raise UsageError(f"{option} {file}: this is not text; give a file in PEM format") from None
    except OSError as error:
        raise UsageError(f"{option} {file}: cannot be read: {error.strerror}; check the path") from None


def forget() -> None:
    """Connect in plain text from now on, whatever the environment: for our own services on loopback."""
    from trimtab.common.rpc.channel_security import VARIABLES

    for name in VARIABLES:
        os.environ.pop(name, None)
