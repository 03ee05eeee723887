//! What a message carries: the payload as it was stored, and the event's id and `seq`, whatever the shape.

use std::collections::BTreeSet;

use outrider_broker::Message;
use uuid::Uuid;

use super::STOP;
use crate::relay::{MemoryBroker, Relay, Tenant};

/// Numbers that no 64-bit float or integer holds, a key that stands there twice, and space that a parser would drop.
const NUMBERS: &str =
    r#"{"a":9007199254740993,"b":12345678901234567890123,"c":1.10,"d":1e400,"e":-0.0, "f":"é","a":1}"#;

// C75. Contract: the payload leaves byte for byte as the application stored it.
#[tokio::test]
async fn a_payload_leaves_byte_for_byte() {
    let tenant = Tenant::new("payloads").await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let payloads: [&[u8]; 7] = [
        &every_byte,
        b"",
        NUMBERS.as_bytes(),
        b"\0",
        b"\xff\xfe\xc3",
        b" \r\n{\"a\": 1}\r\n ",
        &[7; 300_000],
    ];
    let mut expected = Vec::new();
    for payload in payloads {
        expected.push((tenant.insert("orders", None, payload).await, payload.to_vec()));
    }
    // From columns of other types: what leaves is the column's own text.
    for kind in ["text", "json", "jsonb"] {
        let jsonb_knows_no_such_float = kind == "jsonb";
        let value =
            if jsonb_knows_no_such_float { NUMBERS.replace("1e400", "1e40") } else { NUMBERS.to_owned() };
        let sql = format!(
            "INSERT INTO outrider.outbox (topic, type, payload)
             VALUES ('orders', 'test', convert_to($1::text::{kind}::text, 'UTF8')) RETURNING seq, $1::text::{kind}::text"
        );
        let (seq, text): (i64, String) =
            sqlx::query_as(sqlx::AssertSqlSafe(sql)).bind(&value).fetch_one(&tenant.pool).await.unwrap();
        assert!(text.contains("12345678901234567890123"), "{kind} keeps the number: {text}");
        expected.push((seq, text.into_bytes()));
    }
    let broker = MemoryBroker::new("hub", "", "");
    let relay = Relay::start(&broker.root(""), &[&tenant]);
    tenant.drained().await;
    let mut messages = broker.store.messages();
    messages.sort_by_key(|message| message.seq);
    let published: Vec<(i64, Vec<u8>)> =
        messages.iter().map(|message| (message.seq, message.payload.to_vec())).collect();
    assert!(published == expected, "a payload was changed on its way");
    relay.stop(STOP).await;
}

fn header<'a>(message: &'a Message, name: &str) -> Vec<&'a str> {
    let found = message.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str()).collect()
}

// Contract: every message, in every shape, carries the event id and its `seq`.
#[tokio::test]
async fn every_message_carries_the_events_id_and_seq_in_every_shape() {
    let tenant = Tenant::new("shapes").await;
    // The topic is the shape; an application's own header of the id's name gets nowhere.
    let shapes = [
        ("cloudevents", "ce_id", "ce_sequence"),
        ("debezium", "id", "outrider-sequence"),
        ("plain", "outrider-id", "outrider-sequence"),
    ];
    let brokers = shapes.map(|(shape, ..)| MemoryBroker::new(shape, &format!("shape = \"{shape}\""), ""));
    let mut root: String = brokers.iter().map(|broker| broker.section.as_str()).collect();
    for (shape, id, seq) in shapes {
        root.push_str(&format!("[[routes]]\ntopic = \"{shape}\"\nbroker = \"{shape}\"\n"));
        for count in 0..3 {
            sqlx::query(
                "INSERT INTO outrider.outbox (topic, key, type, payload, headers)
                 VALUES ($1, 'k', 'test', '', jsonb_build_object($2::text, 'forged', upper($3), '0', 'x-own', $4::int))",
            )
            .bind(shape)
            .bind(id)
            .bind(seq)
            .bind(count)
            .execute(&tenant.pool)
            .await
            .unwrap();
        }
    }
    let rows: Vec<(String, i64, Uuid)> =
        sqlx::query_as("SELECT topic, seq, id FROM outrider.outbox ORDER BY seq")
            .fetch_all(&tenant.pool)
            .await
            .unwrap();
    let relay = Relay::start(&root, &[&tenant]);
    tenant.drained().await;
    for ((shape, id_header, seq_header), broker) in shapes.into_iter().zip(&brokers) {
        let messages = broker.store.messages();
        let events = rows.iter().filter(|(topic, ..)| topic == shape);
        assert_eq!(messages.len(), 3);
        for (message, (_, seq, id)) in messages.iter().zip(events) {
            assert_eq!((message.seq, message.id), (*seq, *id), "{shape}");
            assert_eq!(header(message, id_header), [id.to_string()], "{shape}");
            assert_eq!(header(message, seq_header), [seq.to_string()], "{shape}");
            assert_eq!(header(message, "x-own").len(), 1, "{shape}");
        }
    }
    relay.stop(STOP).await;
}

// Contract: the id is unique across tenants; equal `seq`s of two tenants never shadow one another.
#[tokio::test]
async fn ids_are_unique_where_seqs_are_not() {
    let tenants = [Tenant::new("ids-one").await, Tenant::new("ids-two").await];
    for tenant in &tenants {
        tenant.insert_many("orders", 50, 5).await;
    }
    let broker = MemoryBroker::new("hub", "", "");
    let relay = Relay::start(&broker.root(""), &[&tenants[0], &tenants[1]]);
    tenants[0].drained().await;
    tenants[1].drained().await;
    let messages = broker.store.messages();
    assert_eq!(messages.len(), 100);
    assert_eq!(messages.iter().map(|message| message.seq).collect::<BTreeSet<_>>().len(), 50);
    assert_eq!(messages.iter().map(|message| message.id).collect::<BTreeSet<_>>().len(), 100);
    relay.stop(STOP).await;
}
