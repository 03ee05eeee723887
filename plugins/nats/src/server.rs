//! One server's url: where it is, and who is to log in there.
//!
//! The client takes a user from its options only, and logs urls as they are; so the user is cut out here. Must
//! not echo a url.

use async_nats::ServerAddr;
use percent_encoding::percent_decode_str;

/// User and password, or a token alone, as NATS urls have it.
pub(crate) type User = (String, Option<String>);

/// One server of the list, and the user in its url.
pub(crate) fn server(url: &str) -> Result<(ServerAddr, Option<User>), &'static str> {
    const RULE: &str = "must be `nats://host:port` or `tls://host:port`, several with commas";
    let mut url = url.parse::<ServerAddr>().map_err(|_| RULE)?.into_inner();
    if !matches!(url.scheme(), "nats" | "tls") || url.host_str().is_none_or(str::is_empty) {
        return Err(RULE);
    }
    let decoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8();
        text.map(|text| text.into_owned()).map_err(|_| "must have a user and password in UTF-8")
    };
    let user = match (url.username(), url.password()) {
        ("", _) => None,
        (user, password) => Some((decoded(user)?, password.map(decoded).transpose()?)),
    };
    url.set_username("").map_err(|()| RULE)?;
    url.set_password(None).map_err(|()| RULE)?;
    Ok((ServerAddr::from_url(url).map_err(|_| RULE)?, user))
}
