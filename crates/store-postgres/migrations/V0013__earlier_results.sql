-- Results of earlier generations: a reprocess moves them here, so that nothing is lost when the new run is stopped. The
-- newest one stands in for a line that has no result. And the length of a batch's window, for when it begins anew.
CREATE TABLE windrow.results_before (
    batch_id    uuid NOT NULL,
    line        bigint NOT NULL,
    generation  int NOT NULL,
    seq         bigint NOT NULL,
    created_at  timestamptz NOT NULL,
    lane        smallint NOT NULL,
    status      smallint NOT NULL,
    attempts    int NOT NULL,
    http_status smallint,
    custom_id   text,
    error_code  text,
    error       text,
    response    bytea,
    shaped      text,
    normalised  text,
    PRIMARY KEY (batch_id, line, generation)
);
ALTER TABLE windrow.results_before ALTER COLUMN response SET STORAGE EXTERNAL;
ALTER TABLE windrow.batches ADD COLUMN window_secs bigint;
UPDATE windrow.batches SET window_secs = greatest(1, ceil(extract(epoch FROM deadline - created_at)))
 WHERE deadline IS NOT NULL;
