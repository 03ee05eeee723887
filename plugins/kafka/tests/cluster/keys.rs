//! Keys and partitions: null, empty, and the same hash as Java's producer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use outrider_broker::Message;
use serde_json::json;

use crate::support::{Record, assert_all, bootstrap, connect, create_topic, message, publish, read, unique};

const PARTITIONS: i32 = 6;

/// MurmurHash2 with Java's producer's seed, signs and order of bytes.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(data.len()).unwrap();
    let mut hash = 0x9747_b28c ^ length;
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes(chunk.try_into().unwrap()).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        for (place, &byte) in rest.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

fn java_partition(key: &[u8]) -> i32 {
    i32::try_from(murmur2(key) & 0x7fff_ffff).unwrap() % PARTITIONS
}

/// Values that Apache Kafka's own test of its `murmur2` expects.
#[test]
fn the_reference_hash_is_javas() {
    for (text, expected) in [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ] {
        assert_eq!(murmur2(text.as_bytes()).cast_signed(), expected, "{text}");
    }
}

async fn publish_and_read(partitioner: Option<&str>, messages: Vec<Message>) -> Vec<Record> {
    let topic = messages[0].destination["topic"].clone();
    create_topic(&topic, PARTITIONS, &[]).await;
    let partitioner = partitioner.map(|name| ("partitioner", json!(name)));
    let connection = connect(&bootstrap(), partitioner.as_slice(), Duration::from_secs(8)).await;
    let count = messages.len();
    // In several batches: a null key sticks to one partition for as long as a batch of the client's lasts.
    for part in messages.chunks(20) {
        assert_all(&publish(&*connection, part.to_vec(), Duration::from_secs(8)).await, "confirmed");
    }
    let records = read(&bootstrap(), &topic, count, Instant::now() + Duration::from_secs(30)).await;
    assert_eq!(records.len(), count);
    records
}

/// C36: for 100 keys, the partition is the one that Java's producer picks.
#[tokio::test]
async fn keys_go_where_javas_producer_puts_them() {
    let topic = unique("keys");
    let keys = (0..100).map(|n| format!("{}-ключ-{n}", "k".repeat(n % 7)));
    let messages = keys.map(|key| message(&topic, 1, Some(&key), "x")).collect();
    for record in publish_and_read(None, messages).await {
        let key = record.key.unwrap();
        assert_eq!(record.partition, java_partition(&key), "{}", String::from_utf8_lossy(&key));
    }
}

/// C36: no key is a null key and goes anywhere; the empty key is a key, and its records share a partition.
#[tokio::test]
async fn an_empty_key_is_not_a_null_key() {
    for (partitioner, empty_shares, null_shares) in
        [(None, true, false), (Some("murmur2"), true, true), (Some("consistent_random"), false, false)]
    {
        let topic = unique("empty-keys");
        let messages =
            (0..600).map(|n| message(&topic, n, [None, Some(""), Some("a")][n as usize % 3], "x")).collect();
        let mut partitions: BTreeMap<Option<Vec<u8>>, BTreeSet<i32>> = BTreeMap::new();
        for record in publish_and_read(partitioner, messages).await {
            partitions.entry(record.key).or_default().insert(record.partition);
        }
        let of = |key: Option<&str>| &partitions[&key.map(|key| key.as_bytes().to_vec())];
        assert_eq!(partitions.len(), 3, "{partitioner:?}");
        assert_eq!(of(Some("a")).len(), 1, "{partitioner:?}");
        assert_eq!(of(Some("")).len() == 1, empty_shares, "{partitioner:?}");
        assert_eq!(of(None).len() == 1, null_shares, "{partitioner:?}");
        if partitioner.is_none() {
            assert_eq!(of(Some("")), &BTreeSet::from([java_partition(b"")]));
        }
    }
}
