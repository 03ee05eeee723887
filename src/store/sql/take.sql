-- TAKE a lane whose lease is over (or, forced, any lane). Returns the new epoch; no row: somebody holds it.
-- Locks: the lane row, so it waits for a claim that is still running (that claim holds it FOR SHARE).
-- Index: lane_pkey. Lost reply: forget it and take again with another owner after the lease.
UPDATE outrider.lane SET owner = :owner, owner_name = :name, epoch = epoch + 1, until = clock_timestamp() + :lease::interval
 WHERE lane = :lane AND (until <= clock_timestamp() OR :force::boolean)
RETURNING epoch
