"""Errors of simulations that a user can correct."""

from trimtab.clients.kubernetes.object_errors import InvalidInputError


class ScenarioError(InvalidInputError):
    """A scenario, trace or result that cannot be used; the message names file, line and field."""
