-- Rows of calls and of the archive.
SELECT /* call/count_rows */
    (SELECT count(*) FROM calls AS v WHERE ?1 IS NULL OR v.owner = ?1),
    (SELECT count(*) FROM calls_archive AS v WHERE ?1 IS NULL OR v.owner = ?1)
