"""Errors of simulations that a user can correct."""

from trimtab.clients.kubernetes.object_errors import InputError


class ScenarioError(InputError):
    """A scenario, trace or result that cannot be used; the message names file, line and field."""
