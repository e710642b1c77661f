//! A webhook's receiver: whoever runs it sees each call, and decides what is answered.

use std::{convert::Infallible, net};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
    task::{JoinHandle, JoinSet},
};

/// Calls that may wait to be looked at.
const CALLS_MAX: usize = 64;

/// A place that webhooks are sent to, for as long as its runtime lives.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) url: String,
    socket: net::TcpListener,
    calls: mpsc::Receiver<Hook>,
    listening: JoinHandle<()>,
}

/// One call, not answered yet. Dropped, it is answered with an error.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) signature: String,
    pub(crate) body: Bytes,
    reply: oneshot::Sender<(u16, &'static str)>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let socket = net::TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        Self::listen(socket)
    }

    /// Forgets everything that a caller who is dead by now has sent; the address stays.
    pub(crate) async fn restart(&mut self) {
        self.listening.abort();
        let _ = (&mut self.listening).await;
        while self.socket.accept().is_ok() {}
        *self = Self::listen(self.socket.try_clone().unwrap());
    }

    fn listen(socket: net::TcpListener) -> Self {
        let url = format!("http://{}/hook", socket.local_addr().unwrap());
        let listener = TcpListener::from_std(socket.try_clone().unwrap()).unwrap();
        let (calling, calls) = mpsc::channel(CALLS_MAX);
        let listening = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let calling = calling.clone();
                let service = service_fn(move |request| receive(calling.clone(), request));
                let socket = TokioIo::new(socket);
                let connection = http1::Builder::new().serve_connection(socket, service);
                // The caller may be killed at any moment.
                connections.spawn(async move { drop(connection.await) });
            }
        });
        Self { url, socket, calls, listening }
    }

    /// The next call.
    pub(crate) async fn next(&mut self) -> Hook {
        self.calls.recv().await.expect("the receiver runs as long as this")
    }

    /// The next call, if one is there already.
    pub(crate) fn waiting(&mut self) -> Option<Hook> {
        self.calls.try_recv().ok()
    }
}

impl Hook {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Answers. Nobody minds if the caller is gone.
    pub(crate) fn answer(self, status: u16, body: &'static str) {
        let _ = self.reply.send((status, body));
    }
}

async fn receive(
    calling: mpsc::Sender<Hook>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let signature = request.headers().get("webhook-signature");
    let signature = signature.map_or("", |value| value.to_str().unwrap()).to_owned();
    let (status, body) = match request.into_body().collect().await {
        // A caller that was killed within its call has not called.
        Err(_) => (500, ""),
        Ok(body) => {
            let (reply, answered) = oneshot::channel();
            let _ = calling.send(Hook { signature, body: body.to_bytes(), reply }).await;
            answered.await.unwrap_or((500, ""))
        }
    };
    Ok(Response::builder().status(status).body(Full::from(body)).unwrap())
}
