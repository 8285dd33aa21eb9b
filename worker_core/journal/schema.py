"""Tables of the journal, and how an older file becomes a present one."""

from worker_core.journal.driver import Connection

# One entry per version; PRAGMA user_version counts those that were applied.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE attempt (
        attempt_id TEXT PRIMARY KEY,
        job_id TEXT NOT NULL,
        job_name TEXT NOT NULL,
        kind TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        offer_jws TEXT NOT NULL,
        accepted BLOB NOT NULL,
        phase TEXT NOT NULL,
        created REAL NOT NULL,
        pid INTEGER,
        pid_started REAL,
        server_next_seq INTEGER NOT NULL DEFAULT 0,
        series_seq INTEGER NOT NULL DEFAULT 0,
        uncertain_from INTEGER,
        checkpoint BLOB,
        done BLOB,
        ended BLOB,
        forgotten INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE event (
        attempt_id TEXT NOT NULL REFERENCES attempt ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (attempt_id, seq)
    ) WITHOUT ROWID;
    CREATE TABLE upload (
        attempt_id TEXT NOT NULL REFERENCES attempt ON DELETE CASCADE,
        sha256 TEXT NOT NULL,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        size INTEGER NOT NULL,
        step INTEGER,
        state TEXT NOT NULL,
        reason TEXT NOT NULL DEFAULT '',
        artifact_id TEXT,
        upload_id TEXT,
        PRIMARY KEY (attempt_id, kind, name, sha256)
    );
    CREATE TABLE ending (
        attempt_id TEXT PRIMARY KEY REFERENCES attempt ON DELETE CASCADE,
        completion BLOB,
        released BLOB
    );
    CREATE TABLE series (
        attempt_id TEXT NOT NULL REFERENCES attempt ON DELETE CASCADE,
        name TEXT NOT NULL,
        buckets BLOB NOT NULL,
        PRIMARY KEY (attempt_id, name)
    );
    CREATE TABLE fact (name TEXT PRIMARY KEY, text TEXT NOT NULL);
    """,
    """
    ALTER TABLE event ADD COLUMN span INTEGER NOT NULL DEFAULT 1;
    CREATE TABLE set_aside (
        number INTEGER PRIMARY KEY,
        attempt_id TEXT NOT NULL,
        what TEXT NOT NULL,
        reason TEXT NOT NULL,
        at REAL NOT NULL
    );
    """,
)


class NewerJournal(Exception):
    """The file was written by a newer version of Stoker."""


def migrate(connection: Connection) -> None:
    """Bring the tables to the present version; raises :class:`NewerJournal`."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise NewerJournal(f"it has version {version}, this Stoker knows {len(MIGRATIONS)}; install the newer Stoker")
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {number}; COMMIT;")
