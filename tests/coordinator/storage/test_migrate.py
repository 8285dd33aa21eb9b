"""Migrations lead to the tables that the code works with."""

from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import coordinator.storage.schema_queue
from coordinator.storage import migrate
from coordinator.storage.database import Database
from coordinator.storage.schema import metadata

SCRIPTS = Path(migrate.__file__).parent / "migrations"


def test_the_newest_migration_is_the_one_named_in_the_code():
    assert ScriptDirectory(str(SCRIPTS)).get_heads() == [migrate.HEAD]


def test_a_new_database_has_exactly_the_tables_of_the_code(tmp_path):
    database = Database.open(tmp_path / "test.db")
    assert coordinator.storage.schema_queue.metadata is metadata
    differences = database.read_sync(lambda conn: compare_metadata(MigrationContext.configure(conn), metadata))
    database.close()
    assert differences == []


def test_opening_it_again_changes_nothing(tmp_path):
    Database.open(tmp_path / "test.db").close()
    database = Database.open(tmp_path / "test.db")
    assert database.read_sync(lambda conn: conn.exec_driver_sql("SELECT version_num FROM alembic_version").scalar())
    database.close()
