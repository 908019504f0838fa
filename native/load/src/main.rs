//! Load for a Kafka broker from many connections, each with one Produce under way. One thread, epoll.

mod connection;
mod frames;
mod histogram;
mod options;
mod report;
mod run;
mod serve;
mod sys;

use options::{parse, Command, USAGE};
use std::io::Write;
use std::process::ExitCode;

/// A reader that has gone away is not a reason to panic.
fn print(text: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{text}").map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let command = match parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(complaint) => {
            eprintln!("ottla-load: {complaint}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let done = match command {
        Command::Help => print(USAGE),
        Command::Serve { port } => serve::serve(port).map_err(|error| error.to_string()),
        Command::Run(options) => run::run(&options).and_then(|report| print(&report.json())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            eprintln!("ottla-load: {complaint}");
            ExitCode::FAILURE
        }
    }
}
