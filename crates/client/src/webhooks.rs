//! Webhooks: wakes on their way to the URLs that clients gave.

use std::{
    io,
    net::SocketAddr,
    task::{Context, Poll},
    vec,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{HttpConnector, dns::Name},
    },
    rt::TokioExecutor,
};
use tower_service::Service;
use wake::{Answer, Courier, Letter, Received, WebhookUrlRejected};

use crate::{
    target::{self, Way},
    transport::told,
};

/// Bytes of an answer that are read; all that matters fits into far less.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Calls webhooks: over TLS to public addresses, or in the clear to this machine. Follows no
/// redirect, since that would lead to where nobody judged.
#[derive(Clone, Debug)]
pub struct Webhooks {
    public: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    local: Client<HttpConnector<Resolver>, Full<Bytes>>,
}

impl Webhooks {
    /// A courier with connections of its own.
    #[must_use]
    pub fn new() -> Self {
        let provider = rustls::crypto::ring::default_provider();
        let public = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(provider)
            .expect("ring speaks the versions it was built with")
            .https_only()
            .enable_http1()
            .wrap_connector(connector(Way::Public));
        Self {
            public: Client::builder(TokioExecutor::new()).build(public),
            local: Client::builder(TokioExecutor::new()).build(connector(Way::Local)),
        }
    }

    async fn post(&self, letter: Letter) -> Result<Received, String> {
        let (uri, way) = target::judge(&letter.call.url)?;
        let request = request(uri, letter)?;
        let answer = match way {
            Way::Public => self.public.request(request).await,
            Way::Local => self.local.request(request).await,
        };
        let (head, body) = answer.map_err(|error| told(&error))?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
        Ok(Received { status: head.status.as_u16(), body })
    }
}

impl Default for Webhooks {
    fn default() -> Self {
        Self::new()
    }
}

impl Courier for Webhooks {
    fn check(&self, url: &str) -> Result<(), WebhookUrlRejected> {
        target::judge(url).map(|_| ()).map_err(|why| WebhookUrlRejected(why.to_owned()))
    }

    fn carry(&self, letter: Letter) -> Answer<'_, Option<Received>> {
        Box::pin(async move {
            let subscription = letter.call.subscription.clone();
            self.post(letter)
                .await
                .inspect_err(|why| tracing::warn!(%subscription, why, "a webhook was not reached"))
                .ok()
        })
    }
}

fn request(uri: Uri, letter: Letter) -> Result<Request<Full<Bytes>>, String> {
    let signature = HeaderValue::try_from(letter.signature).map_err(|error| error.to_string())?;
    Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header(header::CONTENT_TYPE, "application/json")
        .header("webhook-signature", signature)
        .body(Full::from(letter.body))
        .map_err(|error| error.to_string())
}

fn connector(way: Way) -> HttpConnector<Resolver> {
    let mut connector = HttpConnector::new_with_resolver(Resolver { way, look_up });
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector
}

/// Finds the addresses of a name, and forgets those that must not be called. The connection goes
/// to one of the rest, so there is no second look-up that could answer otherwise.
#[derive(Clone, Copy, Debug)]
struct Resolver {
    way: Way,
    look_up: LookUp,
}

/// Where a name leads, as whoever runs the name's zone says right now.
type LookUp = fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;

fn look_up(name: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
    Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { way, look_up } = *self;
        Box::pin(async move {
            let mut allowed = look_up(name.as_str().to_owned()).await?;
            allowed.retain(|address| target::allows(way, address.ip()));
            if allowed.is_empty() {
                let why = "the name leads to no address that may be called";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            Ok(allowed.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use futures_util::future::join;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };
    use wake::Call;

    use super::*;

    fn letter(url: String) -> Letter {
        let call = Call {
            url,
            subscription: "s".parse().unwrap(),
            wake_id: "w".to_owned(),
            generation: 1,
            streams: Vec::new(),
            base: String::new(),
            token: String::new(),
            patience: Duration::from_secs(1),
        };
        Letter { call, body: r#"{"hello":1}"#.to_owned(), signature: "t=1".to_owned() }
    }

    /// Answers one request with these bytes; what was asked.
    async fn serve(listener: TcpListener, answer: &'static str) -> String {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(br#"{"hello":1}"#) {
            assert!(socket.read_buf(&mut asked).await.unwrap() > 0);
        }
        socket.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(asked).unwrap()
    }

    #[tokio::test]
    async fn a_letter_arrives_and_the_answer_comes_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://localhost:{}/hook", listener.local_addr().unwrap().port());
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"done\":true}";
        let webhooks = Webhooks::new();
        let (asked, received) = join(serve(listener, answer), webhooks.carry(letter(url))).await;
        assert!(asked.starts_with("POST /hook HTTP/1.1\r\n"), "{asked}");
        assert!(asked.contains("webhook-signature: t=1\r\n"));
        let received = received.unwrap();
        assert_eq!((received.status, &received.body[..]), (200, &br#"{"done":true}"#[..]));
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer_and_not_a_way() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
        let answer = "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\n\
                      content-length: 0\r\n\r\n";
        let webhooks = Webhooks::new();
        let (_, received) = join(serve(listener, answer), webhooks.carry(letter(url))).await;
        assert_eq!(received.unwrap().status, 302);
    }

    #[tokio::test]
    async fn a_public_name_that_leads_home_is_not_called() {
        let mut resolver = Resolver { way: Way::Public, look_up };
        let refused = resolver.call("localhost".parse().unwrap()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(Webhooks::new().carry(letter("https://10.0.0.1/".to_owned())).await.is_none());
    }

    /// A zone that is public when it is asked first, and leads inside from then on.
    fn rebound(_: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let answers = [
            vec!["93.184.216.34:0", "127.0.0.1:0", "[fd00::1]:0"],
            vec!["127.0.0.1:0"],
            vec!["[::ffff:169.254.169.254]:0", "10.0.0.1:0"],
        ];
        let answer = &answers[ASKED.fetch_add(1, Ordering::Relaxed).min(2)];
        let found = answer.iter().map(|text| text.parse().unwrap()).collect();
        Box::pin(std::future::ready(Ok(found)))
    }

    #[tokio::test]
    async fn a_name_that_leads_elsewhere_since_it_was_judged_is_judged_again() {
        assert!(target::judge("https://rebound.example/").is_ok());
        let mut resolver = Resolver { way: Way::Public, look_up: rebound };
        let mut ask = async || resolver.call("rebound.example".parse().unwrap()).await;
        // What is connected to is what was judged: of three addresses one is left.
        let first: Vec<SocketAddr> = ask().await.unwrap().collect();
        assert_eq!(first, ["93.184.216.34:0".parse().unwrap()]);
        for _ in 0..2 {
            let refused = ask().await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        }
    }
}
