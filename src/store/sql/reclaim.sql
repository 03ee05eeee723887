-- RECLAIM: delete the lane's claims that its owner does not know, and give their events back; `spent` = 1 counts one
-- attempt for each. An event whose key has held rows comes back as held, or a follower would be promoted before it.
-- A statement of its own after TAKE, never the same one: its snapshot must be younger than TAKE's wait.
-- Locks: the lane (share), the claims, their events. Index: lane_pkey, claim_pkey, delivery_pkey, delivery_held.
-- Lost reply: send it again.
WITH own AS MATERIALIZED (SELECT lane FROM outrider.lane WHERE lane = :lane AND owner = :owner FOR SHARE),
gone AS (DELETE FROM outrider.claim c USING own WHERE c.lane = own.lane AND c.token <> ALL (:known::uuid[])
         RETURNING c.token, c.broker, c.claimed_at, c.seqs),
flown AS MATERIALIZED (SELECT DISTINCT u.seq FROM gone g, unnest(g.seqs) AS u(seq)),
back AS (UPDATE outrider.delivery d SET attempts = d.attempts + CASE WHEN d.attempts < 2147483647 THEN s.spent ELSE 0 END,
                hold = CASE WHEN s.held THEN 1 ELSE d.hold END,
                due_at = CASE WHEN s.held THEN (SELECT clock_timestamp()) ELSE d.due_at END
   FROM (SELECT u.seq, :spent::int AS spent, r.hold = 0 AND r.key IS NOT NULL AND EXISTS (SELECT FROM outrider.delivery h
               WHERE h.lane = r.lane AND h.topic = r.topic AND h.key = r.key AND h.hold IN (1, 2, 3)) AS held
           FROM flown u JOIN outrider.delivery r ON r.seq = u.seq WHERE r.seq = ANY (ARRAY(SELECT seq FROM flown))) s
  WHERE d.seq = s.seq AND d.seq = ANY (ARRAY(SELECT seq FROM flown)) AND (s.spent > 0 OR s.held) RETURNING d.seq)
SELECT g.token, g.broker, g.claimed_at, g.seqs, (SELECT count(*) FROM back) AS back FROM gone g
