"""What the parts of accounts stand on: one database, one clock, one signing key, and the work side."""

from dataclasses import dataclass

from coordinator.accounts.keys import CoordinatorKeys
from coordinator.accounts.work_side import WorkSide
from coordinator.clock import Clock
from coordinator.settings import Settings
from coordinator.storage.database import Database


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The same for pairings, connections and workers of one coordinator."""

    db: Database
    clock: Clock
    settings: Settings
    keys: CoordinatorKeys
    generation: int
    work: WorkSide
