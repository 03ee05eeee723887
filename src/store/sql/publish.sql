-- Insert one event the way an application does. Locks: none on rows (with serialize_key an advisory lock on the key).
-- Lost reply: the event may be there; a second run makes a second event.
SELECT outrider.publish(topic => :topic, key => :key, type => :kind, payload => :payload, headers => :headers::jsonb,
                        available_at => :available_at, serialize_key => :serialize_key)
