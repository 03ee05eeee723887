-- CLAIM DUE: as CLAIM, for rows whose time has come: retries, unparked followers, scheduled ones. Run before CLAIM when
-- the owner's earliest due time has come. A due head outside the window blocks its followers, hence the window's own
-- rows are the only held ones that do not.
-- Locks: the lane FOR SHARE, parked rows. Index: delivery_due (`now` is an index bound because the sub-select cannot be
-- pulled up), delivery_held, delivery_pkey, outbox_seq_key, claim_pkey, lane_pkey. Lost reply: as CLAIM.
WITH flying AS MATERIALIZED (SELECT u.seq FROM outrider.claim c, unnest(c.seqs) AS u(seq) WHERE c.token = ANY (:live::uuid[])),
win AS MATERIALIZED (
  SELECT d.seq, d.topic, d.key, d.attempts, d.refusals, t.blocking
    FROM (SELECT clock_timestamp() AS now OFFSET 0) n
   CROSS JOIN unnest(:topics::text[], :limits::int[], :blockings::smallint[]) AS t(topic, lim, blocking)
   CROSS JOIN LATERAL (SELECT x.seq, x.topic, x.key, x.attempts, x.refusals FROM outrider.delivery x
       WHERE x.lane = :lane AND x.topic = t.topic AND x.hold IN (1, 4) AND x.due_at <= n.now AND x.seq NOT IN (SELECT f.seq FROM flying f)
       ORDER BY x.due_at, x.seq LIMIT t.lim) d),
own AS MATERIALIZED (SELECT lane, until FROM outrider.lane
   WHERE lane = :lane AND owner = :owner AND until > clock_timestamp() AND EXISTS (SELECT FROM win) FOR SHARE),
got AS MATERIALIZED (
  SELECT w.*, w.key IS NOT NULL AND EXISTS (SELECT FROM outrider.delivery h WHERE h.lane = :lane AND h.topic = w.topic AND h.key = w.key AND h.seq < w.seq
                AND h.hold IN (1, 2, 3) AND h.hold <= w.blocking
                AND h.seq NOT IN (SELECT f.seq FROM flying f) AND h.seq NOT IN (SELECT v.seq FROM win v)) AS blocked
    FROM own CROSS JOIN win w),
park AS (UPDATE outrider.delivery d SET hold = 2
  WHERE d.seq = ANY (ARRAY(SELECT g.seq FROM got g WHERE g.blocked)) AND d.hold + 0 IN (1, 4) RETURNING d.seq),
put AS (INSERT INTO outrider.claim (token, lane, broker, seqs)
        SELECT :token::uuid, o.lane, :broker, ARRAY(SELECT g.seq FROM got g WHERE NOT g.blocked) FROM own o
         WHERE EXISTS (SELECT FROM got g WHERE NOT g.blocked) RETURNING token),
head AS MATERIALIZED (SELECT (SELECT o.until - clock_timestamp() FROM own o) AS lease_left, EXISTS (SELECT FROM win) AS seen,
        (SELECT count(*) FROM park) AS parked, (SELECT count(*) FROM put) AS claims)
SELECT h.lease_left, h.seen, h.parked, g.seq, g.topic, g.key, g.attempts, g.refusals, g.blocked,
       o.id, o.type, o.content_type, o.headers::text, o.occurred_at, o.payload
  FROM head h LEFT JOIN got g ON true
  LEFT JOIN LATERAL (SELECT x.* FROM outrider.outbox x WHERE x.seq = g.seq AND NOT g.blocked LIMIT 1) o ON true
