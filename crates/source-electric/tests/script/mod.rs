//! A server that says what it was told to say, one reply for each request, and then nothing.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Mutex, watch},
};

/// One reply.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Where the connection breaks, if it does.
    cut: Option<usize>,
}

impl Reply {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), cut: None }
    }

    /// No reply at all, until the client hangs up.
    pub(crate) fn waiting() -> Self {
        Self::new(0)
    }

    pub(crate) fn header(self, name: &str, value: &str) -> Self {
        let mut reply = self.without(name);
        reply.headers.push((name.to_owned(), value.to_owned()));
        reply
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(own, _)| own != name);
        self
    }

    pub(crate) fn body(mut self, body: &str) -> Self {
        self.body = body.as_bytes().to_vec();
        self
    }

    pub(crate) fn repeating(mut self, bytes: usize) -> Self {
        self.body = vec![b' '; bytes];
        self
    }

    pub(crate) fn body_len(&self) -> usize {
        self.body.len()
    }

    pub(crate) fn cut_at(mut self, at: usize) -> Self {
        self.cut = Some(at);
        self
    }

    /// Everything on the wire, and whether the connection goes on afterwards.
    fn bytes(&self) -> (Vec<u8>, bool) {
        let mut head = format!("HTTP/1.1 {} Scripted\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", self.body.len()));
        let body = &self.body[..self.cut.unwrap_or(self.body.len())];
        ([head.as_bytes(), body].concat(), self.cut.is_none())
    }
}

/// The server.
#[derive(Debug)]
pub(crate) struct Script {
    address: SocketAddr,
    asked: watch::Receiver<Vec<String>>,
    hung_up: watch::Receiver<bool>,
}

#[derive(Debug)]
struct Stage {
    replies: Mutex<std::vec::IntoIter<Reply>>,
    asked: watch::Sender<Vec<String>>,
    hung_up: watch::Sender<bool>,
}

impl Script {
    #[expect(clippy::disallowed_methods, reason = "a server of a test, on a real socket")]
    pub(crate) async fn serve(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let replies: Vec<_> = replies.into_iter().collect();
        let (asked, asked_seen) = watch::channel(Vec::new());
        let (hung_up, hung_up_seen) = watch::channel(false);
        let stage = Arc::new(Stage { replies: Mutex::new(replies.into_iter()), asked, hung_up });
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(play(connection, stage.clone()));
            }
        });
        Self { address, asked: asked_seen, hung_up: hung_up_seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/shape", self.address)
    }

    /// The parameters and bodies of all requests, once there were so many.
    pub(crate) async fn asked_for(&self, count: usize) -> Vec<String> {
        let mut asked = self.asked.clone();
        asked.wait_for(|asked| asked.len() >= count).await.unwrap().clone()
    }

    /// Waits until a request that nobody answers is given up.
    pub(crate) async fn hangs_up(&self) {
        self.hung_up.clone().wait_for(|is_over| *is_over).await.unwrap();
    }
}

/// The parameters of a request, and its body if it has one, once all of it is there.
fn whole(request: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(request).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    let params = head.split(' ').nth(1)?.split_once('?')?.1;
    let asked = if length == 0 { params.to_owned() } else { format!("{params} {body}") };
    (body.len() == length).then_some(asked)
}

async fn play(mut connection: TcpStream, stage: Arc<Stage>) {
    let mut request = Vec::new();
    loop {
        let mut piece = [0; 4096];
        match connection.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(length) => request.extend_from_slice(&piece[..length]),
        }
        let Some(asked) = whole(&request) else { continue };
        request.clear();
        stage.asked.send_modify(|all| all.push(asked));
        let Some(reply) = stage.replies.lock().await.next() else {
            // Live requests wait; this one for ever.
            let _ = connection.read(&mut piece).await;
            stage.hung_up.send_replace(true);
            return;
        };
        if reply.status == 0 {
            let _ = connection.read(&mut piece).await;
            return;
        }
        let (bytes, goes_on) = reply.bytes();
        if connection.write_all(&bytes).await.is_err() || !goes_on {
            return;
        }
    }
}
