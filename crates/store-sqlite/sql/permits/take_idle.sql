-- Takes back every permit of a target that no line in flight needs.
UPDATE permits /* permits/take_idle */ SET granted = used WHERE target = ?1 AND granted > used
