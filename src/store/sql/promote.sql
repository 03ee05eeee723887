-- PROMOTE: up to 200 parked rows of each named key become due; after an event died under `on_dead = "skip"`.
-- Locks: those rows. Index: delivery_parked, delivery_pkey. Anyone may run it; lost reply: send it again.
UPDATE outrider.delivery d SET hold = 1, due_at = (SELECT clock_timestamp())
 WHERE d.seq = ANY (ARRAY(SELECT b.seq FROM unnest(:topics::text[], :keys::text[]) AS k(topic, key)
  CROSS JOIN LATERAL (SELECT b.seq FROM outrider.delivery b WHERE b.lane = :lane AND b.topic = k.topic AND b.key = k.key
                         AND b.hold = 2 ORDER BY b.seq LIMIT 200) b)) AND d.hold + 0 = 2 RETURNING d.seq
