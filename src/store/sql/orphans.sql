-- ORPHANS: the first parked row of each key that has no head before it becomes due. Walks the parked keys, one probe each.
-- `blocking` is the rule of all topics but `others`, which have the other one (3 = a dead head blocks, 2 = it does not).
-- Locks: those rows. Index: delivery_parked, delivery_held, delivery_pkey. Anyone may run it; lost reply: send it again.
WITH RECURSIVE k AS (
  (SELECT topic, key, seq FROM outrider.delivery WHERE lane = :lane AND hold = 2 AND key IS NOT NULL AND (topic, key) > ('', '')
    ORDER BY topic, key, seq LIMIT 1)
  UNION ALL SELECT n.* FROM k, LATERAL (SELECT d.topic, d.key, d.seq FROM outrider.delivery d
     WHERE d.lane = :lane AND d.hold = 2 AND d.key IS NOT NULL AND (d.topic, d.key) > (k.topic, k.key) ORDER BY d.topic, d.key, d.seq LIMIT 1) n)
UPDATE outrider.delivery d SET hold = 1, due_at = clock_timestamp()
 WHERE d.seq = ANY (ARRAY(SELECT k.seq FROM k WHERE NOT EXISTS (SELECT FROM outrider.delivery h WHERE h.lane = :lane AND h.topic = k.topic
         AND h.key = k.key AND h.hold IN (1, 2, 3) AND h.seq < k.seq
         AND h.hold <= CASE WHEN k.topic = ANY (:others::text[]) THEN 5 - :blocking::int ELSE :blocking::int END))) AND d.hold + 0 = 2 RETURNING d.seq
