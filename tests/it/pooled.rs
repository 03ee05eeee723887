//! Behind a pooler that lends a server connection for one transaction, as pgbouncer does.

use outrider_servers::{Install, address, left_out, pgbouncer};
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use outrider::actors::exit::Exit;

use crate::cli_fixture::{Cli, Ended};
use crate::relay::{MemoryBroker, Relay, SOON, Tenant};

const EVENTS: i32 = 600;

/// Other clients of the pooler, more than it has server connections.
const OTHERS: usize = 6;

// C73. Unnamed statements outside a transaction run as somebody else's behind pgbouncer 1.18.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_transaction_pooler_each_event_is_sent_once_and_settled() {
    let install = Install::locate();
    let Some(_) = left_out::unless(install.pgbouncer()) else { return };
    let server: PgConnectOptions = address::postgres().parse().unwrap();
    let pooler = pgbouncer::start(&install, server.get_port(), &[server.get_username()]).unwrap();
    let direct = Tenant::new("pooled").await;
    let through = direct.database.options().host("127.0.0.1").port(pooler.port("pgbouncer").unwrap());
    let url = through.to_url_lossy().to_string();
    let tenant = direct.at(&url).pooled();
    let others: Vec<_> = (0..OTHERS)
        .map(|number| {
            let options = through.clone().extra_float_digits(None);
            tokio::spawn(async move {
                let mut client = options.connect().await.unwrap();
                loop {
                    let sql = format!("SELECT {number}, pg_sleep(0.001)");
                    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut client).await.unwrap();
                }
            })
        })
        .collect();

    let broker = MemoryBroker::new("pooled", "", "");
    let relay = Relay::start(&broker.root("batch_events = 20"), &[&tenant]);
    for _ in 0..3 {
        tenant.insert_many("orders", EVENTS / 3, 7).await;
        tenant.drained().await;
    }
    assert_eq!(relay.stop(SOON).await, Exit::Drained);
    let mut seqs = broker.seqs();
    seqs.sort_unstable();
    assert_eq!(seqs.len(), EVENTS as usize, "each once");
    assert_eq!(tenant.receipts().await, seqs);
    others.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn migrate_through_a_transaction_pooler_says_what_to_do() {
    let tenant = Tenant::new("refused").await;
    let cli = Cli::new(&tenant.database.url());
    let mut command = cli.command(&["migrate"]);
    let ended = command.env("OUTRIDER_TENANTS__ACME__DATABASE__POOLING", "transaction").output().unwrap();
    let ended = Ended::from(ended);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains("through a transaction pooler"), "{ended:?}");
    assert!(ended.err.contains("DATABASE__POOLING=session"), "{ended:?}");
}
