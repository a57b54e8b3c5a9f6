"""`-o` of `trimtab plan`: the answer, or the objects that keep its slack."""

from enum import StrEnum

from trimtab.clients.cli.output import Format


class Export(StrEnum):
    """Objects that keep the slack of an answer."""

    CAPACITY_BUFFERS = "capacity-buffers"
    PAUSE_PODS = "pause-pods"


class PlanFormat(StrEnum):
    """The values of `-o`: those of all commands, plus the exports."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CAPACITY_BUFFERS = "capacity-buffers"
    PAUSE_PODS = "pause-pods"

    @property
    def form(self) -> Format:
        """How the answer is printed; exports are YAML."""
        return Format(self.value) if self.value in {one.value for one in Format} else Format.YAML

    @property
    def export(self) -> Export | None:
        """The export, None = the answer is printed."""
        return Export(self.value) if self.value in {one.value for one in Export} else None
