"""The linear programme over fills of nodes, solved with lists as in a textbook: revised simplex, dense inverse."""

from dataclasses import dataclass, field

SMALL = 1e-9


@dataclass
class Programme:
    """Rows: classes first, then limits. A fill is its group with its entries by row."""

    classes: int
    bound: list[float]
    missing: float
    pods_that_fit: tuple[int, int]
    fills: list[tuple[int, dict[int, float]]] = field(default_factory=list)
    fill_cost: list[float] = field(default_factory=list)
    basis: list[int] = field(default_factory=list)
    inverse: list[list[float]] = field(default_factory=list)
    level: list[float] = field(default_factory=list)
    dual: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dual = [0.0] * len(self.bound)
        self.reset_basis()

    def reset_basis(self) -> None:
        """Start with only the shortage and slack columns of the rows."""
        rows = len(self.bound)
        self.basis = list(range(rows))
        self.level = [bound + 1e-3 / 65536 * (row * 40503 % 65536) for row, bound in enumerate(self.bound)]
        self.inverse = [[1.0 if row == at else 0.0 for at in range(rows)] for row in range(rows)]

    def first_fill(self) -> int:
        """Return the column of the first fill."""
        return len(self.bound) + self.classes

    def cost(self, column: int) -> float:
        """Return the cost of a column."""
        if column < self.classes:
            return self.missing
        return self.fill_cost[column - self.first_fill()] if column >= self.first_fill() else 0.0

    def column_product(self, of_row: list[float], column: int) -> float:
        """Return a row vector times a column."""
        if column < len(self.bound):
            return of_row[column]
        if column < self.first_fill():
            return -of_row[column - len(self.bound)]
        total = 0.0
        for row, entry in self.fills[column - self.first_fill()][1].items():
            total += of_row[row] * entry
        return total

    def add(self, group: int, cost: float, entries: dict[int, float]) -> bool:
        """Add a fill if there is room."""
        used = sum(len(its) for _, its in self.fills)
        if len(self.fills) + 1 >= self.pods_that_fit[0] or used + self.classes >= self.pods_that_fit[1]:
            return False
        self.fills.append((group, entries))
        self.fill_cost.append(cost)
        return True

    def improve(self, most: int) -> int:
        """Take steps that lower the cost, at most `most`."""
        self.dual = [0.0] * len(self.bound)
        for row, column in enumerate(self.basis):
            if self.cost(column) != 0.0:
                self.dual = [
                    dual + self.cost(column) * its for dual, its in zip(self.dual, self.inverse[row], strict=True)
                ]
        for batches in range(most):
            reduced = {
                column: self.cost(column) - self.column_product(self.dual, column)
                for column in range(self.classes, self.first_fill() + len(self.fills))
                if column not in self.basis
            }
            entering = min(reduced, key=lambda column: (reduced[column], column), default=-1)
            if entering < 0 or reduced[entering] >= -SMALL * 1e3:
                return batches
            step = [self.column_product(row, entering) for row in self.inverse]
            ratio = {
                row: (max(self.level[row], 0.0) / by, self.basis[row]) for row, by in enumerate(step) if by > SMALL
            }
            if not ratio:
                return batches
            self._pivot(min(ratio, key=lambda row: ratio[row]), entering, step, reduced[entering])
        return most

    def _pivot(self, leaving: int, entering: int, step: list[float], reduced: float) -> None:
        by = 1.0 / step[leaving]
        its = self.inverse[leaving] = [one * by for one in self.inverse[leaving]]
        self.level[leaving] *= by
        for row, factor in enumerate(step):
            if row != leaving and factor != 0.0:
                self.inverse[row] = [one - factor * other for one, other in zip(self.inverse[row], its, strict=True)]
                self.level[row] -= factor * self.level[leaving]
        self.dual = [dual + reduced * one for dual, one in zip(self.dual, its, strict=True)]
        self.basis[leaving] = entering
