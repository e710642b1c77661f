//! Who takes what is typed: an agent in this process, or a server.

use std::sync::Arc;

use agent::{Home, RunningAgent};
use client::Retry;
use http::Method;
use log::Log;
use serde_json::json;
use sessions::{Actions, Deed, Halt, Say, SessionId};
use sys::Sys;

use crate::{
    failure::Failure,
    session::{self, AGENT, Choice},
    stream::{Remote, Target},
};

/// Something that was typed, under the name that makes it safe to send twice.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) id: String,
    pub(super) text: String,
}

/// A session that can be written to.
pub(super) struct Desk {
    session: SessionId,
    actor: String,
    log: Arc<dyn Log>,
    about: String,
    place: Place,
}

enum Place {
    Here { actions: Actions, agent: RunningAgent },
    There(Box<Remote>),
}

impl Desk {
    pub(super) async fn open(
        sys: &Sys,
        target: &Target,
        session: &SessionId,
        model: Option<&str>,
    ) -> Result<Self, Failure> {
        match target.remote() {
            Some(remote) => Self::knock(sys, remote, session, model).await,
            None => Self::set_up(sys, target.log(sys).await?, session, model).await,
        }
    }

    /// Runs the agent here.
    async fn set_up(
        sys: &Sys,
        log: Arc<dyn Log>,
        session: &SessionId,
        model: Option<&str>,
    ) -> Result<Self, Failure> {
        let choice = Choice::make(sys, model).await?;
        let about = choice.why.clone();
        let actions = Actions::for_agent(sys, log.clone(), AGENT);
        actions.create(session).await.map_err(Failure::refused)?;
        // Only this process has the store open.
        let agent = session::agent(choice).home(Home::draw(&sys.chance));
        let agent = agent.session(log.clone(), session.path().clone()).start(sys).await;
        let place = Place::Here { actions, agent: agent.map_err(Failure::refused)? };
        Ok(Self { session: session.clone(), actor: person(), log, about, place })
    }

    /// Asks a server for the session, and for a token if there is none.
    async fn knock(
        sys: &Sys,
        remote: &Remote,
        session: &SessionId,
        model: Option<&str>,
    ) -> Result<Self, Failure> {
        let root = format!("/v1/sessions/{session}");
        remote.call(Method::PUT, &root, &json!({})).await?;
        let actor = person();
        let known = if remote.has_token() {
            None
        } else {
            let asked = json!({ "actorId": actor });
            let given = remote.call(Method::POST, &format!("{root}/token"), &asked).await?;
            let token = given["token"].as_str().unwrap_or_default().to_owned();
            Some(token)
        };
        let remote = match known {
            Some(token) => remote.as_bearer(&token)?,
            None => remote.again()?,
        };
        // Whoever sits here is told at once that a server is away, and it is waited for.
        let log = remote.log(sys, Retry::NEVER).await?;
        let about = match model {
            Some(model) => format!("the agent of the server answers, not {model}"),
            None => "the agent of the server answers".to_owned(),
        };
        let place = Place::There(Box::new(remote));
        Ok(Self { session: session.clone(), actor, log, about, place })
    }

    pub(super) fn log(&self) -> Arc<dyn Log> {
        self.log.clone()
    }

    /// Who answers, for people.
    pub(super) fn about(&self) -> &str {
        &self.about
    }

    /// Says something, once, however often it is tried.
    pub(super) async fn say(&self, line: &Line) -> Result<(), Failure> {
        let Line { id, text } = line;
        match &self.place {
            Place::Here { actions, .. } => {
                let say = Deed::Say(Say::named(id, text));
                let done = actions.act(&self.session, &self.actor, say).await;
                done.map(drop).map_err(Failure::refused)
            }
            Place::There(remote) => {
                let target = format!("/v1/sessions/{}/messages", self.session);
                let say = json!({ "id": id, "text": text });
                remote.call(Method::POST, &target, &say).await.map(drop)
            }
        }
    }

    /// Stops whatever is under way.
    pub(super) async fn stop(&self) -> Result<(), Failure> {
        match &self.place {
            Place::Here { actions, .. } => {
                let halt = Deed::Halt(Halt::default());
                let done = actions.act(&self.session, &self.actor, halt).await;
                done.map(drop).map_err(Failure::refused)
            }
            Place::There(remote) => {
                let target = format!("/v1/sessions/{}/stop", self.session);
                remote.call(Method::POST, &target, &json!({})).await.map(drop)
            }
        }
    }

    /// Waits until nobody answers any more.
    pub(super) async fn failed(&self) -> Failure {
        match &self.place {
            Place::Here { agent, .. } => match agent.ended().await {
                Ok(()) => Failure::refused("the agent has ended"),
                Err(error) => Failure::refused(error),
            },
            Place::There(_) => std::future::pending().await,
        }
    }

    /// Ends the agent in peace: whoever starts it again goes on.
    pub(super) async fn close(self) {
        if let Place::Here { agent, .. } = self.place {
            let _ = agent.stop().await;
        }
    }
}

/// What others call whoever sits here.
fn person() -> String {
    let name = std::env::var("USER").ok();
    let is_name = |name: &String| !name.is_empty() && name.len() <= 64 && name.is_ascii();
    name.filter(is_name).unwrap_or_else(|| "terminal".to_owned())
}
