-- Whether a partition is the instance's at that epoch.
SELECT /* partition/fence */ EXISTS (
    SELECT 1 FROM partitions WHERE no = ?1 AND epoch = ?2 AND instance = ?3
)
