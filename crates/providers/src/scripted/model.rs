//! The model itself.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use chat::{
    Abilities, Model, ModelError, ModelErrorKind, ModelEvent, ModelName, ModelStream, Request,
    Role, Structured,
};
use futures_util::{StreamExt, stream};
use sys::{Cancellation, Sys};

use super::{
    caps::REQUESTS_KEPT_MAX,
    companion, demo,
    plan::{Beat, PROVIDER, Plan},
    script::{Script, Turn},
};

/// A model that follows a script or a few rules. Clones share the place in the script.
#[derive(Clone)]
pub struct Scripted {
    name: ModelName,
    by: Arc<By>,
    structured: Structured,
    pace: Pace,
    kept: Option<Arc<Requests>>,
    sys: Sys,
}

/// How fast a model speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    word: Duration,
}

/// Which turn of a script comes when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The next one with each call. So a turn that fails is followed by another when the model is
    /// asked again.
    #[default]
    ByCall,
    /// The one after the answers that are in the conversation. So any process goes on where
    /// another has stopped.
    ByConversation,
}

/// What it follows.
#[derive(Debug)]
enum By {
    Script { script: Script, order: Order, calls: AtomicUsize },
    Rules,
    Company,
}

/// The newest requests. The lock is held for a push or a copy.
type Requests = Mutex<VecDeque<Arc<Request>>>;

impl Scripted {
    /// Follows a script, one turn for each call.
    #[must_use]
    pub fn script(turns: impl IntoIterator<Item = Turn>, sys: Sys) -> Self {
        Self::ordered(turns.into_iter().collect(), Order::ByCall, sys)
    }

    /// Follows a script in this order.
    #[must_use]
    pub fn ordered(script: Script, order: Order, sys: Sys) -> Self {
        Self::new("script", By::Script { script, order, calls: AtomicUsize::new(0) }, sys)
    }

    /// Follows rules: asked for the weather it calls a tool for each place and answers from the
    /// results; asked for a shape it fills it; a tool that is named it calls; otherwise it greets,
    /// repeats, and says what it is.
    #[must_use]
    pub fn demo(sys: Sys) -> Self {
        Self::new("demo", By::Rules, sys)
    }

    /// Follows the same rules with more words, for people who want to see how it feels: it thinks,
    /// knows what to ask a tool called `clock`, says a paragraph to anything and a long story when
    /// asked for one, at the pace of a quick reader.
    #[must_use]
    pub fn companion(sys: Sys) -> Self {
        Self::new("companion", By::Company, sys).pace(Pace::per_word(companion::WORD))
    }

    fn new(model: &str, by: By, sys: Sys) -> Self {
        Self {
            name: ModelName { provider: PROVIDER.into(), model: model.into() },
            by: Arc::new(by),
            structured: Structured::Combined,
            pace: Pace::default(),
            kept: None,
            sys,
        }
    }

    /// The same at this pace; otherwise all comes at once.
    #[must_use]
    pub const fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// The same, answering by a schema in this way; otherwise in any turn.
    #[must_use]
    pub const fn structured(mut self, structured: Structured) -> Self {
        self.structured = structured;
        self
    }

    /// The same, remembering what it is asked.
    #[must_use]
    pub fn recording(mut self) -> Self {
        self.kept = Some(Arc::default());
        self
    }

    /// What it was asked, oldest first, if it remembers.
    #[must_use]
    pub fn requests(&self) -> Vec<Arc<Request>> {
        let Some(kept) = &self.kept else { return Vec::new() };
        kept.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn keep(&self, request: &Arc<Request>) {
        let Some(kept) = &self.kept else { return };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == REQUESTS_KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(request.clone());
    }

    /// What happens when it is asked this.
    fn beats(&self, request: &Request) -> VecDeque<Beat> {
        let model = &self.name.model;
        let (script, index) = match &*self.by {
            By::Rules => return Plan::of(&demo::turn(request), request, model),
            By::Company => return Plan::of(&companion::turn(request), request, model),
            By::Script { script, order: Order::ByCall, calls } => {
                (script, calls.fetch_add(1, Ordering::Relaxed))
            }
            By::Script { script, order: Order::ByConversation, .. } => {
                let answers = request.messages.iter();
                (script, answers.filter(|message| message.role == Role::Assistant).count())
            }
        };
        match script.turns.get(index) {
            Some(turn) => Plan::of(turn, request, model),
            None => {
                let why = format!(
                    "the script has {} turns, and this is turn {}; give it more",
                    script.turns.len(),
                    index + 1,
                );
                let error = ModelError::new(PROVIDER, ModelErrorKind::BadRequest, why);
                VecDeque::from([Beat::Fail(error)])
            }
        }
    }
}

impl Model for Scripted {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn abilities(&self) -> Abilities {
        Abilities { structured: self.structured }
    }

    fn call(&self, request: Arc<Request>, cancellation: Cancellation) -> ModelStream {
        self.keep(&request);
        let beats = self.beats(&request);
        let speaker = Speaker { beats, pace: self.pace, cancellation, sys: self.sys.clone() };
        stream::unfold(speaker, Speaker::next).boxed()
    }
}

/// An answer on its way.
struct Speaker {
    beats: VecDeque<Beat>,
    pace: Pace,
    cancellation: Cancellation,
    sys: Sys,
}

impl Speaker {
    async fn next(mut self) -> Option<(Result<ModelEvent, ModelError>, Self)> {
        loop {
            let beat = self.beats.pop_front()?;
            let rest = match &beat {
                Beat::Pause(pause) => *pause,
                Beat::Event(ModelEvent::More { .. }) => self.pace.word,
                Beat::Event(_) | Beat::Fail(_) => Duration::ZERO,
            };
            if !self.rested(rest).await {
                self.beats.clear();
                let why = "nobody waits for the answer any more";
                let error = ModelError::new(PROVIDER, ModelErrorKind::Cancelled, why);
                return Some((Err(error), self));
            }
            match beat {
                Beat::Pause(_) => {}
                Beat::Event(event) => return Some((Ok(event), self)),
                Beat::Fail(error) => {
                    self.beats.clear();
                    return Some((Err(error), self));
                }
            }
        }
    }

    /// False if it was cancelled meanwhile.
    async fn rested(&self, pause: Duration) -> bool {
        if pause.is_zero() {
            return !self.cancellation.is_cancelled();
        }
        self.cancellation.rest(pause, &self.sys).await
    }
}

impl Pace {
    /// So long for each word.
    #[must_use]
    pub const fn per_word(word: Duration) -> Self {
        Self { word }
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted")
            .field("name", &self.name)
            .field("by", &self.by)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}
