-- GIVE a lane up. Returns whether it is free at once (no claim row left); no row: it was not ours any more.
-- `rest` is the longest publish deadline that is still out.
-- Locks: the lane row. Index: lane_pkey; claim is read whole, it has a row per batch in flight. Lost reply: ignore.
UPDATE outrider.lane l SET owner = NULL, until = CASE WHEN EXISTS (SELECT FROM outrider.claim c WHERE c.lane = l.lane)
         THEN least(l.until, clock_timestamp() + :rest::interval) ELSE clock_timestamp() END
 WHERE l.lane = :lane AND l.owner = :owner
RETURNING l.until <= clock_timestamp() AS free
