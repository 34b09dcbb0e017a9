-- Rows of calls and of the archive, and what a row of each takes as far as the newest hundred tell.
SELECT /* call/count_rows */
    (SELECT count(*) FROM calls AS v WHERE ?1 IS NULL OR v.owner = ?1),
    (SELECT count(*) FROM calls_archive AS v WHERE ?1 IS NULL OR v.owner = ?1),
    (SELECT ifnull(avg(length(w.args) + ifnull(length(w.reply), 0)), 0)
     FROM (SELECT args, reply FROM calls AS newest ORDER BY rowid DESC LIMIT 100) AS w),
    (SELECT ifnull(avg(length(w.args) + ifnull(length(w.reply), 0)), 0)
     FROM (SELECT args, reply FROM calls_archive AS newest ORDER BY rowid DESC LIMIT 100) AS w)
