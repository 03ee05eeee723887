//! The servers from Docker, as `compose.yaml` has them: for systems without Debian's packages.
//!
//! Those of `cargo xtask servers up` are the project `outrider` and have the file's ports; each other command has a
//! project and ports of its own, so that it neither sees nor ends what another one uses. Must not: be used where
//! private servers can be installed.

use std::fs::File;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use outrider_servers::{address, containers, place, ports, process, shared};
use serde_json::Value;

/// The project of `cargo xtask servers up`; those of other commands are `outrider-NAME-PID`.
const UP: &str = "outrider";

/// Each published port: the variable by which `compose.yaml` takes it, and what it is there without one; a test
/// holds them equal.
const PORTS: [(&str, u16); 5] = [
    ("OUTRIDER_POSTGRES_PORT", 21600),
    ("OUTRIDER_KAFKA_PORT", 21610),
    ("OUTRIDER_RABBITMQ_PORT", 21620),
    ("OUTRIDER_RABBITMQ_MANAGEMENT_PORT", 21621),
    ("OUTRIDER_NATS_PORT", 21630),
];

/// Containers of one project.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    name: String,
    /// In the order of [`PORTS`].
    ports: [u16; PORTS.len()],
}

/// A project that runs for this command. Dropped, its containers are removed, with their data; their logs stay.
#[derive(Debug)]
pub(crate) struct Held(Project);

/// Whether the containers can be had here.
pub(crate) fn is_here() -> bool {
    containers::docker_answers()
}

/// Removes the containers of commands that were killed before they could, and returns their projects' names.
pub(crate) fn sweep() -> Vec<String> {
    let output =
        Command::new("docker").args(["compose", "ls", "--all", "--quiet"]).stdin(Stdio::null()).output();
    let Ok(output) = output else { return Vec::new() };
    let listed = String::from_utf8_lossy(&output.stdout);
    let abandoned = listed.lines().filter(|name| pid(name).is_some_and(|pid| !process::is_taken(pid)));
    let projects =
        abandoned.map(|name| Project { name: name.to_owned(), ports: PORTS.map(|(_, port)| port) });
    projects.filter(|project| project.down().is_ok()).map(|project| project.name).collect()
}

/// The command that a project was made for.
fn pid(name: &str) -> Option<u32> {
    name.strip_prefix(UP)?.strip_prefix('-')?.rsplit_once('-')?.1.parse().ok()
}

impl Project {
    /// The one that stays until it is told to stop.
    pub(crate) fn up() -> Project {
        Project { name: UP.to_owned(), ports: PORTS.map(|(_, port)| port) }
    }

    /// Starts one for this process.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn hold(name: &str) -> Result<Held> {
        let mut ports = [0; PORTS.len()];
        for port in &mut ports {
            *port = ports::free()?;
        }
        let project = Project { name: format!("{UP}-{name}-{}", std::process::id()), ports };
        project.start()?;
        Ok(Held(project))
    }

    /// Starts the containers and waits until all are healthy. No effect on those that are.
    ///
    /// # Errors
    /// When one does not start; what they say is shown, and all are removed.
    pub(crate) fn start(&self) -> Result<()> {
        let started = self.compose(&["up", "--detach", "--wait"]);
        if started.is_err() {
            // Each says itself what is wrong; the first cause is what counts.
            let _ = self.compose(&["logs", "--no-color", "--tail", "20"]);
            let _ = self.down();
        }
        started
    }

    /// Removes the containers and their data.
    pub(crate) fn down(&self) -> Result<()> {
        self.compose(&["down", "--volumes"])
    }

    /// The services whose container runs and is healthy.
    pub(crate) fn running(&self) -> Result<Vec<String>> {
        let output = self.command(&["ps", "--format", "json"]).stderr(Stdio::inherit()).output();
        let output = output.context("run `docker compose ps`")?;
        if !output.status.success() {
            bail!("run `docker compose ps`: {}", output.status);
        }
        running(&output.stdout)
    }

    /// The servers by service, with the environment variables by which programs find them.
    pub(crate) fn servers(&self) -> [(&'static str, Vec<(String, String)>); 4] {
        let [postgres, kafka, amqp, management, nats] = self.ports;
        let variable = |name: &str, value: String| (name.to_owned(), value);
        let on_postgres = format!("postgres://postgres@127.0.0.1:{postgres}/postgres");
        let managed = format!("http://guest:guest@127.0.0.1:{management}");
        [
            ("postgres", vec![variable(address::POSTGRES_URL, on_postgres)]),
            ("kafka", vec![variable(address::KAFKA_BOOTSTRAP, format!("127.0.0.1:{kafka}"))]),
            (
                "rabbitmq",
                vec![
                    variable(address::RABBITMQ_URL, format!("amqp://guest:guest@127.0.0.1:{amqp}/%2f")),
                    variable(address::RABBITMQ_MANAGEMENT_URL, managed),
                ],
            ),
            ("nats", vec![variable(address::NATS_URL, format!("nats://127.0.0.1:{nats}"))]),
        ]
    }

    /// All of those, and that they lead to containers.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let servers = self.servers().into_iter().flat_map(|(_, variables)| variables);
        servers.chain([(address::CONTAINERS.to_owned(), "1".to_owned())]).collect()
    }

    fn keep_logs(&self) -> Result<()> {
        let folder = shared::logs();
        place::make(&folder)?;
        for (service, _) in self.servers() {
            let path = folder.join(format!("{service}.log"));
            let file = File::create(&path).with_context(|| format!("write `{}`", path.display()))?;
            let errors = file.try_clone().context("write a log")?;
            let mut command = self.command(&["logs", "--no-color", "--no-log-prefix", service]);
            command.stdout(file).stderr(errors).status().context("run `docker compose logs`")?;
        }
        Ok(())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.args(["compose", "--file", "compose.yaml", "--project-name", &self.name]).args(arguments);
        command.envs(PORTS.iter().zip(self.ports).map(|((name, _), port)| (name, port.to_string())));
        command.current_dir(place::workspace()).stdin(Stdio::null());
        command
    }

    fn compose(&self, arguments: &[&str]) -> Result<()> {
        let shown = arguments.join(" ");
        // Its standard output too goes to standard error: this program's own is for addresses.
        let status = self.command(arguments).stdout(std::io::stderr()).status();
        let status = status.with_context(|| format!("run `docker compose {shown}`"))?;
        if !status.success() {
            bail!("run `docker compose {shown}`: {status}");
        }
        Ok(())
    }
}

impl Held {
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        self.0.variables()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Not worth a failure: the servers have done their work.
        let _ = self.0.keep_logs();
        if let Err(cause) = self.0.down() {
            eprintln!("failed to {cause:#}");
        }
    }
}

/// Docker Compose prints a line of JSON a container, and printed one list of all before 2.21.
fn running(printed: &[u8]) -> Result<Vec<String>> {
    let mut containers = Vec::new();
    for value in serde_json::Deserializer::from_slice(printed).into_iter() {
        match value.context("read what `docker compose ps` prints")? {
            Value::Array(list) => containers.extend(list),
            container => containers.push(container),
        }
    }
    let runs = |container: &&Value| container["State"] == "running" && container["Health"] == "healthy";
    let services = containers.iter().filter(runs).filter_map(|container| container["Service"].as_str());
    Ok(services.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compose_file_publishes_these_ports_by_default() {
        let file = std::fs::read_to_string(place::workspace().join("compose.yaml")).unwrap();
        for (name, port) in PORTS {
            let published = format!("127.0.0.1:${{{name}:-{port}}}:");
            assert!(file.contains(&published), "no `{published}` in compose.yaml");
        }
    }

    #[test]
    fn a_project_is_of_the_command_whose_pid_ends_its_name() {
        assert_eq!(pid("outrider-test-4711"), Some(4711));
        for name in ["outrider", "outrider-test", "outrider-4711", "another-test-4711", "outriders-test-4711"]
        {
            assert_eq!(pid(name), None, "{name}");
        }
    }

    #[test]
    fn what_runs_is_read_from_lines_and_from_a_list() {
        let kafka = r#"{"Service":"kafka","State":"running","Health":"healthy"}"#;
        let nats = r#"{"Service":"nats","State":"running","Health":"starting"}"#;
        let postgres = r#"{"Service":"postgres","State":"exited","Health":""}"#;
        for printed in [format!("{kafka}\n{nats}\n{postgres}\n"), format!("[{kafka},{nats},{postgres}]")] {
            assert_eq!(running(printed.as_bytes()).unwrap(), ["kafka"], "{printed}");
        }
        assert!(running(b"").unwrap().is_empty());
    }
}
