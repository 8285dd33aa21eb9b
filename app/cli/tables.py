"""Tables that keep what a person needs to go on: in a narrow terminal whole columns go, never a part of an id."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from app.cli.terminal import Terminal

_GAP = 2

Cell = str | Text


@dataclass(frozen=True)
class Column:
    """A column: the one with the highest ``leaves`` goes first, one with 0 stays; ``folds`` may break its lines."""

    title: str
    leaves: int = 0
    folds: int | None = None
    """The narrowest it may be folded to; None keeps each cell on one line."""


def print_table(terminal: Terminal, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    """Print rows under the columns for which the terminal has room."""
    kept = _that_fit(columns, rows, terminal.words.width)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for index in kept:
        column = columns[index]
        table.add_column(column.title, no_wrap=column.folds is None, overflow="fold")
    for row in rows:
        cells = [row[index] for index in kept]
        table.add_row(*[cell if isinstance(cell, Text) else Text(cell) for cell in cells])
    terminal.words.print(table)


def _that_fit(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> list[int]:
    needed = [_needed(column, [row[index] for row in rows]) for index, column in enumerate(columns)]
    kept = list(range(len(columns)))
    while sum(needed[index] + _GAP for index in kept) - _GAP > width:
        last = max(kept, key=lambda index: columns[index].leaves)
        if columns[last].leaves == 0:
            break
        kept.remove(last)
    return kept


def _needed(column: Column, cells: Sequence[Cell]) -> int:
    widest = max([cell_len(column.title), *[_width(cell) for cell in cells]])
    return widest if column.folds is None else min(widest, column.folds)


def _width(cell: Cell) -> int:
    return cell.cell_len if isinstance(cell, Text) else cell_len(cell)
