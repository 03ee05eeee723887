-- SETTLE FAILED: the outcomes of one token other than sent, after SETTLE SENT of the same report. Written only while the
-- claim row with that token stands, locked by this statement. 1 refused, 2 unknown (both again after their delay),
-- 3 dead, 4 released (as held, if its key has held rows), 5 blocked behind 1, 2 or 3 of its key.
-- `last`: nothing of the claim is left, its row goes; else it shrinks by what is named here (never set to what the client
-- remembers: that could put settled events back).
-- Returns only what did not apply: `fenced` (not in a live claim of this token) or `gone` (confirmed by somebody else).
-- Locks: the claim row, then the events. Index: claim_pkey, delivery_pkey, delivery_held.
-- Lost reply: after RENEW send it again; if that kept the lane, `fenced` then means that it applied the first time.
WITH i AS MATERIALIZED (SELECT * FROM unnest(:seqs::bigint[], :outcomes::smallint[], :delays_ms::bigint[], :errors::text[]) AS i(seq, outcome, delay_ms, error)),
c AS MATERIALIZED (SELECT token, seqs FROM outrider.claim WHERE token = :token FOR UPDATE),
mine AS MATERIALIZED (SELECT i.* FROM i, c WHERE i.seq = ANY (c.seqs)),
shrink AS (UPDATE outrider.claim k SET seqs = ARRAY(SELECT u.seq FROM unnest(c.seqs) AS u(seq) WHERE u.seq <> ALL (:seqs::bigint[]))
             FROM c WHERE k.token = :token AND NOT :last::boolean),
done AS (DELETE FROM outrider.claim k USING c WHERE k.token = :token AND :last::boolean),
upd AS (UPDATE outrider.delivery d SET
     hold = CASE m.outcome WHEN 3 THEN 3 WHEN 5 THEN 2 ELSE 1 END,
     due_at = CASE WHEN m.outcome = 5 THEN d.due_at ELSE clock_timestamp() + m.delay_ms * interval '1 ms' END,
     dead_at = CASE m.outcome WHEN 3 THEN clock_timestamp() END,
     attempts = d.attempts + CASE WHEN m.outcome IN (1, 2, 3) AND d.attempts < 2147483647 THEN 1 ELSE 0 END,
     refusals = d.refusals + CASE WHEN m.outcome IN (1, 3) AND d.refusals < 2147483647 THEN 1 ELSE 0 END,
     last_error = coalesce(left(m.error, 500), d.last_error)
   FROM mine m WHERE d.seq = m.seq AND d.seq = ANY (:seqs::bigint[]) AND (m.outcome IN (1, 2, 3, 5) OR m.outcome = 4 AND d.hold = 0 AND d.key IS NOT NULL
        AND EXISTS (SELECT FROM outrider.delivery h WHERE h.lane = d.lane AND h.topic = d.topic AND h.key = d.key AND h.hold IN (1, 2, 3)))
   RETURNING d.seq)
SELECT i.seq, CASE WHEN m.seq IS NULL THEN 'fenced' ELSE 'gone' END AS what
  FROM i LEFT JOIN mine m ON m.seq = i.seq
 WHERE m.seq IS NULL OR m.outcome <> 4 AND m.seq NOT IN (SELECT seq FROM upd)
