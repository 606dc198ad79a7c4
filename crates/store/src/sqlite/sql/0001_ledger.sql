-- The ledger of one cell.
--
-- Every table but the first counts its rows by small integers that grow in order of commit; ids of 16 bytes name rows to
-- the outside. What a run pins and never changes stands once, in `pin`, `requester`, `tool_ref`, `rule` and `word`.
-- Every index that a scan uses covers live rows only, so what is parked or over costs nothing.
-- A column stands alone where a query, a guard or an index looks at it. What nothing looks into is one value in the store's
-- binary form, which opens with a version: `settings`, `admitted`, `state`, `document`, `pack`, `receipts`, `entry`.
-- A body is named in it by 36 bytes: its SHA-256, then its length as four bytes, little end first.
-- Times are microseconds since the Unix epoch.

-- What a run took at its admission from the workflow that admitted it.
CREATE TABLE pin (
    n INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    workflow TEXT NOT NULL,
    revision INTEGER NOT NULL,
    pattern BLOB NOT NULL,
    kind INTEGER NOT NULL,
    plan BLOB NOT NULL,
    queue TEXT NOT NULL,
    settings BLOB NOT NULL,
    UNIQUE (workflow, revision, pattern, namespace, kind, plan, queue, settings)
);

-- Who started a run, and for whom. An absent person is the empty text, which no subject is.
CREATE TABLE requester (
    n INTEGER PRIMARY KEY,
    subject TEXT NOT NULL,
    acts_for TEXT NOT NULL,
    UNIQUE (subject, acts_for)
);

-- Tools as calls name them.
CREATE TABLE tool_ref (
    n INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    digest BLOB NOT NULL,
    UNIQUE (digest, name, version)
);

-- What has to be fulfilled before a yes: the resolved obligation of policy as canonical JSON, under its digest (C-56).
CREATE TABLE rule (
    n INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    document TEXT NOT NULL
);

-- Short texts that many rows share.
CREATE TABLE word (
    n INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);

-- Status: 0 queued, 1 running, 2 awaiting_hardware, 3 awaiting_consent, 4 awaiting_delegate, 5 awaiting_signal,
-- 6 awaiting_timer, 7 cancelling, 8 failing, 9 done, 10 failed, 11 cancelled.
-- Live: 1 has waits, 2 has open obligations, 4 an approval is open, 8 a timer is open, 16 is paused itself, 32 a wait for a
-- signal is open, 64 signals are kept, 128 a job is waited for.
-- Columns are what a scan, a guard or an index looks at; the rest of a run is `admitted`, which never changes, and `state`,
-- with its waits and the ids of its live calls and approvals. A claim's token is the fence.
CREATE TABLE run (
    n INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    pin INTEGER NOT NULL,
    requester INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    deadline INTEGER,
    labels TEXT,
    created_at INTEGER NOT NULL,
    idempotency_key TEXT,
    request_digest BLOB,
    admitted BLOB NOT NULL,

    status INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    live INTEGER NOT NULL,
    ready_at INTEGER,
    retry_at INTEGER,
    claim_worker BLOB,
    claim_deadline INTEGER,
    claim_renewed_at INTEGER,
    finished_at INTEGER,
    state BLOB NOT NULL,

    CHECK (status BETWEEN 0 AND 11),
    -- R-25: a delivery exists exactly while the run is queued.
    CHECK ((status = 0) = (ready_at IS NOT NULL) AND (status = 0) = (retry_at IS NOT NULL)),
    -- R-26: a claim exists while active, perhaps while stopping, else never.
    CHECK (CASE WHEN status IN (1, 2) THEN claim_worker IS NOT NULL
                WHEN status IN (7, 8) THEN 1
                ELSE claim_worker IS NULL END),
    -- R-27: a parked run has an open wait.
    CHECK (status NOT BETWEEN 3 AND 6 OR live & 172),
    -- R-29: an ended run has its time and nothing that could move it.
    CHECK ((status >= 9) = (finished_at IS NOT NULL)),
    CHECK (status < 9 OR live = 0)
);

-- R-17: the last guard of a final row.
CREATE TRIGGER run_final AFTER UPDATE OF status ON run
WHEN OLD.status >= 9 AND NEW.status <> OLD.status
BEGIN
    SELECT RAISE(ROLLBACK, 'the status of a final run never changes');
END;

-- Claimable deliveries in the order of R-74; and by pin, for as long as a workflow or queue is paused.
CREATE INDEX run_ready ON run (priority DESC, ready_at, id) WHERE status = 0 AND live & 16 = 0;
CREATE INDEX run_ready_pin ON run (pin, priority DESC, ready_at, id) WHERE status = 0 AND live & 16 = 0;
CREATE INDEX run_deadline ON run (deadline) WHERE deadline IS NOT NULL AND finished_at IS NULL;
-- Claims are found by it too: as many runs are active as workers have places.
CREATE INDEX run_status ON run (status) WHERE status <> 9;

-- What stays of a run that was kept long enough, in order of commit.
CREATE TABLE removed (
    n INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    namespace TEXT NOT NULL,
    status INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    events INTEGER NOT NULL,
    head BLOB NOT NULL,
    removed_at INTEGER NOT NULL
);

-- Idempotency keys: a 64-bit hash of namespace, principal and key. A hash that is taken by another key is followed by
-- the next number; equality is judged by the run's row. A hash that others follow stays when its run is removed.
CREATE TABLE admission (
    hash INTEGER PRIMARY KEY,
    run INTEGER NOT NULL
);

-- R-59: exists only while the run is not final.
CREATE TABLE session (
    namespace TEXT NOT NULL,
    session TEXT NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (namespace, session)
) WITHOUT ROWID;

-- Open timers. The wait itself is part of its run's state.
CREATE TABLE timer (
    due_at INTEGER NOT NULL,
    wait BLOB NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (due_at, wait)
) WITHOUT ROWID;

-- Waits for signals, whatever became of them: what is sent to one is answered by its run.
CREATE TABLE signal_wait (
    id BLOB PRIMARY KEY,
    run INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX signal_wait_run ON signal_wait (run);

-- Signals in order of arrival; the payload is a body of the run. State: 0 kept, 1 taken by `wait`, 2 set aside. What is
-- sent to one wait has no name. A kept one goes with the end of its run.
CREATE TABLE signal (
    run INTEGER NOT NULL,
    n INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT,
    sender TEXT NOT NULL,
    digest BLOB NOT NULL,
    len INTEGER NOT NULL,
    at INTEGER NOT NULL,
    state INTEGER NOT NULL,
    wait BLOB,
    PRIMARY KEY (run, n),
    CHECK ((state = 1) = (wait IS NOT NULL))
) WITHOUT ROWID;
CREATE UNIQUE INDEX signal_id ON signal (run, id);
CREATE INDEX signal_kept ON signal (run) WHERE state = 0;

-- Kind: 0 call, 1 gate, 2 settle. Status: 0 pending, 1 approved, 2 rejected, 3 expired, 4 cancelled. What a binding
-- repeats of its run is not kept.
CREATE TABLE approval (
    id BLOB PRIMARY KEY,
    run INTEGER NOT NULL,
    wait BLOB NOT NULL,
    kind INTEGER NOT NULL,
    status INTEGER NOT NULL,
    expires_at INTEGER,
    document BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX approval_run ON approval (run);
CREATE INDEX approval_pending ON approval (id) WHERE status = 0;
-- What never expires comes after everything that does.
CREATE INDEX approval_expiry ON approval (coalesce(expires_at, 9223372036854775807), id) WHERE status = 0;

-- A status leaves pending once (C-161).
CREATE TRIGGER approval_decided AFTER UPDATE OF status ON approval
WHEN OLD.status <> 0 AND NEW.status <> OLD.status
BEGIN
    SELECT RAISE(ROLLBACK, 'a decided approval is not decided again');
END;

-- State: 0 entered, 1 asked, 2 dispatched, 3 ambiguous, 4 ended. Effect: 0 pure, 1 read, 2 write. Gated: it passed its
-- dispatch gate. Receipts: bit 1 for the one of its end, or that it was ambiguous; bit 2 for the one that settles it.
CREATE TABLE call (
    id BLOB PRIMARY KEY,
    run INTEGER NOT NULL,
    position INTEGER,
    state INTEGER NOT NULL,
    effect INTEGER NOT NULL,
    gated INTEGER NOT NULL,
    document BLOB NOT NULL,
    receipts INTEGER NOT NULL,
    CHECK (state NOT IN (2, 3) OR gated)
) WITHOUT ROWID;
CREATE INDEX call_run ON call (run);
CREATE INDEX call_ambiguous ON call (id) WHERE state = 3;

-- What was handed over to agents, named by `kind`. State: 0 queued, 1 running, 2 cancelling, 3 succeeded, 4 failed, 5 lost,
-- 6 timed out, 7 cancelled. Due: when it ends by itself. Claim id: the key of its last claim.
CREATE TABLE job (
    id BLOB PRIMARY KEY,
    run INTEGER NOT NULL,
    kind TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state INTEGER NOT NULL,
    due_at INTEGER,
    claim_id TEXT,
    result BLOB,
    error BLOB,
    document BLOB NOT NULL,
    CHECK (state BETWEEN 0 AND 7),
    -- R-212: what a job leaves follows from how it ended.
    CHECK ((state = 3) = (result IS NOT NULL) AND (state IN (4, 5, 6)) = (error IS NOT NULL)),
    CHECK (state < 3 OR due_at IS NULL)
) WITHOUT ROWID;
CREATE INDEX job_run ON job (run);
CREATE INDEX job_claim ON job (claim_id) WHERE claim_id IS NOT NULL;
CREATE INDEX job_due ON job (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX job_queued ON job (kind, priority DESC, id) WHERE state = 0;

-- R-211: how a job ended never changes.
CREATE TRIGGER job_ended AFTER UPDATE OF state ON job
WHEN OLD.state >= 3 AND NEW.state <> OLD.state
BEGIN
    SELECT RAISE(ROLLBACK, 'a job that has ended does not end again');
END;

-- Kind: 0 hop (ref is its seq), 1 call, 2 job (ref is its id). State: 0 open, 1 acknowledged.
CREATE TABLE obligation (
    run INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    ref NOT NULL,
    state INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    last_error TEXT,
    retry_at INTEGER NOT NULL,
    settled_by TEXT,
    settled_at INTEGER,
    reason TEXT,
    PRIMARY KEY (run, kind, ref)
) WITHOUT ROWID;
CREATE INDEX obligation_open ON obligation (retry_at) WHERE state = 0;

-- Kind: 0 checkpoint, 1 snapshot.
CREATE TABLE debt (
    run INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (run, kind)
) WITHOUT ROWID;

-- All events of one command, packed, in order of commit, and the receipts that it wrote.
CREATE TABLE event (
    n INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    first INTEGER NOT NULL,
    at INTEGER NOT NULL,
    pack BLOB NOT NULL,
    receipts BLOB,
    UNIQUE (run, first)
);

-- Journal entries that are no calls.
CREATE TABLE journal (
    run INTEGER NOT NULL,
    position INTEGER NOT NULL,
    entry BLOB NOT NULL,
    PRIMARY KEY (run, position)
) WITHOUT ROWID;

CREATE TABLE log (
    run INTEGER NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run, n)
) WITHOUT ROWID;

-- Codec: 0 plain, 1 zstd. Key: the first eight bytes of the digest; one that another body of the run has is followed by
-- the next number.
CREATE TABLE body (
    n INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    key INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    len INTEGER NOT NULL,
    bytes BLOB NOT NULL
);
CREATE UNIQUE INDEX body_run ON body (run, key);

-- One current checkpoint a run (R-319), and the frozen guest beside it.
CREATE TABLE checkpoint (
    run INTEGER PRIMARY KEY,
    codec INTEGER NOT NULL,
    len INTEGER NOT NULL,
    bytes BLOB NOT NULL
);
CREATE TABLE snapshot (
    run INTEGER PRIMARY KEY,
    codec INTEGER NOT NULL,
    len INTEGER NOT NULL,
    bytes BLOB NOT NULL
);

-- What many runs share: sources, plans, tool specs, schemas, grants.
CREATE TABLE blob (
    n INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    codec INTEGER NOT NULL,
    len INTEGER NOT NULL,
    bytes BLOB NOT NULL
);

-- The last anchor (C-276), one row: how far in `event` and `removed` it has seen, and the line that is exported, so that a
-- crash between commit and export loses none.
CREATE TABLE anchor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    n INTEGER NOT NULL,
    digest BLOB NOT NULL,
    event INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    line TEXT NOT NULL
);

-- Where messages are sent; topics are words, parted by spaces. The secret is the receiver's too.
CREATE TABLE webhook (
    id BLOB PRIMARY KEY,
    namespace TEXT NOT NULL,
    url TEXT NOT NULL,
    topics TEXT NOT NULL,
    secret TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL
) WITHOUT ROWID;

-- Messages in order of commit, each made with the change that it tells of. State: 0 pending, 1 delivered, 2 given up.
CREATE TABLE message (
    n INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    webhook BLOB NOT NULL,
    run BLOB NOT NULL,
    topic TEXT NOT NULL,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    state INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    last_error TEXT,
    retry_at INTEGER,
    ended_at INTEGER,
    CHECK ((state = 0) = (retry_at IS NOT NULL) AND (state = 0) = (ended_at IS NULL))
);
CREATE INDEX message_due ON message (webhook, retry_at) WHERE state = 0;
CREATE INDEX message_webhook ON message (webhook, n);
CREATE INDEX message_ended ON message (ended_at) WHERE ended_at IS NOT NULL;
