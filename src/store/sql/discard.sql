-- DISCARD dead events: they leave with a receipt that says so, never as sent; parked followers of their keys become due.
-- Returns those that were dead; a second run changes nothing.
-- Locks: those rows and the promoted ones. Index: delivery_pkey, delivery_parked. Lost reply: send it again.
WITH gone AS (DELETE FROM outrider.delivery WHERE seq = ANY (:seqs::bigint[]) AND hold + 0 = 3 RETURNING seq, lane, topic, key),
rcpt AS (INSERT INTO outrider.receipt (id, outcome, seqs, first_seq, last_seq) SELECT :receipt::uuid, 'discarded', array_agg(seq), min(seq), max(seq)
   FROM gone HAVING count(*) > 0),
prom AS (UPDATE outrider.delivery d SET hold = 1, due_at = (SELECT clock_timestamp())
  WHERE d.seq = ANY (ARRAY(SELECT b.seq FROM (SELECT DISTINCT lane, topic, key FROM gone WHERE key IS NOT NULL) k
   CROSS JOIN LATERAL (SELECT b.seq FROM outrider.delivery b WHERE b.lane = k.lane AND b.topic = k.topic AND b.key = k.key
                          AND b.hold = 2 ORDER BY b.seq LIMIT 200) b)) AND d.hold + 0 = 2 RETURNING d.seq)
SELECT seq, (SELECT count(*) FROM prom) AS promoted FROM gone
