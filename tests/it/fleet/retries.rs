//! C08: an event that always fails is tried at its own pace, however many replicas there are and whoever owns its lane.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use outrider_broker::{Cause, ErrorClass, Outcome, Refusal};
use outrider_memory::Behaviour;
use time::OffsetDateTime;

use super::STOP;
use crate::relay::{MemoryBroker, Relay, Tenant, until};

const REPLICAS: usize = 6;

/// PostgreSQL writes down each end of a try: when that was, and when the next one is due.
const WATCH: &str = "
    CREATE TABLE public.ends (attempts int, ended timestamptz, due timestamptz);
    CREATE FUNCTION public.watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO public.ends VALUES (new.attempts, clock_timestamp(), new.due_at);
      RETURN new;
    END $$;
    CREATE TRIGGER watch BEFORE UPDATE ON outrider.delivery FOR EACH ROW EXECUTE FUNCTION public.watch();";

#[tokio::test]
async fn an_event_that_always_fails_is_tried_once_for_each_due_time_by_all_replicas_together() {
    let tenant = Tenant::new("poison").await;
    sqlx::raw_sql(WATCH).execute(&tenant.pool).await.unwrap();
    let broker = MemoryBroker::new("hub", "", "");
    let tries: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = tries.clone();
    let refusal = Refusal { cause: Cause::event(ErrorClass::Other, "never"), permanent: false };
    broker.store.tell(
        move |message| {
            seen.lock().unwrap().push(message.destination["name"].clone());
            true
        },
        Behaviour::Answer(Outcome::Refused(refusal)),
    );
    let mut relays: Vec<(String, Relay)> = Vec::new();
    for number in 0..REPLICAS {
        let replica = format!("poison-{number}");
        let root = format!(
            "{}[delivery]\nmax_refusals = 1000\nbackoff = {{ base = \"600ms\", max = \"600ms\" }}\n\
             [[routes]]\ntopic = \"*\"\nbroker = \"hub\"\nto = {{ name = \"{replica}\" }}\n",
            broker.section
        );
        relays.push((replica.clone(), Relay::named(&replica, &root, &[&tenant])));
    }
    let seq = tenant.insert("orders", Some("k"), b"x").await;
    let tried = async |count: usize| {
        until("it is tried again and again", async || tries.lock().unwrap().len() >= count).await;
    };
    tried(4).await;
    // Its lane goes to another replica, which knows of the due time what the database does.
    let owner = tenant.owner().await.unwrap();
    let at = relays.iter().position(|(replica, _)| *replica == owner).unwrap();
    relays.swap_remove(at).1.stop(STOP).await;
    let before = tries.lock().unwrap().len();
    tried(before + 3).await;
    for (_, relay) in relays {
        relay.stop(STOP).await;
    }

    let tries = tries.lock().unwrap().clone();
    let senders: BTreeSet<&String> = tries.iter().collect();
    assert!(senders.len() >= 2, "more than one replica had it: {senders:?}");
    let (_, attempts, refusals, _) = tenant.event(seq).await;
    assert_eq!(
        (attempts as usize, refusals as usize),
        (tries.len(), tries.len()),
        "counted as often as tried"
    );
    let ends: Vec<(i32, OffsetDateTime, OffsetDateTime)> =
        sqlx::query_as("SELECT attempts, ended, due FROM public.ends ORDER BY ended")
            .fetch_all(&tenant.pool)
            .await
            .unwrap();
    let counted: Vec<i32> = ends.iter().map(|(attempts, ..)| *attempts).collect();
    assert_eq!(counted, (1..=attempts).collect::<Vec<i32>>(), "one end for each try");
    for pair in ends.windows(2) {
        assert!(pair[1].1 >= pair[0].2, "tried before it was due: {pair:?}");
    }
}
