-- A row of the same bucket that has room for more text.
SELECT /* returned/find_room */ id
FROM returned
WHERE batch_id = ?1 AND lane = ?2 AND not_before = ?3 AND attempts = ?4 AND crashes = ?5
    AND tranche_max IS ?6 AND length(lines) < ?7
LIMIT 1
