-- A stream without messages is forgotten.
DELETE FROM streams /* message/forget_stream */ WHERE no = ?1
