-- The limited targets of which an instance has permits.
SELECT /* permits/limited_of_instance */ target FROM permits WHERE instance_id = ?1
