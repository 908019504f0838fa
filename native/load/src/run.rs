//! The run: connections are made, load warms up, a window is measured.

use crate::connection::{Connection, End, Outcome};
use crate::frames::request;
use crate::options::Run;
use crate::report::{Cpu, Report, Times};
use crate::sys::{begin_connect, own_cpu, raise_open_files, Poll, Ready};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Descriptors of the process beside its connections.
const OTHER_FILES: u64 = 16;
/// How often time is looked at where nothing happens.
const TICK: Duration = Duration::from_millis(20);
const EVENTS_AT_ONCE: usize = 256;
/// Longer than any usual answer: a read that does not fill it has taken all there was.
const READ_BUFFER: usize = 4096;

struct Load<'a> {
    options: &'a Run,
    frames: Vec<Vec<u8>>,
    /// In the order in which connections take them.
    places: Vec<Place>,
    connections: Vec<Connection>,
    poll: Poll,
    begun_at: Instant,
    connecting: usize,
    connected: usize,
    connected_after: Option<Duration>,
    first_answers: usize,
    served_after: Option<Duration>,
    /// Of each connection: good answers in the window, and whether there ever was one.
    answers: Vec<u64>,
    ever: Vec<bool>,
    by_target: Vec<u64>,
    latency: Times,
    first: Times,
    errors: BTreeMap<i16, u64>,
    refused: u64,
    closed: u64,
    wrong: u64,
}

/// The broker, the prepared request and the partition that a connection has.
type Place = (usize, usize, i32);

/// Connection n takes broker n mod brokers, and the brokers' partitions in turn.
fn places(options: &Run) -> (Vec<Vec<u8>>, Vec<Place>) {
    let mut frames = Vec::new();
    let mut first_frame = Vec::new();
    for target in &options.targets {
        first_frame.push(frames.len());
        for partition in &target.partitions {
            frames.push(request(&options.shape, *partition));
        }
    }
    let brokers = options.targets.len();
    let places = (0..options.connections).map(|number| {
        let target = number % brokers;
        let partitions = &options.targets[target].partitions;
        let place = (number / brokers) % partitions.len();
        (target, first_frame[target] + place, partitions[place])
    });
    (frames, places.collect())
}

impl<'a> Load<'a> {
    fn new(options: &'a Run) -> io::Result<Load<'a>> {
        let (frames, places) = places(options);
        Ok(Load {
            options,
            frames,
            places,
            connections: Vec::with_capacity(options.connections),
            poll: Poll::new(EVENTS_AT_ONCE)?,
            begun_at: Instant::now(),
            connecting: 0,
            connected: 0,
            connected_after: None,
            first_answers: 0,
            served_after: None,
            answers: vec![0; options.connections],
            ever: vec![false; options.connections],
            by_target: vec![0; options.targets.len()],
            latency: Times::new(),
            first: Times::new(),
            errors: BTreeMap::new(),
            refused: 0,
            closed: 0,
            wrong: 0,
        })
    }

    fn begin_connections(&mut self) -> io::Result<()> {
        while self.connecting < self.options.connecting
            && self.connections.len() < self.options.connections
        {
            let number = self.connections.len();
            let (target, frame, partition) = self.places[number];
            let stream = begin_connect(self.options.targets[target].address)?;
            self.poll.add(stream.as_raw_fd(), number as u64)?;
            let connection = Connection::new(stream, target, frame, partition, number);
            self.connections.push(connection);
            self.connecting += 1;
        }
        Ok(())
    }

    fn all_begun(&self) -> bool {
        self.connecting == 0 && self.connections.len() == self.options.connections
    }

    fn all_over(&self) -> bool {
        let over = self.refused + self.closed + self.wrong;
        over as usize == self.options.connections
    }

    /// Serves whatever happens until `done` says so or the time is over.
    fn until(&mut self, end: Instant, done: impl Fn(&Self) -> bool) -> io::Result<()> {
        let mut ready: Vec<Ready> = Vec::with_capacity(EVENTS_AT_ONCE);
        let mut buffer = vec![0u8; READ_BUFFER];
        loop {
            self.begin_connections()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || done(self) {
                return Ok(());
            }
            self.poll.wait(TICK.min(left), &mut ready)?;
            for event in &ready {
                let number = event.token as usize;
                let connection = &mut self.connections[number];
                let was_connecting = connection.is_connecting();
                let frame = &mut self.frames[connection.frame];
                let outcome =
                    connection.turn(event.failed, &self.options.shape, frame, &mut buffer);
                self.note(number, was_connecting, &outcome);
            }
        }
    }

    fn note(&mut self, number: usize, was_connecting: bool, outcome: &Outcome) {
        if outcome.connected {
            self.connected += 1;
            if self.connected == self.options.connections {
                self.connected_after = Some(self.begun_at.elapsed());
            }
        }
        if was_connecting && (outcome.connected || outcome.end.is_some()) {
            self.connecting -= 1;
        }
        if let Some((code, micros)) = outcome.answered {
            if !self.ever[number] {
                self.ever[number] = true;
                self.first.add(micros);
                self.first_answers += 1;
                if self.first_answers == self.options.connections {
                    self.served_after = Some(self.begun_at.elapsed());
                }
            }
            if code == 0 {
                self.latency.add(micros);
                self.answers[number] += 1;
                self.by_target[self.connections[number].target] += 1;
            } else {
                *self.errors.entry(code).or_default() += 1;
            }
        }
        match outcome.end {
            Some(End::Refused) => self.refused += 1,
            Some(End::Closed) => self.closed += 1,
            Some(End::WrongAnswer) => self.wrong += 1,
            None => {}
        }
    }

    fn forget_window(&mut self) {
        self.latency = Times::new();
        self.answers.fill(0);
        self.by_target.fill(0);
        self.errors.clear();
    }

    fn report(&self, window: Duration, own: Duration, watched: Vec<Cpu>) -> Report {
        let now = Instant::now();
        let waits = self.connections.iter();
        let longest = waits.filter_map(|one| one.waiting_micros(now)).max();
        let mut answers = self.answers.clone();
        answers.sort_unstable();
        let names = self
            .options
            .targets
            .iter()
            .map(|target| target.name.clone());
        Report {
            connections: self.options.connections,
            connected: self.connected,
            connected_after: self.connected_after,
            served_after: self.served_after,
            window,
            requests: self.by_target.iter().sum(),
            latency: self.latency.summary(),
            first: self.first.summary(),
            longest_wait: longest.unwrap_or(0).max(self.latency.longest()),
            answers: [
                answers[0],
                answers[answers.len() / 2],
                answers[answers.len() - 1],
            ],
            never_answered: self.ever.iter().filter(|ever| !**ever).count(),
            errors: self.errors.clone(),
            refused: self.refused,
            closed: self.closed,
            wrong: self.wrong,
            own,
            watched,
            targets: names.zip(self.by_target.iter().copied()).collect(),
        }
    }
}

pub fn run(options: &Run) -> Result<Report, String> {
    let files = raise_open_files().map_err(|error| error.to_string())?;
    if files < options.connections as u64 + OTHER_FILES {
        return Err(format!(
            "{} connections need more open files than the limit of {files} (ulimit -Hn)",
            options.connections
        ));
    }
    measured(options).map_err(|error| error.to_string())
}

fn measured(options: &Run) -> io::Result<Report> {
    let mut load = Load::new(options)?;
    load.until(load.begun_at + options.connect, Load::all_begun)?;
    load.until(Instant::now() + options.warm_up, Load::all_over)?;
    load.forget_window();
    let before = Cpu::of_all(&options.watch)?;
    let (user, system) = own_cpu();
    let begin = Instant::now();
    load.until(begin + options.measure, Load::all_over)?;
    let window = begin.elapsed();
    let (user_then, system_then) = own_cpu();
    let watched = Cpu::since(&before, &Cpu::of_all(&options.watch)?);
    Ok(load.report(window, user_then + system_then - user - system, watched))
}
