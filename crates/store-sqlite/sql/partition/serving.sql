-- What the live members of a service say of themselves.
SELECT /* partition/serving */ metadata FROM members WHERE service = ?1 AND tombstoned_at IS NULL
