"""Migrations lead to the tables that the code works with."""

import re
from pathlib import Path

from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine

from coordinator.storage import migrate, schema_queue
from coordinator.storage.database import Database

SCRIPTS = Path(migrate.__file__).parent / "migrations"


def tables(conn: Connection) -> dict[str, list[str]]:
    """Return every table and index as the lines of its definition, in no order."""
    rows = conn.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").all()
    ours = {name: text for name, text in rows if not name.startswith(("alembic", "sqlite"))}
    return {name: sorted(part.strip() for part in re.split(r"[,\n]", text)) for name, text in ours.items()}


def test_the_newest_migration_is_the_one_named_in_the_code():
    assert ScriptDirectory(str(SCRIPTS)).get_heads() == [migrate.HEAD]


def test_a_new_database_has_exactly_the_tables_of_the_code(tmp_path):
    engine = create_engine("sqlite://")
    schema_queue.metadata.create_all(engine)
    with engine.connect() as conn:
        wanted = tables(conn)
    engine.dispose()
    database = Database.open(tmp_path / "test.db")
    assert database.read_sync(tables) == wanted
    database.close()


def test_opening_it_again_changes_nothing(tmp_path):
    Database.open(tmp_path / "test.db").close()
    database = Database.open(tmp_path / "test.db")
    read = database.read_sync(lambda conn: conn.exec_driver_sql("SELECT version_num FROM alembic_version").scalar())
    database.close()
    assert read == migrate.HEAD
