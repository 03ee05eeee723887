-- CLAIM, ready path: write one claim row for what one broker may be handed next. Returns at least one row. No event row
-- that is returned is locked or updated; with nothing there: no transaction id, no lock, no WAL.
--   flying  what the owner's live claims list
--   win     per topic the first `limit` ready rows after its floor that do not fly
--   own     the lane under a lock that TAKE waits for; empty: the lane is lost
--   held    whether the lane has held rows at all (spares a probe per event)
--   got     the window, each row with: does an earlier held row of its topic and key stand before it
--   park    those that are blocked wait as parked; they still move the mark
--   put     the claim row, and our own transaction id (the floor waits for it)
--   head    one row even when nothing is there
-- `blockings`: per topic, 3 = a dead event blocks its key, 2 = it is passed over.
-- Locks: the lane FOR SHARE, parked rows. Index: delivery_ready (floor and order), delivery_held, delivery_pkey,
-- outbox_seq_key, claim_pkey, lane_pkey. Lost reply: as under RENEW; the rows are free again, claim with a new token.
WITH flying AS MATERIALIZED (SELECT u.seq FROM outrider.claim c, unnest(c.seqs) AS u(seq) WHERE c.token = ANY (:live::uuid[])),
win AS MATERIALIZED (
  SELECT d.seq, d.topic, d.key, d.attempts, d.refusals, t.blocking
    FROM unnest(:topics::text[], :afters::bigint[], :limits::int[], :blockings::smallint[]) AS t(topic, after, lim, blocking)
   CROSS JOIN LATERAL (SELECT x.seq, x.topic, x.key, x.attempts, x.refusals FROM outrider.delivery x
       WHERE x.lane = :lane AND x.topic = t.topic AND x.hold = 0 AND x.pos > t.after AND x.seq NOT IN (SELECT f.seq FROM flying f)
       ORDER BY x.pos LIMIT t.lim) d),
own AS MATERIALIZED (SELECT lane, until FROM outrider.lane
   WHERE lane = :lane AND owner = :owner AND until > clock_timestamp() AND EXISTS (SELECT FROM win) FOR SHARE),
held AS MATERIALIZED (SELECT EXISTS (SELECT FROM outrider.delivery h WHERE h.lane = :lane AND h.hold IN (1, 2, 3)) AS yes),
got AS MATERIALIZED (
  SELECT w.*, CASE WHEN w.key IS NULL OR NOT (SELECT h.yes FROM held h) THEN false
         ELSE EXISTS (SELECT FROM outrider.delivery h WHERE h.lane = :lane AND h.topic = w.topic AND h.key = w.key AND h.seq < w.seq
                AND h.hold IN (1, 2, 3) AND h.hold <= w.blocking AND h.seq NOT IN (SELECT f.seq FROM flying f)) END AS blocked
    FROM own CROSS JOIN win w),
park AS (UPDATE outrider.delivery d SET hold = 2
  WHERE d.seq = ANY (ARRAY(SELECT g.seq FROM got g WHERE g.blocked)) AND d.hold + 0 = 0 RETURNING d.seq),
put AS (INSERT INTO outrider.claim (token, lane, broker, seqs)
        SELECT :token::uuid, o.lane, :broker, ARRAY(SELECT g.seq FROM got g WHERE NOT g.blocked) FROM own o
         WHERE EXISTS (SELECT FROM got g WHERE NOT g.blocked) RETURNING pg_current_xact_id()::text::bigint AS xid),
head AS MATERIALIZED (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS xmin, (SELECT p.xid FROM put p) AS xid,
        (SELECT o.until - clock_timestamp() FROM own o) AS lease_left, EXISTS (SELECT FROM win) AS seen, (SELECT count(*) FROM park) AS parked)
SELECT h.lease_left, h.seen, h.parked, g.seq, g.topic, g.key, g.attempts, g.refusals, g.blocked,
       o.id, o.type, o.content_type, o.headers::text, o.occurred_at, o.payload, h.xmin, h.xid
  FROM head h LEFT JOIN got g ON true
  LEFT JOIN LATERAL (SELECT x.* FROM outrider.outbox x WHERE x.seq = g.seq AND NOT g.blocked LIMIT 1) o ON true
