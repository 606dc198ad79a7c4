-- What is registered beside runs. The writer holds all of it in memory; these rows are read at start.

CREATE TABLE workflow (
    key TEXT PRIMARY KEY,
    active INTEGER,
    settings BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE pattern (
    id BLOB PRIMARY KEY,
    workflow TEXT NOT NULL,
    revision INTEGER NOT NULL,
    digest BLOB NOT NULL,
    manifest TEXT NOT NULL,
    title TEXT,
    registered_at INTEGER NOT NULL,
    UNIQUE (workflow, revision),
    UNIQUE (workflow, digest)
) WITHOUT ROWID;

-- The whole spec is the blob of `spec`.
CREATE TABLE tool (
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    digest BLOB NOT NULL,
    spec BLOB NOT NULL,
    grant_digest BLOB NOT NULL,
    registered_at INTEGER NOT NULL,
    withdrawn_at INTEGER,
    withdrawn_by TEXT,
    withdrawn_reason TEXT,
    configured INTEGER NOT NULL,
    PRIMARY KEY (name, version)
) WITHOUT ROWID;

-- Every policy that was in force; the last one is.
CREATE TABLE policy (
    n INTEGER PRIMARY KEY,
    version BLOB NOT NULL,
    document TEXT NOT NULL,
    since INTEGER NOT NULL
);

CREATE TABLE principal (
    id TEXT PRIMARY KEY,
    document TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE token (
    id BLOB PRIMARY KEY,
    secret BLOB NOT NULL UNIQUE,
    principal TEXT NOT NULL,
    rights TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) WITHOUT ROWID;

-- Scope: 0 a workflow, 1 a queue. In force while `until` is absent; a cleared one is kept for the clocks of runs that
-- waited meanwhile (R-373).
CREATE TABLE pause (
    scope INTEGER NOT NULL,
    name TEXT NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER,
    by TEXT NOT NULL,
    reason TEXT,
    PRIMARY KEY (scope, name, since)
) WITHOUT ROWID;
-- One is in force.
CREATE UNIQUE INDEX pause_now ON pause (scope, name) WHERE until IS NULL;

CREATE TABLE revoked_grant (
    digest BLOB PRIMARY KEY
) WITHOUT ROWID;
