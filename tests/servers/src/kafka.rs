//! A private Apache Kafka: one node in KRaft mode, topics only by request.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::address::KAFKA_BOOTSTRAP;
use crate::daemon::Daemon;
use crate::holder::Holder;
use crate::install::{Install, Kafka};
use crate::server::Server;
use crate::{ports, probe};

/// Any 16 bytes in base64 do: each node is a cluster of its own.
const CLUSTER_ID: &str = "MkU3OEVBNTcwNTJENDM2Qk";

/// What the JVM is tuned for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tuning {
    /// Starts fast and stays small: 400 MB of heap, no optimising compiler.
    #[default]
    Tests,
    /// Runs fast: 1 GB of heap, all compilers.
    Bench,
}

impl Tuning {
    fn options(self) -> &'static [&'static str] {
        match self {
            Tuning::Tests => &["-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
            Tuning::Bench => &["-Xmx1g", "-XX:+UseSerialGC"],
        }
    }
}

/// Starts a new, empty one for the calling process. Ready in 3 to 6 s.
///
/// # Errors
/// When it is not installed, or does not start.
pub fn start(install: &Install) -> Result<Server> {
    start_for(&Holder::own()?, install, Tuning::Tests)
}

/// A further listener, whose clients are told to come to another port: a proxy's.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Where Kafka listens for it.
    pub listens: u16,
    /// Where it tells clients to connect.
    pub advertised: u16,
}

/// The same with further listeners.
///
/// # Errors
/// As [`start`].
pub fn start_with_ways(install: &Install, ways: &[Way]) -> Result<Server> {
    start_at(&Holder::own()?, install, Tuning::Tests, ways)
}

pub(crate) fn start_for(holder: &Holder, install: &Install, tuning: Tuning) -> Result<Server> {
    start_at(holder, install, tuning, &[])
}

fn start_at(holder: &Holder, install: &Install, tuning: Tuning, ways: &[Way]) -> Result<Server> {
    let kafka = install.kafka()?;
    let folder = holder.server_folder("kafka")?;
    let (port, controller) = (ports::free()?, ports::free()?);
    let properties = folder.join("server.properties");
    fs::write(&properties, server_properties(port, controller, ways, &folder.join("data")))
        .with_context(|| format!("write `{}`", properties.display()))?;
    format_storage(&kafka, &properties)?;

    let mut command = java(&kafka, tuning);
    command.arg("kafka.Kafka").arg(&properties).current_dir(&folder);
    let daemon = Daemon::new("kafka", command, &folder.join("kafka.log"))?
        .ready_when(move || probe::kafka_answers(port));
    let ports = [("kafka", port), ("controller", controller)].into();
    Server::start("kafka", folder, ports, vec![(KAFKA_BOOTSTRAP, format!("127.0.0.1:{port}"))], vec![daemon])
}

fn server_properties(port: u16, controller: u16, ways: &[Way], data: &Path) -> String {
    let each = |text: fn(usize, &Way) -> String| -> String {
        ways.iter().enumerate().map(|(number, way)| text(number, way)).collect()
    };
    let listeners = each(|number, way| format!(",WAY{number}://127.0.0.1:{}", way.listens));
    let advertised = each(|number, way| format!(",WAY{number}://127.0.0.1:{}", way.advertised));
    let protocols = each(|number, _| format!(",WAY{number}:PLAINTEXT"));
    // Few partitions of the internal topics: with the default of 50 the first consumer group waits for them.
    format!(
        "process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{advertised}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}
controller.quorum.voters=1@127.0.0.1:{controller}
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
",
        data = data.display()
    )
}

fn format_storage(kafka: &Kafka, properties: &Path) -> Result<()> {
    let mut command = java(kafka, Tuning::Tests);
    command.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"]).arg(properties);
    let output = command.stdin(Stdio::null()).output().context("run Kafka's storage tool")?;
    if !output.status.success() {
        bail!("format Kafka's storage: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn java(kafka: &Kafka, tuning: Tuning) -> Command {
    let mut command = Command::new(&kafka.java);
    command.args(tuning.options()).arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
    command.arg("-cp").arg(kafka.jars.join("*"));
    command
}
