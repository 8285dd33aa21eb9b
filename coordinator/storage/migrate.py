"""Bring a database's tables up to date when it is opened (Alembic, run from the program)."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

_SCRIPTS = Path(__file__).parent / "migrations"


def migrate(connection: Connection) -> None:
    """Apply every migration that is missing, in one transaction."""
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    with connection.begin():
        command.upgrade(config, "head")
