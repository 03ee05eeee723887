-- RENEW a lane's lease, also after its end if nobody took it. Returns what is left of it; no row: the lane is lost.
-- After a lost reply `owner` is new and `owners` are all that were tried since the last certain answer: it waits for a
-- claim that still runs on the server and shuts out one that has not begun.
-- Locks: the lane row. Index: lane_pkey. Lost reply: send it again with another new owner.
UPDATE outrider.lane SET owner = :owner, until = clock_timestamp() + :lease::interval
 WHERE lane = :lane AND owner = ANY (:owners::uuid[])
RETURNING until - clock_timestamp() AS lease_left
