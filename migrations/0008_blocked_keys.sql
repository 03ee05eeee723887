-- The view for people at 3 a.m.: one row a blocked key, with the event at its head and why that one is not out.
-- Lock: none on anything that exists. Time: instant.

-- A key is blocked while events are parked behind an earlier one of it. The head is the held event before the first of
-- them; `gone`: it left a moment ago, and the lane's owner looks for such keys once a minute. `since` is when the head was
-- first due, `due_at` when it is tried again. Costs index probes per blocked key and a count of what is parked.
CREATE VIEW outrider.blocked_keys AS
WITH RECURSIVE blocked AS (
  (SELECT p.lane, p.topic, p.key, p.seq FROM outrider.delivery p WHERE p.hold = 2 AND p.key IS NOT NULL
    ORDER BY p.lane, p.topic, p.key, p.seq LIMIT 1)
  UNION ALL
  SELECT n.lane, n.topic, n.key, n.seq FROM blocked b CROSS JOIN LATERAL (SELECT p.lane, p.topic, p.key, p.seq FROM outrider.delivery p
     WHERE p.hold = 2 AND p.key IS NOT NULL AND (p.lane, p.topic, p.key) > (b.lane, b.topic, b.key)
     ORDER BY p.lane, p.topic, p.key, p.seq LIMIT 1) n)
SELECT b.topic, b.key, h.seq AS head_seq, o.id AS head_id, o.type AS head_type,
       CASE WHEN h.seq IS NULL THEN 'gone' WHEN h.hold = 3 THEN 'dead'
            WHEN EXISTS (SELECT FROM outrider.claim c WHERE h.seq = ANY (c.seqs)) THEN 'leased'
            WHEN h.due_at > now() THEN 'backing off' ELSE 'pending' END AS head_state,
       h.last_error, h.attempts, h.refusals, CASE WHEN h.hold = 1 THEN h.due_at END AS due_at, h.dead_at,
       o.since, clock_timestamp() - o.since AS age, n.events AS blocked, b.lane
  FROM blocked b
  LEFT JOIN LATERAL (SELECT d.* FROM outrider.delivery d WHERE d.lane = b.lane AND d.topic = b.topic AND d.key = b.key
       AND d.hold IN (1, 2, 3) AND d.hold + 0 <> 2 AND d.seq < b.seq ORDER BY d.seq DESC LIMIT 1) h ON true
  LEFT JOIN LATERAL (SELECT x.id, x.type, coalesce(x.available_at, x.occurred_at) AS since FROM outrider.outbox x
       WHERE x.seq = h.seq LIMIT 1) o ON true
  CROSS JOIN LATERAL (SELECT count(*) AS events FROM outrider.delivery d WHERE d.lane = b.lane AND d.topic = b.topic
       AND d.key = b.key AND d.hold = 2) n;

-- Who may read the one view may read the other.
DO $$
DECLARE reader text;
BEGIN
  FOR reader IN SELECT pg_catalog.pg_get_userbyid(a.grantee) FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
                 WHERE c.oid = 'outrider.events'::pg_catalog.regclass AND a.privilege_type = 'SELECT' AND a.grantee NOT IN (0, c.relowner) LOOP
    EXECUTE format('GRANT SELECT ON outrider.blocked_keys TO %I', reader);
  END LOOP;
END $$;

-- As before, and for this view. Gives both roles what they need and nothing else; repeat freely. Other names: pass them.
CREATE OR REPLACE FUNCTION outrider.grant_rights(app text DEFAULT 'outrider_app', relay text DEFAULT 'outrider_relay') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE setting text;
BEGIN
  IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = app) THEN
    EXECUTE format('GRANT USAGE ON SCHEMA outrider TO %I', app);
    -- Not INSERT (seq): nobody chooses a place. SELECT serves RETURNING.
    EXECUTE format('GRANT INSERT (id, sequence_no, occurred_at, available_at, causation_id, topic, key, type, content_type,
      aggregate_type, aggregate_id, headers, payload), SELECT (id, seq) ON outrider.outbox TO %I', app);
    EXECUTE format('GRANT EXECUTE ON FUNCTION outrider.publish(text, text, text, bytea, jsonb, timestamptz, boolean),
      outrider.record_delivery(uuid, text) TO %I', app);
  ELSE
    RAISE WARNING 'role % does not exist: its rights are skipped', app;
  END IF;
  IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = relay) THEN
    EXECUTE format('GRANT USAGE ON SCHEMA outrider TO %I', relay);
    EXECUTE format('GRANT SELECT, DELETE ON outrider.outbox TO %I', relay);
    EXECUTE format('GRANT UPDATE (causation_id) ON outrider.outbox TO %I', relay);     -- nothing updates it: SKIP LOCKED asks for it
    EXECUTE format('GRANT SELECT, UPDATE, DELETE ON outrider.delivery TO %I', relay);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON outrider.claim, outrider.replica TO %I', relay);
    EXECUTE format('GRANT SELECT, UPDATE ON outrider.lane TO %I', relay);              -- UPDATE is also what FOR SHARE asks for
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON outrider.receipt TO %I', relay);
    EXECUTE format('GRANT SELECT ON outrider.events, outrider.blocked_keys, outrider.migration TO %I', relay);
    EXECUTE format('GRANT SELECT ON SEQUENCE outrider.outbox_seq_seq TO %I', relay);
    EXECUTE format('GRANT EXECUTE ON FUNCTION outrider.lane_of(text, bigint) TO %I', relay);
    -- Poolers drop what a session sets, so the role has it too. The planner would read the delivery table whole.
    FOREACH setting IN ARRAY ARRAY['enable_seqscan=off', 'jit=off', 'lock_timeout=200ms'] LOOP
      IF NOT EXISTS (SELECT FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole
                      WHERE r.rolname = relay AND s.setdatabase = 0 AND setting = ANY (s.setconfig)) THEN
        BEGIN
          EXECUTE format('ALTER ROLE %I SET %s = %L', relay, split_part(setting, '=', 1), split_part(setting, '=', 2));
        EXCEPTION
          WHEN insufficient_privilege THEN
            RAISE WARNING 'setting % of role % may not be changed here and is skipped', setting, relay;
          WHEN internal_error THEN NULL;                          -- set this moment for another database of the server
        END;
      END IF;
    END LOOP;
  ELSE
    RAISE WARNING 'role % does not exist: its rights are skipped', relay;
  END IF;
END $$;
