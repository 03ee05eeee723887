-- All lanes, who holds them and for how long. Locks: none. Index: lane_pkey. Lost reply: send it again.
SELECT l.lane, l.owner, l.owner_name, l.epoch, greatest(l.until, n.now) - n.now AS lease_left
  FROM outrider.lane l CROSS JOIN (SELECT clock_timestamp() AS now OFFSET 0) n
 ORDER BY l.lane
