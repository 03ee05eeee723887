//! Apache Kafka's jars from Maven Central. A download of 43 MB, once.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{Install, find_on_path};
use crate::place;

/// Named in the folder too, so that another version is another download.
const KAFKA: &str = "4.4.0";
/// The logger Kafka is given; the newest of the line that its logging interface loads.
const SLF4J: &str = "1.7.36";
/// In full, for the short form makes Maven look at a dozen other plugins first, and hides why that failed.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// Where the jars are, once they are there.
pub(super) fn jars(install: &Install) -> PathBuf {
    install.downloads().join(format!("kafka-{KAFKA}/jars"))
}

/// Whether the jars are missing, and so is Maven to get them.
pub(super) fn is_needed(install: &Install) -> bool {
    !jars(install).exists() && find_on_path("mvn").is_none()
}

/// Downloads the jars, if they are not there.
///
/// # Errors
/// When Maven is missing or fails, with what it says.
pub fn ensure(install: &Install, report: &dyn Fn(&str)) -> Result<()> {
    let jars = jars(install);
    if jars.exists() {
        return Ok(());
    }
    let maven = find_on_path("mvn").context("find Maven: it is not installed (apt-get install maven)")?;
    report(&format!("download Apache Kafka {KAFKA} from Maven Central"));
    let partial = jars.with_extension("partial");
    let _ = fs::remove_dir_all(&partial);
    place::make(&partial)?;
    let project = partial.with_file_name("pom.xml");
    fs::write(&project, project_file()).with_context(|| format!("write `{}`", project.display()))?;
    let mut command = Command::new(maven);
    command.args([
        "--batch-mode",
        "--quiet",
        "-Dstyle.color=never",
        COPY,
        "-DincludeScope=runtime",
        "--file",
    ]);
    command.arg(&project).arg(format!("-DoutputDirectory={}", partial.display()));
    let output = command.stdin(Stdio::null()).output().context("run `mvn`")?;
    if !output.status.success() {
        bail!("download Apache Kafka: {}", String::from_utf8_lossy(&output.stdout).trim());
    }
    // Whole or not at all: a download that broke off is not taken for one.
    fs::rename(&partial, &jars).with_context(|| format!("move the jars to `{}`", jars.display()))
}

fn project_file() -> String {
    let dependency = |group: &str, artifact: &str, version: &str| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>"
        )
    };
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>outrider</groupId><artifactId>kafka</artifactId><version>1</version>\
         <dependencies>{}{}</dependencies></project>\n",
        dependency("org.apache.kafka", "kafka_2.13", KAFKA),
        dependency("org.slf4j", "slf4j-simple", SLF4J)
    )
}
