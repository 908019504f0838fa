//! The system calls that the standard library has not: epoll, a connect that does not block, limits and CPU time.
//!
//! Every `unsafe` of the crate is here. Each passes either plain numbers or pointers to values that
//! live on the stack of the call or in a slice whose length goes along.
#![allow(unsafe_code)]

use std::io;
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

pub struct Poll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

/// What epoll says about one socket.
pub struct Ready {
    pub token: u64,
    pub failed: bool,
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

impl Poll {
    pub fn new(at_once: usize) -> io::Result<Poll> {
        // SAFETY: a number goes in, a descriptor that nobody else has comes out.
        let epoll =
            unsafe { OwnedFd::from_raw_fd(checked(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; at_once];
        Ok(Poll { epoll, events })
    }

    /// Edge-triggered, both ways, once and for all: no system call when a socket's wish changes.
    pub fn add(&self, socket: RawFd, token: u64) -> io::Result<()> {
        let flags = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.register(socket, token, flags as u32)
    }

    /// Level-triggered, for a listening socket.
    pub fn add_listener(&self, socket: RawFd, token: u64) -> io::Result<()> {
        self.register(socket, token, libc::EPOLLIN as u32)
    }

    fn register(&self, socket: RawFd, token: u64, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: the kernel reads the event during the call.
        checked(unsafe {
            libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                socket,
                &mut event,
            )
        })?;
        Ok(())
    }

    /// Waits, and puts what is ready into `ready`.
    pub fn wait(&mut self, patience: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let millis = patience.as_millis().min(60_000) as libc::c_int;
        // SAFETY: the kernel writes at most `len` events into the vector, which has as many.
        let found = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as libc::c_int,
                millis,
            )
        };
        let found = match checked(found) {
            Ok(found) => found as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        let bad = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        for event in &self.events[..found] {
            let (flags, token) = (event.events, event.u64);
            ready.push(Ready {
                token,
                failed: flags & bad != 0,
            });
        }
        Ok(())
    }
}

/// A socket whose connection is under way; whether it came about is known when it is writable.
pub fn begin_connect(to: SocketAddrV4) -> io::Result<TcpStream> {
    let flags = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: numbers go in, a descriptor that nobody else has comes out.
    let stream = unsafe { TcpStream::from_raw_fd(checked(libc::socket(libc::AF_INET, flags, 0))?) };
    stream.set_nodelay(true)?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: to.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(to.ip().octets()),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: the address lives until the call returns, and its size goes along.
    let result = unsafe {
        libc::connect(
            stream.as_raw_fd(),
            (&raw const address).cast::<libc::sockaddr>(),
            size_of::<libc::sockaddr_in>() as libc::socklen_t,
        )
    };
    match checked(result) {
        Ok(_) => Ok(stream),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(stream),
        Err(error) => Err(error),
    }
}

/// As many open files as the hard limit allows; returns how many that are.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes the limit during the first call and reads it during the second.
    unsafe {
        checked(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit))?;
        limit.rlim_cur = limit.rlim_max;
        checked(libc::setrlimit(libc::RLIMIT_NOFILE, &limit))?;
    }
    Ok(limit.rlim_cur)
}

/// Processor time of this process so far: its own code, and the kernel's for it.
pub fn own_cpu() -> (Duration, Duration) {
    // SAFETY: all zeroes is a good rusage, and the kernel writes it during the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let length = |time: libc::timeval| {
        Duration::new(time.tv_sec as u64, 0) + Duration::from_micros(time.tv_usec as u64)
    };
    (length(usage.ru_utime), length(usage.ru_stime))
}

/// Ticks in a second of the times in /proc/PID/stat.
pub fn ticks_per_second() -> f64 {
    // SAFETY: a number goes in and one comes out.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) as f64 }
}
