-- When a stream can go at the earliest is counted from here.
UPDATE streams /* message/look_at_stream */ SET looked_at = ?2 WHERE no = ?1
