-- Until the transaction ends, statements are planned for the parameters they have: which index is the right one depends on
-- which filters there are. None is answered by reading a whole table where an index will do.
SELECT /* call/plan_anew */ set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('enable_seqscan', 'off', true)
