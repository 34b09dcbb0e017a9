-- A new row of returned lines.
INSERT INTO returned /* returned/insert */
    (batch_id, lane, not_before, attempts, crashes, tranche_max, lines, n, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
