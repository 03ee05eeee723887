-- The topics of a lane that have work: ready rows, the time until the earliest retry or scheduled row, held rows. A hint:
-- what it does not name can still have rows that commit a moment later, and what it names may be gone or in flight.
-- Costs a few index probes per topic, not per row. Topics that the caller knows are probed from their floor on, and the
-- gaps between them (`lows`, `highs`, the last without a high end) are searched for topics it does not know: so entries of
-- rows that left long ago, which a held snapshot keeps in the index, are walked past by nobody. LIMIT and OFFSET keep the
-- planner from turning the probes into a join that reads the index whole, or from running each of them twice.
-- Locks: none. Index: delivery_ready, delivery_due, delivery_held. Lost reply: send it again.
WITH RECURSIVE known AS MATERIALIZED (
  SELECT k.topic FROM unnest(:topics::text[], :floors::bigint[]) AS k(topic, floor)
   CROSS JOIN LATERAL (SELECT FROM outrider.delivery x
       WHERE x.lane = :lane AND x.topic = k.topic AND x.hold = 0 AND x.pos > k.floor ORDER BY x.pos LIMIT 1) d),
fresh AS (
  SELECT n.topic, g.high FROM unnest(:lows::text[], :highs::text[]) AS g(low, high) CROSS JOIN LATERAL (SELECT CASE WHEN g.high IS NULL
    THEN (SELECT x.topic FROM outrider.delivery x WHERE x.lane = :lane AND x.hold = 0 AND x.topic > g.low ORDER BY x.topic, x.pos LIMIT 1)
    ELSE (SELECT x.topic FROM outrider.delivery x WHERE x.lane = :lane AND x.hold = 0 AND x.topic > g.low AND x.topic < g.high ORDER BY x.topic, x.pos LIMIT 1)
    END COLLATE "C" AS topic OFFSET 0) n WHERE n.topic IS NOT NULL
  UNION ALL
  SELECT n.topic, f.high FROM fresh f CROSS JOIN LATERAL (SELECT CASE WHEN f.high IS NULL
    THEN (SELECT x.topic FROM outrider.delivery x WHERE x.lane = :lane AND x.hold = 0 AND x.topic > f.topic ORDER BY x.topic, x.pos LIMIT 1)
    ELSE (SELECT x.topic FROM outrider.delivery x WHERE x.lane = :lane AND x.hold = 0 AND x.topic > f.topic AND x.topic < f.high ORDER BY x.topic, x.pos LIMIT 1)
    END COLLATE "C" AS topic OFFSET 0) n WHERE n.topic IS NOT NULL),
due AS (
  (SELECT x.topic, x.due_at FROM outrider.delivery x WHERE x.lane = :lane AND x.hold IN (1, 4) ORDER BY x.topic, x.due_at LIMIT 1)
  UNION ALL
  SELECT n.topic, n.due_at FROM due d CROSS JOIN LATERAL (SELECT x.topic, x.due_at FROM outrider.delivery x
     WHERE x.lane = :lane AND x.hold IN (1, 4) AND x.topic > d.topic ORDER BY x.topic, x.due_at LIMIT 1) n),
held AS (
  (SELECT x.topic FROM outrider.delivery x WHERE x.lane = :lane AND x.hold IN (1, 2, 3) ORDER BY x.topic, x.key, x.seq LIMIT 1)
  UNION ALL
  SELECT n.topic FROM held h CROSS JOIN LATERAL (SELECT x.topic FROM outrider.delivery x
     WHERE x.lane = :lane AND x.hold IN (1, 2, 3) AND x.topic > h.topic ORDER BY x.topic, x.key, x.seq LIMIT 1) n)
SELECT t.topic, bool_or(t.ready) AS ready, bool_or(t.held) AS held,
       CASE WHEN min(t.due_at) IS NOT NULL THEN
         ceil(extract(epoch FROM least(greatest(min(t.due_at), now()), now() + interval '1 day') - clock_timestamp()) * 1000)::bigint END AS due_ms
  FROM (SELECT topic, true AS ready, NULL::timestamptz AS due_at, false AS held FROM known
        UNION ALL SELECT topic, true, NULL, false FROM fresh
        UNION ALL SELECT topic, false, due_at, false FROM due
        UNION ALL SELECT topic, false, NULL, true FROM held) t
 GROUP BY t.topic ORDER BY t.topic
