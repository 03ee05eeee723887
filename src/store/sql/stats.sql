-- Gauges of one tenant. Reads unsent rows only, through the partial indexes, and stops counting at `cap`; sent rows and
-- receipts are not looked at. The oldest unsent event is looked for among the first ready row of each topic, the rows
-- that are held and not dead, and the scheduled ones whose time has come; its age counts from when it was due to go out.
-- Locks: none. Index: delivery_ready, delivery_held, delivery_due, delivery_parked, lane_pkey, outbox_seq_key.
-- Lost reply: send it again.
WITH RECURSIVE first AS (
  SELECT n.lane, n.topic, n.seq FROM outrider.lane l CROSS JOIN LATERAL (SELECT x.lane, x.topic, x.seq FROM outrider.delivery x
     WHERE x.lane = l.lane AND x.hold = 0 ORDER BY x.topic, x.pos LIMIT 1) n
  UNION ALL
  SELECT n.lane, n.topic, n.seq FROM first f CROSS JOIN LATERAL (SELECT x.lane, x.topic, x.seq FROM outrider.delivery x
     WHERE x.lane = f.lane AND x.hold = 0 AND x.topic > f.topic ORDER BY x.topic, x.pos LIMIT 1) n),
held AS MATERIALIZED (SELECT c.hold, count(*) AS n, min(c.seq) AS seq
   FROM (SELECT x.hold, x.seq FROM outrider.delivery x WHERE x.hold IN (1, 2, 3) LIMIT :cap::int) c GROUP BY c.hold),
scheduled AS MATERIALIZED (SELECT count(*) AS n, min(c.seq) FILTER (WHERE c.due_at <= now()) AS seq
   FROM (SELECT x.seq, x.due_at FROM outrider.delivery x WHERE x.hold IN (1, 4) AND x.hold + 0 = 4 LIMIT :cap::int) c),
ready AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT FROM outrider.delivery x WHERE x.hold = 0 LIMIT :cap::int) c),
keys AS MATERIALIZED (SELECT count(*) AS n FROM (SELECT DISTINCT c.lane, c.topic, c.key
   FROM (SELECT x.lane, x.topic, x.key FROM outrider.delivery x WHERE x.hold = 2 LIMIT :cap::int) c) d),
flight AS MATERIALIZED (SELECT count(*) AS n, coalesce(sum(cardinality(c.seqs)), 0)::bigint AS events FROM outrider.claim c),
oldest AS MATERIALIZED (SELECT o.seq FROM (SELECT min(f.seq) AS seq FROM first f UNION ALL SELECT h.seq FROM held h WHERE h.hold <> 3
   UNION ALL SELECT s.seq FROM scheduled s) o WHERE o.seq IS NOT NULL)
SELECT (SELECT n FROM ready) AS ready, coalesce((SELECT n FROM held WHERE hold = 1), 0) AS waiting,
       coalesce((SELECT n FROM held WHERE hold = 2), 0) AS parked, coalesce((SELECT n FROM held WHERE hold = 3), 0) AS dead,
       (SELECT n FROM scheduled) AS scheduled, (SELECT n FROM keys) AS blocked_keys, f.n AS claims, f.events AS in_flight,
       (SELECT max((extract(epoch FROM clock_timestamp() - greatest(a.since, clock_timestamp() - interval '100 years')) * 1000)::bigint)
          FROM (SELECT coalesce(b.available_at, b.occurred_at, d.due_at) AS since FROM outrider.delivery d
                  LEFT JOIN LATERAL (SELECT o.available_at, o.occurred_at FROM outrider.outbox o WHERE o.seq = d.seq LIMIT 1) b ON true
                 WHERE d.seq = ANY (ARRAY(SELECT o.seq FROM oldest o))) a WHERE a.since <= clock_timestamp()) AS oldest_ms
  FROM flight f
