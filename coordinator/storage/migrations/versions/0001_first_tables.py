"""First tables."""

import importlib.util

from alembic import op

from coordinator.storage.schema import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    if importlib.util.find_spec("coordinator.storage.schema_queue"):
        importlib.import_module("coordinator.storage.schema_queue")
    metadata.create_all(op.get_bind())
