"""Bring a database's tables up to date when it is opened (Alembic, run from the program)."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

HEAD = "0001"
"""The newest migration. A database that has it needs no Alembic, whose import takes longer than the look."""

_SCRIPTS = Path(__file__).parent / "migrations"


def migrate(connection: Connection) -> None:
    """Apply every migration that is missing, in one transaction."""
    with connection.begin():
        if _revision(connection) != HEAD:
            _upgrade(connection)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
