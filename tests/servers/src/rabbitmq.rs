//! A private RabbitMQ and the epmd that its node registers with. The shared one has the management plugin, a test's
//! own one does not: it starts faster without.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::address::{RABBITMQ_MANAGEMENT_URL, RABBITMQ_URL};
use crate::daemon::Daemon;
use crate::holder::Holder;
use crate::install::{Install, RabbitMq};
use crate::server::Server;
use crate::{place, ports, probe};

/// `guest:guest`, in base64.
const CREDENTIALS: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";
/// Distribution on loopback alone; epmd is started here, for one that Erlang starts outlives the node.
const ERLANG_ARGUMENTS: &str = "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false";

#[derive(Clone, Copy, Debug)]
struct Ports {
    amqp: u16,
    management: u16,
    epmd: u16,
    distribution: u16,
}

/// Starts a new, empty one for the calling process. Ready in 6 to 10 s.
///
/// # Errors
/// When it is not installed, or does not start.
pub fn start(install: &Install) -> Result<Server> {
    start_with(&Holder::own()?, install, false)
}

/// One with the management plugin.
pub(crate) fn start_for(holder: &Holder, install: &Install) -> Result<Server> {
    start_with(holder, install, true)
}

fn start_with(holder: &Holder, install: &Install, managed: bool) -> Result<Server> {
    let rabbitmq = install.rabbitmq()?;
    let folder = holder.server_folder("rabbitmq")?;
    let ports = Ports {
        amqp: ports::free()?,
        management: ports::free()?,
        epmd: ports::free()?,
        distribution: ports::free()?,
    };
    for name in ["mnesia", "log", "home"] {
        place::make(&folder.join(name))?;
    }
    write(&folder.join("rabbitmq.conf"), &configuration(ports, managed))?;
    let plugins = if managed { "rabbitmq_management" } else { "" };
    write(&folder.join("enabled_plugins"), &format!("[{plugins}].\n"))?;

    let Ports { amqp, management, epmd, distribution } = ports;
    let daemons = vec![
        Daemon::new("epmd", epmd_command(&rabbitmq, &folder, epmd), &folder.join("epmd.log"))?
            .ready_when(move || probe::listens(epmd)),
        Daemon::new("rabbitmq", node_command(&rabbitmq, &folder, ports), &folder.join("rabbitmq.log"))?
            .ready_when(move || {
                probe::amqp_answers(amqp)
                    && (!managed || probe::http_is_ok(management, "/api/overview", CREDENTIALS))
            }),
    ];
    let mut variables = vec![(RABBITMQ_URL, format!("amqp://guest:guest@127.0.0.1:{amqp}/%2f"))];
    let mut ports: BTreeMap<_, _> = [("amqp", amqp), ("epmd", epmd), ("distribution", distribution)].into();
    if managed {
        variables.push((RABBITMQ_MANAGEMENT_URL, format!("http://guest:guest@127.0.0.1:{management}")));
        ports.insert("management", management);
    }
    Server::start("rabbitmq", folder, ports, variables, daemons)
}

fn configuration(ports: Ports, managed: bool) -> String {
    // The disk limit is low because the default refuses publishes on a small, half-full machine.
    let mut text = format!(
        "listeners.tcp.1 = 127.0.0.1:{}
loopback_users.guest = true
log.console.level = info
vm_memory_high_watermark.absolute = 1GB
disk_free_limit.absolute = 50MB
",
        ports.amqp
    );
    if managed {
        text += &format!("management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {}\n", ports.management);
    }
    text
}

fn epmd_command(rabbitmq: &RabbitMq, folder: &Path, port: u16) -> Command {
    let mut command = Command::new(&rabbitmq.epmd);
    command.args(["-address", "127.0.0.1", "-port", &port.to_string()]).current_dir(folder);
    command
}

fn node_command(rabbitmq: &RabbitMq, folder: &Path, ports: Ports) -> Command {
    let mut command = Command::new(rabbitmq.programs.join("rabbitmq-server"));
    command.current_dir(folder);
    // What the machine's own RabbitMQ is told must not reach this one.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RABBITMQ_") {
            command.env_remove(name);
        }
    }
    command.env_remove("NOTIFY_SOCKET");
    // Makes the script become the server, instead of staying as its parent and turning SIGTERM into a slow
    // `rabbitmqctl stop`.
    command.env("RUNNING_UNDER_SYSTEMD", "true");
    command.env("HOME", folder.join("home"));
    command.env("ERL_EPMD_ADDRESS", "127.0.0.1").env("ERL_EPMD_PORT", ports.epmd.to_string());
    command.env("RABBITMQ_NODENAME", format!("outrider{}@localhost", ports.amqp));
    command.env("RABBITMQ_DIST_PORT", ports.distribution.to_string());
    command.env("RABBITMQ_MNESIA_BASE", folder.join("mnesia"));
    command.env("RABBITMQ_LOG_BASE", folder.join("log")).env("RABBITMQ_LOGS", "-");
    command.env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"));
    command.env("RABBITMQ_ADVANCED_CONFIG_FILE", folder.join("advanced.config"));
    command.env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("enabled_plugins"));
    command.env("RABBITMQ_PID_FILE", folder.join("pid"));
    command.env("RABBITMQ_CONF_ENV_FILE", "/dev/null");
    command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", ERLANG_ARGUMENTS);
    command.env("RABBITMQ_CTL_ERL_ARGS", ERLANG_ARGUMENTS);
    command
}

/// Runs `rabbitmqctl` on a server that this process started.
///
/// # Errors
/// With what it printed, when it fails.
pub fn control(server: &Server, arguments: &[&str]) -> Result<()> {
    let programs = Install::locate().rabbitmq()?.programs;
    let port = |purpose| server.port(purpose).with_context(|| format!("find the port `{purpose}`"));
    let output = Command::new(programs.join("rabbitmqctl"))
        .args(arguments)
        .env("HOME", server.folder().join("home"))
        .env("RABBITMQ_NODENAME", format!("outrider{}@localhost", port("amqp")?))
        .env("ERL_EPMD_PORT", port("epmd")?.to_string())
        .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
        .output()
        .context("run `rabbitmqctl`")?;
    if !output.status.success() {
        bail!(
            "run `rabbitmqctl {}`: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write `{}`", path.display()))
}
