-- SETTLE SENT past locked rows: what SETTLE SENT does, but for those events only that nobody else holds a lock on; the
-- others are returned and stay in flight, for the claim row that lists them stays too (`done` is obeyed only when nothing
-- was locked). Used after SETTLE SENT met a lock that did not go away, so that one locked row undoes no neighbour.
-- `receipt` differs from that of the whole report: it lists fewer events.
-- Locks: as SETTLE SENT, without waiting. Index: delivery_pkey, claim_pkey, delivery_parked.
-- Lost reply: send the whole SETTLE SENT again.
WITH free AS MATERIALIZED (SELECT seq FROM outrider.delivery WHERE seq = ANY (:seqs::bigint[]) ORDER BY seq FOR UPDATE SKIP LOCKED),
locked AS MATERIALIZED (SELECT d.seq FROM outrider.delivery d WHERE d.seq = ANY (:seqs::bigint[]) AND d.seq NOT IN (SELECT f.seq FROM free f)),
rcpt AS (INSERT INTO outrider.receipt (id, broker, seqs, first_seq, last_seq)
   SELECT :receipt::uuid, :broker, array_agg(s.seq), min(s.seq), max(s.seq) FROM unnest(:seqs::bigint[]) AS s(seq)
    WHERE s.seq NOT IN (SELECT l.seq FROM locked l) HAVING count(*) > 0 ON CONFLICT (id) DO NOTHING),
done AS (DELETE FROM outrider.claim WHERE token = ANY (:done::uuid[]) AND NOT EXISTS (SELECT FROM locked)),
del AS (DELETE FROM outrider.delivery WHERE seq = ANY (ARRAY(SELECT f.seq FROM free f)) RETURNING lane, topic, key, hold),
prom AS (UPDATE outrider.delivery d SET hold = 1, due_at = (SELECT clock_timestamp())
  WHERE d.seq = ANY (ARRAY(SELECT b.seq FROM (SELECT DISTINCT lane, topic, key FROM del WHERE hold <> 0 AND key IS NOT NULL) k
   CROSS JOIN LATERAL (SELECT b.seq FROM outrider.delivery b WHERE b.lane = k.lane AND b.topic = k.topic AND b.key = k.key
                          AND b.hold = 2 ORDER BY b.seq LIMIT 200) b)) AND d.hold + 0 = 2 RETURNING d.seq)
SELECT (SELECT count(*) FROM del) AS deleted, (SELECT count(*) FROM prom) AS promoted, ARRAY(SELECT l.seq FROM locked l ORDER BY l.seq) AS locked
