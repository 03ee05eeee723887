//! The daemon's config for one run: one tenant, one broker, one route, and defaults for everything else.

use crate::args::Args;
use crate::target::Target;

/// The only tenant.
pub(crate) const TENANT: &str = "bench";

/// The only topic of its events.
pub(crate) const TOPIC: &str = "bench.events";

/// The only broker. All targets have the same name, so that all else is equal.
pub(crate) const BROKER: &str = "target";

/// The variable that holds the database's URL, with its password.
const DATABASE: &str = "BENCH_DATABASE_URL";

/// `outrider.toml`. `name` is the destination's.
pub(crate) fn main(args: &Args, target: Target, name: &str) -> String {
    let (kind, params, to) = target.config(args, name);
    format!(
        "[brokers.{BROKER}]\nkind = \"{kind}\"\nparams = {{ {params} }}\n\n\
         [[routes]]\ntopic = \"{TOPIC}\"\nbroker = \"{BROKER}\"\nto = {{ {to} }}\n"
    )
}

/// `tenants/bench.toml`.
pub(crate) fn tenant() -> String {
    format!("database = {{ url = \"env:{DATABASE}\" }}\n")
}

/// What the references stand for.
pub(crate) fn variables(database: String, target: Target) -> Vec<(String, String)> {
    std::iter::once((DATABASE.to_owned(), database)).chain(target.variable()).collect()
}
