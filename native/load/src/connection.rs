//! One connection: connects, asks, waits for the answer, asks again.

use crate::frames::{error_code, Shape, CORRELATION_AT, LONGEST_ANSWER};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Connecting,
    Asking { written: usize },
    Waiting,
    Gone,
}

/// What came of looking at a connection once.
#[derive(Default)]
pub struct Outcome {
    /// The connection was made just now.
    pub connected: bool,
    /// An answer came: its error code, and the microseconds it took.
    pub answered: Option<(i16, u64)>,
    /// The connection is over.
    pub end: Option<End>,
}

#[derive(Clone, Copy)]
pub enum End {
    Refused,
    Closed,
    WrongAnswer,
}

pub struct Connection {
    stream: TcpStream,
    state: State,
    pub target: usize,
    pub frame: usize,
    pub partition: i32,
    correlation: i32,
    asked_at: Instant,
    got: Vec<u8>,
}

impl Connection {
    pub fn new(
        stream: TcpStream,
        target: usize,
        frame: usize,
        partition: i32,
        number: usize,
    ) -> Self {
        Connection {
            stream,
            state: State::Connecting,
            target,
            frame,
            partition,
            // Connections start far apart, so that an answer to somebody else's request is seen.
            correlation: (number as i32).wrapping_mul(1_000_003),
            asked_at: Instant::now(),
            got: Vec::new(),
        }
    }

    pub fn is_connecting(&self) -> bool {
        self.state == State::Connecting
    }

    /// How long the request that is under way has waited.
    pub fn waiting_micros(&self, now: Instant) -> Option<u64> {
        match self.state {
            State::Asking { .. } | State::Waiting => {
                Some(now.saturating_duration_since(self.asked_at).as_micros() as u64)
            }
            State::Connecting | State::Gone => None,
        }
    }

    /// Something happened at the socket: goes on as far as it goes without waiting.
    pub fn turn(
        &mut self,
        failed: bool,
        shape: &Shape,
        frame: &mut [u8],
        buffer: &mut [u8],
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if self.state == State::Gone {
            return outcome;
        }
        if self.state == State::Connecting {
            if failed || !matches!(self.stream.take_error(), Ok(None)) {
                outcome.end = Some(self.over(End::Refused));
                return outcome;
            }
            if self.stream.peer_addr().is_err() {
                return outcome; // An early event of a socket that is not connected yet.
            }
            outcome.connected = true;
            self.ask();
        }
        if let Err(end) = self
            .read(shape, buffer, &mut outcome)
            .and_then(|()| self.write(frame))
        {
            outcome.end = Some(self.over(end));
        }
        outcome
    }

    fn ask(&mut self) {
        self.correlation = self.correlation.wrapping_add(1) & i32::MAX;
        self.state = State::Asking { written: 0 };
        self.asked_at = Instant::now();
    }

    fn over(&mut self, end: End) -> End {
        self.state = State::Gone;
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        end
    }

    fn write(&mut self, frame: &mut [u8]) -> Result<(), End> {
        while let State::Asking { written } = self.state {
            // The bytes are those of all connections of a partition; only this number is one's own.
            frame[CORRELATION_AT..CORRELATION_AT + 4]
                .copy_from_slice(&self.correlation.to_be_bytes());
            match self.stream.write(&frame[written..]) {
                Ok(count) if written + count == frame.len() => self.state = State::Waiting,
                Ok(count) => {
                    self.state = State::Asking {
                        written: written + count,
                    };
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Closed),
            }
        }
        Ok(())
    }

    fn read(&mut self, shape: &Shape, buffer: &mut [u8], outcome: &mut Outcome) -> Result<(), End> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(End::Closed),
                Ok(count) => {
                    self.take(shape, &buffer[..count], outcome)?;
                    if count < buffer.len() {
                        return Ok(()); // All that there was: what comes later is a new event.
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Closed),
            }
        }
    }

    fn take(&mut self, shape: &Shape, bytes: &[u8], outcome: &mut Outcome) -> Result<(), End> {
        // Bytes that nobody asked for cannot be an answer.
        if self.state != State::Waiting {
            return Err(End::WrongAnswer);
        }
        let whole: &[u8] = if self.got.is_empty() {
            bytes
        } else {
            self.got.extend_from_slice(bytes);
            &self.got
        };
        let Some((length, rest)) = whole.split_first_chunk::<4>() else {
            if self.got.is_empty() {
                self.got.extend_from_slice(bytes);
            }
            return Ok(());
        };
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| End::WrongAnswer)?;
        if length > LONGEST_ANSWER || rest.len() > length {
            return Err(End::WrongAnswer);
        }
        if rest.len() < length {
            if self.got.is_empty() {
                self.got.extend_from_slice(bytes);
            }
            return Ok(());
        }
        let code = error_code(rest, shape, self.partition, self.correlation);
        let code = code.ok_or(End::WrongAnswer)?;
        outcome.answered = Some((code, self.asked_at.elapsed().as_micros() as u64));
        self.got.clear();
        self.ask();
        Ok(())
    }
}
