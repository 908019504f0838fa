//! The command line.

use crate::frames::{Shape, VERSIONS};
use std::net::{SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::time::Duration;

pub const USAGE: &str = "\
usage: ottla-load run --to HOST:PORT/PARTITIONS [--to ...] [options]
       ottla-load serve [--port 0]        a null server: says to every Produce that all went well

run: opens connections, spread over the brokers and their partitions, has one Produce under way on
each, and prints one JSON object. PARTITIONS are those the broker leads: 0-7 or 0,3,6.
  --topic NAME            (load)
  --connections N         in all (50)
  --version N             of Produce, 3 to 9 (7)
  --records N --bytes N   in each request (10 of 100)
  --acks 1|-1             (1)
  --connecting N          connections begun at a time (64)
  --connect-seconds S     until the measurement begins without those that are missing (60)
  --warm-up S             load before the measurement, once all are connected (1)
  --seconds S             of measurement (8)
  --watch PID,PID         report the processor time of these processes, too";

pub struct Target {
    pub name: String,
    pub address: SocketAddrV4,
    pub partitions: Vec<i32>,
}

pub struct Run {
    pub targets: Vec<Target>,
    pub shape: Shape,
    pub connections: usize,
    pub connecting: usize,
    pub connect: Duration,
    pub warm_up: Duration,
    pub measure: Duration,
    pub watch: Vec<u32>,
}

pub enum Command {
    Run(Run),
    Serve { port: u16 },
    Help,
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{name} {text}: not a number that fits"))
}

fn seconds(name: &str, text: &str) -> Result<Duration, String> {
    let value: f64 = number(name, text)?;
    if !(0.0..=86_400.0).contains(&value) {
        return Err(format!("{name} {text}: has to be between 0 and 86400"));
    }
    Ok(Duration::from_secs_f64(value))
}

fn within(name: &str, value: usize, low: usize, high: usize) -> Result<usize, String> {
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        Err(format!(
            "{name} {value}: has to be between {low} and {high}"
        ))
    }
}

fn partitions(text: &str) -> Result<Vec<i32>, String> {
    let mut found = Vec::new();
    for piece in text.split(',') {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let (first, last): (i32, i32) = (number("partition", first)?, number("partition", last)?);
        if first > last || last - first >= 100_000 || found.len() > 100_000 {
            return Err(format!("partitions {text}: not a range"));
        }
        found.extend(first..=last);
    }
    Ok(found)
}

fn target(text: &str) -> Result<Target, String> {
    let (name, listed) = text
        .split_once('/')
        .ok_or_else(|| format!("--to {text}: has to be HOST:PORT/PARTITIONS"))?;
    let found = name
        .to_socket_addrs()
        .map_err(|error| format!("--to {text}: {error}"))?
        .find_map(|address| match address {
            SocketAddr::V4(address) => Some(address),
            SocketAddr::V6(_) => None,
        });
    Ok(Target {
        name: name.to_string(),
        address: found.ok_or_else(|| format!("--to {text}: no IPv4 address"))?,
        partitions: partitions(listed)?,
    })
}

fn serve(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut port = 0;
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        match name.as_str() {
            "--port" => port = number(&name, &value)?,
            _ => return Err(format!("{name} is not an option of serve")),
        }
    }
    Ok(Command::Serve { port })
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut run = Run {
        targets: Vec::new(),
        shape: Shape {
            topic: "load".into(),
            version: 7,
            records: 10,
            bytes: 100,
            acks: 1,
        },
        connections: 50,
        connecting: 64,
        connect: Duration::from_secs(60),
        warm_up: Duration::from_secs(1),
        measure: Duration::from_secs(8),
        watch: Vec::new(),
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let count = || number::<usize>(&name, &value);
        match name.as_str() {
            "--to" => run.targets.push(target(&value)?),
            "--topic" => run.shape.topic = value,
            "--connections" => run.connections = within(&name, count()?, 1, 1_000_000)?,
            "--version" => run.shape.version = number(&name, &value)?,
            "--records" => run.shape.records = within(&name, count()?, 1, 100_000)?,
            "--bytes" => run.shape.bytes = within(&name, count()?, 0, 100_000_000)?,
            "--acks" => run.shape.acks = number(&name, &value)?,
            "--connecting" => run.connecting = within(&name, count()?, 1, 1_000_000)?,
            "--connect-seconds" => run.connect = seconds(&name, &value)?,
            "--warm-up" => run.warm_up = seconds(&name, &value)?,
            "--seconds" => run.measure = seconds(&name, &value)?,
            "--watch" => {
                let pids: Result<Vec<u32>, String> =
                    value.split(',').map(|pid| number(&name, pid)).collect();
                run.watch = pids?;
            }
            _ => return Err(format!("{name} is not an option of run")),
        }
    }
    check(&run)?;
    Ok(Command::Run(run))
}

fn check(run: &Run) -> Result<(), String> {
    let shape = &run.shape;
    if run.targets.is_empty() {
        return Err("--to HOST:PORT/PARTITIONS says where to connect".into());
    }
    if !VERSIONS.contains(&shape.version) {
        return Err(format!("--version {}: 3 to 9 are there", shape.version));
    }
    if shape.acks != 1 && shape.acks != -1 {
        return Err(format!(
            "--acks {}: 1 or -1, for answers are counted",
            shape.acks
        ));
    }
    if shape.topic.is_empty() || shape.topic.len() > 249 {
        return Err("--topic: 1 to 249 characters".into());
    }
    if shape.records.saturating_mul(shape.bytes + 20) > 100_000_000 {
        return Err("--records x --bytes: at most 100 MB in a request".into());
    }
    Ok(())
}

pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    match arguments.next().as_deref() {
        Some("run") => run(arguments),
        Some("serve") => serve(arguments),
        Some("--help" | "-h" | "help") => Ok(Command::Help),
        Some(other) => Err(format!("{other} is not a command: run or serve")),
        None => Err("run or serve is missing".into()),
    }
}
