//! Databases with outrider's tables, for every test here.

use outrider::store::{Schema, migrate};
use outrider_servers::left_out;
use outrider_test_support::database::{Server, TestDatabase};

/// A migrated database on one of the servers; `None`, and a line that says so, where this machine has no such server.
pub(crate) async fn on(server: Server) -> Option<TestDatabase> {
    let url = url(server)?;
    let script = migrate::sql(&Schema::default());
    Some(TestDatabase::create_at(&url, &script).await.expect("a test database"))
}

/// A database without any table.
pub(crate) async fn empty_on(server: Server) -> Option<TestDatabase> {
    let url = url(server)?;
    Some(TestDatabase::empty_at(&url).await.expect("an empty test database"))
}

fn url(server: Server) -> Option<String> {
    let url = server.url();
    if url.is_none() {
        left_out::tell(format_args!("{server:?} is not there; set OUTRIDER_TEST_POSTGRES18_URL"));
    }
    url
}

/// Runs each test on both servers: `name::on_15` and `name::on_18`. A test is an async function that takes its fixture,
/// made by `$make` from a server.
macro_rules! on_both_servers {
    ($make:ident: $($name:ident),+ $(,)?) => {
        $(mod $name {
            #[tokio::test]
            async fn on_15() {
                let fixture = super::$make(outrider_test_support::database::Server::Postgres15).await;
                super::$name(fixture.expect("PostgreSQL 15 is always there")).await;
            }

            #[tokio::test]
            async fn on_18() {
                if let Some(fixture) = super::$make(outrider_test_support::database::Server::Postgres18).await {
                    super::$name(fixture).await;
                }
            }
        })+
    };
}
pub(crate) use on_both_servers;
