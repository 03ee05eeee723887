//! The `outrider` binary: the brokers that it knows, and the command line.

use std::process::ExitCode;

use outrider::brokers::Registry;
use outrider::cli;

fn main() -> ExitCode {
    cli::main(Registry::builtin())
}
