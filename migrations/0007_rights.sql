-- Two roles: outrider_app for services, outrider_relay for outrider itself.
-- Made without login where that is allowed; where it is not, the database's owner makes them and runs
-- `SELECT outrider.grant_rights()` once more.
-- Lock: catalog rows only. Time: instant.
REVOKE ALL ON SCHEMA outrider FROM PUBLIC;
REVOKE ALL ON FUNCTION outrider.lane_of(text, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION outrider.outbox_delivery() FROM PUBLIC;
REVOKE ALL ON FUNCTION outrider.publish(text, text, text, bytea, jsonb, timestamptz, boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION outrider.record_delivery(uuid, text) FROM PUBLIC;

DO $$
DECLARE wanted text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['outrider_app', 'outrider_relay'] LOOP
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = wanted) THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
      EXCEPTION
        WHEN duplicate_object OR unique_violation THEN NULL;      -- made this moment for another database of the server
        WHEN insufficient_privilege THEN
          RAISE WARNING 'role % does not exist and may not be made here: its rights are skipped', wanted;
      END;
    END IF;
  END LOOP;
END $$;

-- Gives both roles what they need and nothing else; repeat freely. Other names: pass them.
CREATE FUNCTION outrider.grant_rights(app text DEFAULT 'outrider_app', relay text DEFAULT 'outrider_relay') RETURNS void
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
    EXECUTE format('GRANT SELECT ON outrider.events, outrider.migration TO %I', relay);
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
REVOKE ALL ON FUNCTION outrider.grant_rights(text, text) FROM PUBLIC;
SELECT outrider.grant_rights();
