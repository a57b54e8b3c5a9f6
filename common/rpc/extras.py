"""Optional dependencies: which extra provides which packages, and the error when one is missing.

Decides only whether packages can be imported; imports none of them.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final

_SERVICE: Final = (
    "typer",
    "rich",
    "pydantic",
    "opentelemetry.sdk",
    "opentelemetry.exporter.prometheus",
    "grpc_reflection",
)
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "planner": ("numba", "cronsim", *_SERVICE),
        "actuator": ("sqlalchemy", *_SERVICE),
        "cli": _SERVICE,
        "kubernetes": ("kubernetes", "urllib3"),
        "report": ("jinja2",),
        "top": ("textual",),
        "postgresql": ("psycopg",),
        "aws": ("boto3",),
        "certificates": ("cryptography",),
        "dask": ("distributed",),
        "otlp": ("opentelemetry.exporter.otlp", "opentelemetry.instrumentation.grpc"),
    }
)
"""The packages that each extra of `pyproject.toml` provides."""


class MissingExtraError(Exception):
    """An extra is not installed; the message names what needs it and how to install it."""


def require_extra(extra: str, user: str) -> None:
    """Check that the packages of an extra are installed; `user` is what needs them. Raises MissingExtraError."""
    if not all(_is_installed(package) for package in EXTRAS[extra]):
        raise MissingExtraError(f"{user} needs the extra {extra}: pip install 'trimtab[{extra}]'")


def extra_of(module: str) -> str | None:
    """Return the smallest extra that provides a module; None = none does."""
    providers = [
        extra
        for extra, packages in EXTRAS.items()
        if any(module == package or module.startswith(f"{package}.") for package in packages)
    ]
    return min(providers, key=lambda extra: len(EXTRAS[extra]), default=None)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of a parent package
        return False
