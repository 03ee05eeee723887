//! The `url` parameter. Pure; its faults never repeat the URL, for it holds a password.

use lapin::uri::AMQPUri;

/// Longest virtual host name, in bytes: a short string of the protocol.
pub(crate) const MAX_VHOST_BYTES: usize = 255;

/// What may stand after `?`. Everything else a URL can say there has a parameter of its own.
const QUERY: &[&str] = &["auth_mechanism"];

/// Reads an AMQP URL. The error is a [`Fault`](outrider_broker::Fault)'s rule.
pub(crate) fn parse(url: &str) -> Result<AMQPUri, String> {
    const FORM: &str = "must be an AMQP URL such as `amqp://user:password@host:5672/vhost`, with special characters in user, \
         password and virtual host percent-encoded";
    let Some((scheme, rest)) = url.split_once("://") else { return Err(FORM.to_owned()) };
    if !matches!(scheme, "amqp" | "amqps") {
        return Err("must begin with `amqp://` or `amqps://`".to_owned());
    }
    let (authority_and_path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = authority_and_path.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.is_empty() || host.starts_with(':') {
        return Err("has no host: write `amqp://user:password@host:5672/vhost`".to_owned());
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let name = pair.split('=').next().unwrap_or_default();
        if !QUERY.contains(&name) {
            return Err(
                "may only have `auth_mechanism` after `?`; heartbeat and TLS are parameters beside `url`"
                    .to_owned(),
            );
        }
    }
    let mut uri: AMQPUri = url.parse().map_err(|_: String| FORM.to_owned())?;
    // The library drops a bracketed address and takes `localhost` instead.
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.split(']').next()) {
        uri.authority.host = address.to_owned();
    }
    if uri.vhost.len() > MAX_VHOST_BYTES {
        return Err(format!(
            "has a virtual host of {} bytes; {MAX_VHOST_BYTES} are allowed",
            uri.vhost.len()
        ));
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_and_vhost(url: &str) -> (String, u16, String) {
        let uri = parse(url).unwrap();
        (uri.authority.host, uri.authority.port, uri.vhost)
    }

    #[test]
    fn good_urls() {
        for (url, host, port, vhost) in [
            ("amqp://localhost", "localhost", 5672, "/"),
            ("amqp://u:p%40ss@mq.example:5673/%2f", "mq.example", 5673, "/"),
            ("amqps://mq.example/orders", "mq.example", 5671, "orders"),
            ("amqp://u:p@[::1]:5672/v", "::1", 5672, "v"),
            ("amqp://127.0.0.1/?auth_mechanism=external", "127.0.0.1", 5672, ""),
        ] {
            assert_eq!(host_and_vhost(url), (host.to_owned(), port, vhost.to_owned()), "{url}");
        }
        assert_eq!(parse("amqp://u:p%40ss@h").unwrap().authority.userinfo.password, "p@ss");
    }

    /// C93: no fault repeats the URL.
    #[test]
    fn bad_urls_are_not_repeated() {
        let long = format!("amqp://u:secret@h/{}", "v".repeat(256));
        for url in [
            "secret",
            "http://u:secret@h",
            "amqp://",
            "amqp:///secret",
            "amqp://u:secret@:5672/v",
            "amqp://u:secret@h:port/v",
            "amqp://u:secret@h/%ff",
            "amqp://u:secret@h/v?heartbeat=secret",
            "amqp://u:secret@h/v?auth_mechanism=secret",
            long.as_str(),
        ] {
            let rule = parse(url).expect_err(url);
            assert!(!rule.contains("secret") && !rule.is_empty(), "{url}: {rule}");
        }
    }
}
