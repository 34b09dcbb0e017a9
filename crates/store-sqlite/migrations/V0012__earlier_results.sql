-- Results of earlier generations: a reprocess moves them here, so that nothing is lost when the new run is stopped. The
-- newest one stands in for a line that has no result. And the length of a batch's window, for when it begins anew.
CREATE TABLE results_before (
    batch_id    BLOB    NOT NULL,
    line        INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    lane        INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    http_status INTEGER,
    custom_id   TEXT,
    error_code  TEXT,
    error       TEXT,
    shaped      TEXT,
    response    BLOB,
    normalised  TEXT,
    PRIMARY KEY (batch_id, line, generation)
) STRICT, WITHOUT ROWID;
ALTER TABLE batches ADD COLUMN window_secs INTEGER;
UPDATE batches SET window_secs = max(1, (deadline - created_at + 999999) / 1000000) WHERE deadline IS NOT NULL;
