//! The null server: says to every Produce that all went well, and does nothing else.

use crate::frames::answer;
use crate::sys::{raise_open_files, Poll, Ready};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

const LISTENER: u64 = u64::MAX;
/// A frame that is longer ends its connection.
const LONGEST_REQUEST: usize = 128 << 20;

struct Peer {
    stream: TcpStream,
    got: Vec<u8>,
    owed: Vec<u8>,
}

impl Peer {
    /// Reads, answers and writes as far as it goes; false where the connection is over.
    fn turn(&mut self, buffer: &mut [u8]) -> bool {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return false,
                Ok(count) => {
                    self.got.extend_from_slice(&buffer[..count]);
                    if !self.answer() {
                        return false;
                    }
                    if count < buffer.len() {
                        return self.write();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.write(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    fn answer(&mut self) -> bool {
        let mut done = 0;
        while let Some((length, rest)) = self.got[done..].split_first_chunk::<4>() {
            let length = i32::from_be_bytes(*length);
            let Some(length) = usize::try_from(length)
                .ok()
                .filter(|n| *n <= LONGEST_REQUEST)
            else {
                return false;
            };
            let Some(request) = rest.get(..length) else {
                break;
            };
            match answer(request) {
                Some(answer) => self.owed.extend(answer),
                None => return false,
            }
            done += 4 + length;
        }
        self.got.drain(..done);
        true
    }

    fn write(&mut self) -> bool {
        while !self.owed.is_empty() {
            match self.stream.write(&self.owed) {
                Ok(count) => drop(self.owed.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// Prints `port N` and serves until somebody ends the process.
pub fn serve(port: u16) -> io::Result<()> {
    raise_open_files()?;
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    let mut poll = Poll::new(256)?;
    poll.add_listener(listener.as_raw_fd(), LISTENER)?;
    println!("port {}", listener.local_addr()?.port());
    let mut peers: HashMap<u64, Peer> = HashMap::new();
    let mut next = 0;
    let mut ready: Vec<Ready> = Vec::new();
    let mut buffer = vec![0u8; 64 * 1024];
    loop {
        poll.wait(Duration::from_secs(60), &mut ready)?;
        for event in &ready {
            if event.token == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    poll.add(stream.as_raw_fd(), next)?;
                    let (got, owed) = (Vec::new(), Vec::new());
                    peers.insert(next, Peer { stream, got, owed });
                    next += 1;
                }
            } else if let Some(peer) = peers.get_mut(&event.token) {
                if !peer.turn(&mut buffer) {
                    peers.remove(&event.token);
                }
            }
        }
    }
}
