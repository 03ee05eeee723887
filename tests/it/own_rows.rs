//! C61: what is said of one tenant's event is written to that tenant's row, though another has one with the same id and
//! `seq`; and nothing hangs on which column a tenant's table calls its key.

use std::time::Duration;

use outrider_broker::{Cause, ErrorClass, Outcome, Refusal};
use outrider_memory::Behaviour;
use uuid::Uuid;

use crate::relay::{MemoryBroker, Relay, Tenant, until};

const STOP: Duration = Duration::from_secs(5);

/// A broker whose messages name their tenant, and which refuses for good what has `refused` for its payload.
fn hub() -> (MemoryBroker, String) {
    let broker = MemoryBroker::new("hub", "", "");
    let refusal = Refusal { cause: Cause::event(ErrorClass::Invalid, "not this one"), permanent: true };
    broker.store.tell(|message| message.payload == "refused", Behaviour::Answer(Outcome::Refused(refusal)));
    let root = format!(
        "{}[[routes]]\ntopic = \"*\"\nbroker = \"hub\"\nto = {{ name = \"{{tenant}}\" }}\n",
        broker.section
    );
    (broker, root)
}

async fn insert(tenant: &Tenant, id: Uuid, payload: &str) {
    sqlx::query("INSERT INTO outrider.outbox (id, topic, type, payload) VALUES ($1, 'orders', 'test', convert_to($2, 'UTF8'))")
        .bind(id)
        .bind(payload)
        .execute(&tenant.pool)
        .await
        .unwrap();
}

/// State of each event in the order of `seq`.
async fn states(tenant: &Tenant) -> Vec<String> {
    sqlx::query_scalar("SELECT state FROM outrider.events ORDER BY seq")
        .fetch_all(&tenant.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn of_two_tenants_with_the_same_ids_and_seqs_each_has_its_own_outcomes() {
    let (one, other) = (Tenant::new("one").await, Tenant::new("other").await);
    // Whatever one of them has sent, the other's broker refuses.
    for number in 0..20 {
        let id = Uuid::new_v4();
        let payloads = if number % 3 == 0 { ["sent", "refused"] } else { ["refused", "sent"] };
        insert(&one, id, payloads[0]).await;
        insert(&other, id, payloads[1]).await;
    }
    let (broker, root) = hub();
    let relay = Relay::start(&root, &[&one, &other]);
    let expected = |sent: bool| -> Vec<&str> {
        (0..20).map(|number| if (number % 3 == 0) == sent { "sent" } else { "dead" }).collect()
    };
    for (tenant, sent) in [(&one, true), (&other, false)] {
        until("each event has its end", async || states(tenant).await == expected(sent)).await;
    }
    for (name, tenant) in [("one", &one), ("other", &other)] {
        let of_tenant = broker.store.messages();
        let mut seqs: Vec<i64> =
            of_tenant.iter().filter(|m| m.destination["name"] == name).map(|m| m.seq).collect();
        seqs.sort_unstable();
        assert_eq!(seqs, tenant.receipts().await, "marked sent is what was sent");
    }
    relay.stop(STOP).await;
}

// The way it went wrong elsewhere: which column names a row was found out once, and then the key was changed.
#[tokio::test]
async fn a_key_that_is_changed_while_the_relay_runs_makes_no_other_row_sent() {
    let tenant = Tenant::new("rekeyed").await;
    let (broker, root) = hub();
    let relay = Relay::start(&root, &[&tenant]);
    insert(&tenant, Uuid::new_v4(), "sent").await;
    tenant.drained().await;
    let rekey = "ALTER TABLE outrider.outbox DROP CONSTRAINT outbox_pkey, ADD PRIMARY KEY (seq);
                 ALTER TABLE outrider.delivery DROP CONSTRAINT delivery_pkey, ADD PRIMARY KEY (lane, seq)";
    sqlx::raw_sql(rekey).execute(&tenant.pool).await.unwrap();
    let id = Uuid::new_v4();
    for payload in ["sent", "refused", "refused", "sent"] {
        insert(&tenant, id, payload).await;
    }
    until("each event of the one id has its own end", async || {
        states(&tenant).await == ["sent", "sent", "dead", "dead", "sent"]
    })
    .await;
    assert_eq!(tenant.receipts().await, broker.seqs());
    relay.stop(STOP).await;
}
