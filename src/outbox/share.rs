//! temp
use std::collections::BTreeMap;
pub fn share<'a>(units: &[&'a str], replicas: &[&'a str]) -> BTreeMap<&'a str, &'a str> {
    let mut r = replicas.to_vec();
    r.sort_unstable();
    let mut u = units.to_vec();
    u.sort_unstable();
    u.into_iter().enumerate().map(|(i, u)| (u, r[i % r.len()])).collect()
}
