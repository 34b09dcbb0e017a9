-- The instance sleeps and wants to be told.
INSERT /* wake/fall_asleep */ INTO windrow.sleepers (instance) VALUES ($1) ON CONFLICT DO NOTHING
