-- SETTLE SENT: all confirmed events of a report. A confirm is a fact, so it is not fenced: whoever has it may write it.
-- `done`: tokens of which nothing is left. A confirmed head that was held promotes up to 200 parked followers of its key.
-- Promoted rows get one and the same time, so that they come due in the order of seq, whatever order they are updated in:
-- else a window of CLAIM DUE would meet later ones without their heads and park them again.
-- Locks: the claims of `done`, the events and the promoted rows; in the order of seq as far as the index scan gives it,
-- and lock_timeout lies below deadlock_timeout, so crossing settles end as 55P03 and are sent again.
-- Index: claim_pkey, delivery_pkey, delivery_parked. Lost reply: send it again with the same receipt.
WITH rcpt AS (INSERT INTO outrider.receipt (id, broker, seqs, first_seq, last_seq)
   SELECT :receipt::uuid, :broker, :seqs::bigint[], min(s.seq), max(s.seq) FROM unnest(:seqs::bigint[]) AS s(seq) HAVING count(*) > 0
   ON CONFLICT (id) DO NOTHING),
done AS (DELETE FROM outrider.claim WHERE token = ANY (:done::uuid[])),
del AS (DELETE FROM outrider.delivery WHERE seq = ANY (:seqs::bigint[]) RETURNING lane, topic, key, hold),
prom AS (UPDATE outrider.delivery d SET hold = 1, due_at = (SELECT clock_timestamp())
  WHERE d.seq = ANY (ARRAY(SELECT b.seq FROM (SELECT DISTINCT lane, topic, key FROM del WHERE hold <> 0 AND key IS NOT NULL) k
   CROSS JOIN LATERAL (SELECT b.seq FROM outrider.delivery b WHERE b.lane = k.lane AND b.topic = k.topic AND b.key = k.key
                          AND b.hold = 2 ORDER BY b.seq LIMIT 200) b)) AND d.hold + 0 = 2 RETURNING d.seq)
SELECT (SELECT count(*) FROM del) AS deleted, (SELECT count(*) FROM prom) AS promoted
