//! A server with a door for actions, and a client so plain that it can also be rude.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use log::{Append, Log, MemoryLog};
use serde_json::{Value, json};
use server::{Access, Issuer, Scope, Server, Settings};
use sessions::{Actions, Door, Pass, SessionId};
use sys::Sys;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use wire::{Address, Messages, ReadFrom};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) struct World {
    pub(crate) sys: Sys,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) address: SocketAddr,
    issuer: Arc<Issuer>,
}

/// Whether the server gives tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tokens {
    Given,
    Kept,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl World {
    /// One with the session `s`.
    pub(crate) async fn new() -> Self {
        let world = Self::empty(Tokens::Given).await;
        let token = world.token("s", "ada", &[Access::Act]);
        world.ask("PUT", "/v1/sessions/s", &token, "").await.expect(201);
        world
    }

    pub(crate) async fn empty(tokens: Tokens) -> Self {
        let sys = Sys::real();
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        Self::over(sys, log, tokens).await
    }

    /// Another life of the process, over the same log.
    pub(crate) async fn again(&self) -> Self {
        Self::over(self.sys.clone(), self.log.clone(), Tokens::Given).await
    }

    pub(crate) async fn over(sys: Sys, log: Arc<dyn Log>, tokens: Tokens) -> Self {
        let issuer = Arc::new(Issuer::new(&[7; Issuer::SECRET_BYTES]));
        let settings = Settings {
            listen: "127.0.0.1:0".parse().unwrap(),
            issuer: Some(issuer.clone()),
            ..Settings::default()
        };
        let server = Server::bind(log.clone(), sys.clone(), settings).await.unwrap();
        let address = server.local_addr();
        let door = Door::new(&sys, Actions::for_agent(&sys, log.clone(), "assistant"));
        let door = match tokens {
            Tokens::Given => door.with_pass(Pass::new(issuer.clone())),
            Tokens::Kept => door,
        };
        let server = server.beside(Arc::new(door));
        sys.spawn.task("server", server.run(std::future::pending()));
        Self { sys, log, address, issuer }
    }

    pub(crate) fn token(&self, session: &str, actor: &str, allow: &[Access]) -> String {
        let session: SessionId = session.parse().unwrap();
        let scopes = [Scope::new(session.path().as_str().parse().unwrap(), allow)];
        self.issuer.issue(actor, &scopes, self.sys.clock.unix_ms(), HOUR).unwrap().0
    }

    pub(crate) async fn ask(&self, method: &str, target: &str, token: &str, body: &str) -> Answer {
        let authorization = match token {
            "" => String::new(),
            token => format!("authorization: Bearer {token}\r\n"),
        };
        let host = format!("host: {}\r\n", self.address);
        self.ask_with(method, target, &format!("{host}{authorization}"), body).await
    }

    /// The same, with these headers.
    pub(crate) async fn ask_with(
        &self,
        method: &str,
        target: &str,
        headers: &str,
        body: &str,
    ) -> Answer {
        let length = body.len();
        let request = format!(
            "{method} {target} HTTP/1.1\r\n{headers}content-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        );
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        let reading = self.sys.clock.timeout(PATIENCE, socket.read_to_end(&mut bytes)).await;
        reading.expect("the server answers in time").unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = serde_json::from_str(body).unwrap_or(Value::Null);
        Answer { status, head: head.to_ascii_lowercase(), body }
    }

    /// As ada, in session `s`.
    pub(crate) async fn act(&self, what: &str, body: &Value) -> Answer {
        let token = self.token("s", "ada", &[Access::Read, Access::Act]);
        self.ask("POST", &format!("/v1/sessions/s/{what}"), &token, &body.to_string()).await
    }

    /// All messages of session `s`.
    pub(crate) async fn stream(&self) -> Vec<Value> {
        let path: Address = "main/sessions/s".parse::<wire::StreamPath>().unwrap().into();
        let chunk = self.log.read(&path, ReadFrom::Start, usize::MAX).await.unwrap();
        chunk.messages().map(|message| serde_json::from_slice(message).unwrap()).collect()
    }

    /// Has an agent write a row to session `s`.
    pub(crate) async fn write(&self, type_name: &str, row: Value) {
        let message = json!({
            "type": type_name, "key": row["id"], "value": row,
            "headers": {"operation": "upsert"},
        });
        let path: Address = "main/sessions/s".parse::<wire::StreamPath>().unwrap().into();
        let messages = Messages::one(message.to_string()).unwrap();
        let _ = self.log.append(&path, Append::messages(messages)).await.unwrap();
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.body);
        if status >= 400 {
            assert_eq!(self.body["status"], status, "{}", self.body);
            assert!(self.head.contains("application/problem+json"), "{}", self.head);
        }
        assert!(!self.head.contains("access-control-allow-origin"), "{}", self.head);
        self
    }

    /// What was wrong.
    #[track_caller]
    pub(crate) fn says(&self, words: &str) {
        let detail = self.body["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{detail:?} does not say {words:?}");
    }
}
