//! TLS, with a certificate authority of the test's own. Needs `openssl` in `PATH`.

use std::path::Path;
use std::process::Command;

use super::server::Server;
use super::*;

const CONFIG: &str = r#"
jetstream { store_dir: "store" }
tls { cert_file: "server.pem", key_file: "server.key", ca_file: "ca.pem", verify: true }
"#;

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
    let output = output.expect("`openssl` is in `PATH`: install it");
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, and a server's and a client's certificate that it signed.
fn certificates(folder: &Path) {
    const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(folder, &format!("req -x509 {KEY} -keyout ca.key -out ca.pem -subj /CN=test-ca -days 2"));
    std::fs::write(folder.join("names"), "subjectAltName = IP:127.0.0.1\n").unwrap();
    for name in ["server", "client"] {
        openssl(folder, &format!("req {KEY} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
        let sign = "x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names";
        openssl(folder, &format!("{sign} -in {name}.csr -out {name}.pem"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_checked_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let Some(server) = Server::start_in(folder, CONFIG) else { return };
    let url = format!("tls://{}", server.address());
    let (ca, cert, key) = (server.file("ca.pem"), server.file("client.pem"), server.file("client.key"));

    let cause = no_connection(json!({ "url": url })).await;
    assert_cause(&cause, Scope::Broker, ErrorClass::Unreachable);
    assert!(cause.text.contains("certificate"), "{cause}");
    let cause = no_connection(json!({ "url": url, "ca_file": ca })).await;
    assert_cause(&cause, Scope::Broker, ErrorClass::Unreachable);
    let cause = no_connection(json!({ "url": url, "ca_file": server.file("missing.pem") })).await;
    assert_cause(&cause, Scope::Broker, ErrorClass::Unreachable);

    // The server asks for TLS also where the url does not.
    for url in [url, server.url()] {
        let params = json!({ "url": url, "ca_file": ca, "cert_file": cert, "key_file": key });
        let connection = connect_with(params).await;
        let outcome = publish_one(&*connection, &message("orders", 1)).await;
        assert_retry(&outcome, Scope::Destination, ErrorClass::UnknownDestination);
    }
}
