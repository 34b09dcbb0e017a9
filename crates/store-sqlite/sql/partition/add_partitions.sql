-- As many partitions as there are to be, all of them free.
INSERT INTO partitions /* partition/add_partitions */ (no)
WITH RECURSIVE c (no) AS (SELECT 0 UNION ALL SELECT no + 1 FROM c WHERE no + 1 < ?1)
SELECT no FROM c
