//! Text for people and JSON for scripts: results on standard output, failures on standard error.

use std::fmt::Display;
use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde_json::Value as Json;

use crate::exit::Exit;

/// Prints a result. A reader that went away (`| head`) is not a failure.
pub(super) fn print(text: impl Display) -> Exit {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Ok(()) => Exit::Success,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Success,
        Err(error) => failure(&format!("write to standard output: {error}")),
    }
}

pub(super) fn print_json(value: &Json) -> Exit {
    print(format_args!("{value:#}"))
}

/// Says what was failed to be done.
pub(super) fn failure(what: &dyn Display) -> Exit {
    note(format_args!("outrider: failed to {what}"));
    Exit::Failure
}

/// Something to know beside the result, on standard error so that it stays out of the result.
pub(super) fn note(text: impl Display) {
    // If even this can't be written, there is nobody left to tell.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Columns without lines, as wide as the terminal.
pub(super) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    table
}
