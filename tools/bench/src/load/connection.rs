//! One keep-alive connection with at most one request under way.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, bail, ensure};

use super::poller::{Interest, Poller, Token};
use super::request::Request;
use super::response::{Progress, Response, ResponseReader};

/// A read buffer that one thread's connections share; a whole small response fits many times.
pub(crate) fn scratch() -> Vec<u8> {
    vec![0; 256 * 1024]
}

pub(crate) struct Connection {
    stream: TcpStream,
    token: Token,
    reader: ResponseReader,
    sending: Option<Sending>,
    interest: Interest,
}

/// A request that the socket has not taken whole.
struct Sending {
    request: Request,
    written: usize,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr, poller: &Poller, token: Token) -> Result<Self> {
        let stream = TcpStream::connect(address).context("connect")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        poller.add(&stream, token)?;
        let reader = ResponseReader::default();
        Ok(Self { stream, token, reader, sending: None, interest: Interest::Read })
    }

    /// Starts a request, the last response having been read whole.
    pub(crate) fn send(&mut self, request: Request, poller: &Poller) -> Result<()> {
        self.reader.restart();
        self.sending = Some(Sending { request, written: 0 });
        self.write_on(poller)
    }

    /// Moves on after the poller named this connection: writes what is left, then reads once.
    pub(crate) fn advance(
        &mut self,
        poller: &Poller,
        scratch: &mut [u8],
        on_body: impl FnMut(&[u8]),
    ) -> Result<Progress> {
        self.write_on(poller)?;
        let read = match self.stream.read(scratch) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(read) => read,
            Err(error) if is_transient(&error) => return Ok(Progress::Partial),
            Err(error) => return Err(error).context("read a response"),
        };
        let progress = self.reader.feed(&scratch[..read], on_body)?;
        let answered_early = progress == Progress::Complete && self.sending.is_some();
        ensure!(!answered_early, "status {} before the end of the request", self.response().status);
        Ok(progress)
    }

    pub(crate) fn response(&self) -> &Response {
        self.reader.response()
    }

    fn write_on(&mut self, poller: &Poller) -> Result<()> {
        let Some(sending) = &mut self.sending else { return Ok(()) };
        let bytes = sending.request.bytes();
        while sending.written < bytes.len() {
            match self.stream.write(&bytes[sending.written..]) {
                Ok(written) => sending.written += written,
                Err(error) if is_transient(&error) => {
                    return self.wait_for(Interest::ReadAndWrite, poller);
                }
                Err(error) => return Err(error).context("send a request"),
            }
        }
        self.sending = None;
        self.wait_for(Interest::Read, poller)
    }

    fn wait_for(&mut self, interest: Interest, poller: &Poller) -> Result<()> {
        if self.interest != interest {
            poller.change(&self.stream, self.token, interest)?;
            self.interest = interest;
        }
        Ok(())
    }
}

fn is_transient(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
