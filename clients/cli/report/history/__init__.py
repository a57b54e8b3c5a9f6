"""The history of a cluster from its recorded rounds, in the form of a simulation's result, for the same page."""

from trimtab.clients.cli.report.history.reading import RecordedHistory, last_cluster, read_history

__all__ = ["RecordedHistory", "last_cluster", "read_history"]
