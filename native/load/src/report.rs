//! What a run found, as one JSON object.

use crate::histogram::Histogram;
use crate::sys::ticks_per_second;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

pub struct Times(Histogram);

pub struct Summary {
    p50: u64,
    p99: u64,
    max: u64,
}

impl Times {
    pub fn new() -> Times {
        Times(Histogram::new())
    }

    pub fn add(&mut self, micros: u64) {
        self.0.add(micros);
    }

    pub fn longest(&self) -> u64 {
        self.0.max
    }

    pub fn summary(&self) -> Summary {
        Summary {
            p50: self.0.percentile(0.5),
            p99: self.0.percentile(0.99),
            max: self.0.max,
        }
    }
}

/// Processor time of another process, from /proc/PID/stat.
pub struct Cpu {
    pid: u32,
    user_s: f64,
    system_s: f64,
}

impl Cpu {
    fn of(pid: u32) -> io::Result<Cpu> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_err(|error| io::Error::other(format!("process {pid}: {error}")))?;
        // The name of the program stands in brackets and may hold anything; user and system time
        // are the 12th and 13th field behind it.
        let fields: Vec<&str> = text
            .rsplit_once(')')
            .map_or("", |(_, rest)| rest)
            .split_whitespace()
            .collect();
        let seconds = |place: usize| -> f64 {
            let ticks = fields
                .get(place)
                .and_then(|field| field.parse::<f64>().ok());
            ticks.unwrap_or(0.0) / ticks_per_second()
        };
        Ok(Cpu {
            pid,
            user_s: seconds(11),
            system_s: seconds(12),
        })
    }

    pub fn of_all(pids: &[u32]) -> io::Result<Vec<Cpu>> {
        pids.iter().map(|pid| Cpu::of(*pid)).collect()
    }

    pub fn since(before: &[Cpu], after: &[Cpu]) -> Vec<Cpu> {
        let pairs = before.iter().zip(after);
        let spent = pairs.map(|(then, now)| Cpu {
            pid: now.pid,
            user_s: now.user_s - then.user_s,
            system_s: now.system_s - then.system_s,
        });
        spent.collect()
    }
}

pub struct Report {
    pub connections: usize,
    pub connected: usize,
    pub connected_after: Option<Duration>,
    pub served_after: Option<Duration>,
    pub window: Duration,
    pub requests: u64,
    pub latency: Summary,
    pub first: Summary,
    pub longest_wait: u64,
    pub answers: [u64; 3],
    pub never_answered: usize,
    pub errors: BTreeMap<i16, u64>,
    pub refused: u64,
    pub closed: u64,
    pub wrong: u64,
    pub own: Duration,
    pub watched: Vec<Cpu>,
    pub targets: Vec<(String, u64)>,
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or("null".into(), |time| format!("{:.3}", time.as_secs_f64()))
}

fn millis(micros: u64) -> String {
    format!("{:.3}", micros as f64 / 1e3)
}

fn times(times: &Summary) -> String {
    let (p50, p99, max) = (millis(times.p50), millis(times.p99), millis(times.max));
    format!("{{\"p50\": {p50}, \"p99\": {p99}, \"max\": {max}}}")
}

fn quoted(text: &str) -> String {
    let escaped: String = text
        .chars()
        .filter(|one| !one.is_control())
        .flat_map(|one| match one {
            '"' | '\\' => vec!['\\', one],
            _ => vec![one],
        })
        .collect();
    format!("\"{escaped}\"")
}

impl Report {
    pub fn json(&self) -> String {
        let window = self.window.as_secs_f64();
        let each = self.requests.max(1) as f64;
        let [least, middle, most] = self.answers;
        let errors = self
            .errors
            .iter()
            .map(|(code, n)| format!("\"{code}\": {n}"));
        let errors: Vec<String> = errors.collect();
        let watched = self.watched.iter().map(|cpu| {
            format!(
                "{{\"pid\": {}, \"user_s\": {:.2}, \"system_s\": {:.2}}}",
                cpu.pid, cpu.user_s, cpu.system_s
            )
        });
        let watched: Vec<String> = watched.collect();
        let targets = self.targets.iter();
        let targets: Vec<String> = targets
            .map(|(name, n)| format!("{{\"to\": {}, \"requests\": {n}}}", quoted(name)))
            .collect();
        let lines = [
            ("connections", self.connections.to_string()),
            ("connected", self.connected.to_string()),
            ("connected_all_s", seconds(self.connected_after)),
            ("answered_all_s", seconds(self.served_after)),
            ("seconds", format!("{window:.3}")),
            ("requests", self.requests.to_string()),
            (
                "requests_per_s",
                format!("{:.1}", self.requests as f64 / window.max(1e-9)),
            ),
            ("latency_ms", times(&self.latency)),
            ("first_answer_ms", times(&self.first)),
            ("longest_wait_ms", millis(self.longest_wait)),
            (
                "answers_per_connection",
                format!("{{\"min\": {least}, \"median\": {middle}, \"max\": {most}}}"),
            ),
            ("never_answered", self.never_answered.to_string()),
            ("errors", format!("{{{}}}", errors.join(", "))),
            ("wrong_answers", self.wrong.to_string()),
            ("refused", self.refused.to_string()),
            ("closed", self.closed.to_string()),
            ("own_cpu_s", format!("{:.3}", self.own.as_secs_f64())),
            (
                "own_cpu_us_per_request",
                format!("{:.2}", self.own.as_secs_f64() * 1e6 / each),
            ),
            ("watched", format!("[{}]", watched.join(", "))),
            ("targets", format!("[{}]", targets.join(", "))),
        ];
        let lines: Vec<String> = lines
            .iter()
            .map(|(name, value)| format!("  \"{name}\": {value}"))
            .collect();
        format!("{{\n{}\n}}", lines.join(",\n"))
    }
}
