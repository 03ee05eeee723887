//! Logging in with keys: a user's nkey, and a credentials file under an operator.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;

use super::server::Server;
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_users_nkey() {
    let (user, stranger) = (KeyPair::new_user(), KeyPair::new_user());
    let config = format!("authorization {{ users = [{{ nkey: {} }}] }}", user.public_key());
    let Some(server) = Server::start(&config) else { return };
    connect_with(json!({ "url": server.url(), "nkey": user.seed().unwrap() })).await;
    let cause = no_connection(json!({ "url": server.url(), "nkey": stranger.seed().unwrap() })).await;
    assert_cause(&cause, Scope::Broker, ErrorClass::Authentication);
}

/// A token that says `claims` about `subject`.
fn jwt(issuer: &KeyPair, subject: &str, claims: Value) -> String {
    let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let body = json!({
        "jti": subject, "iat": 1_700_000_000, "iss": issuer.public_key(), "name": "test", "sub": subject,
        "nats": claims,
    });
    let text = format!("{}.{}", encode(json!({ "typ": "JWT", "alg": "ed25519-nkey" })), encode(body));
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(text.as_bytes()).unwrap());
    format!("{text}.{signature}")
}

/// What `nsc` writes for a user.
fn credentials(account: &KeyPair, user: &KeyPair) -> String {
    let claims = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
    let jwt = jwt(account, &user.public_key(), claims);
    let seed = user.seed().unwrap();
    format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credentials_file() {
    let (operator, account, user) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_user());
    let operator_jwt = jwt(&operator, &operator.public_key(), json!({ "type": "operator", "version": 2 }));
    let limits = |storage: i64| {
        json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
            "leaf": -1, "mem_storage": storage, "disk_storage": storage, "streams": storage, "consumer": storage,
        })
    };
    let account_jwt = |account: &KeyPair, storage| {
        let claims = json!({ "type": "account", "version": 2, "limits": limits(storage) });
        jwt(&operator, &account.public_key(), claims)
    };
    // JetStream wants a system account, which may not have storage of its own.
    let system = KeyPair::new_account();
    let Some(server) = Server::start(&format!(
        "operator: {operator_jwt}\nresolver: MEMORY\nsystem_account: {}\n\
         resolver_preload: {{\n{}: {}\n{}: {}\n}}",
        system.public_key(),
        system.public_key(),
        account_jwt(&system, 0),
        account.public_key(),
        account_jwt(&account, -1),
    )) else {
        return;
    };
    let connection =
        connect_with(json!({ "url": server.url(), "credentials": credentials(&account, &user) })).await;
    connection.probe(Instant::now() + PATIENCE).await.unwrap();

    let stranger = credentials(&KeyPair::new_account(), &user);
    let cause = no_connection(json!({ "url": server.url(), "credentials": stranger })).await;
    assert_cause(&cause, Scope::Broker, ErrorClass::Authentication);
}
