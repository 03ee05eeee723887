-- The view for people: one row an event with its state.
-- Lock: none on anything that exists. Time: instant.
CREATE VIEW outrider.events AS
SELECT o.seq, o.id, o.topic, o.key, o.type, o.occurred_at, d.lane, d.attempts, d.refusals, d.due_at, d.dead_at, d.last_error, c.broker, c.claimed_at, r.settled_at,
  CASE WHEN d.seq IS NULL THEN coalesce(r.outcome, 'orphan') WHEN c.seq IS NOT NULL THEN 'leased' WHEN d.hold = 3 THEN 'dead'
       WHEN d.hold = 4 AND d.due_at > now() THEN 'scheduled'
       WHEN d.hold = 2 OR EXISTS (SELECT FROM outrider.delivery h WHERE h.lane = d.lane AND h.topic = d.topic AND h.key = d.key
                                    AND h.hold IN (1, 2, 3) AND h.seq < d.seq) THEN 'blocked'
       WHEN d.hold = 1 AND d.due_at > now() THEN 'backing off' ELSE 'pending' END AS state
  FROM outrider.outbox o LEFT JOIN outrider.delivery d USING (seq)
  LEFT JOIN LATERAL (SELECT x.settled_at, x.outcome FROM outrider.receipt x WHERE d.seq IS NULL AND x.last_seq >= o.seq AND x.first_seq <= o.seq
                        AND o.seq = ANY (x.seqs) ORDER BY x.last_seq LIMIT 1) r ON true
  LEFT JOIN (SELECT DISTINCT ON (u.seq) u.seq, k.broker, k.claimed_at FROM outrider.claim k, unnest(k.seqs) AS u(seq)) c USING (seq);
