//! The verbs: what each command does, step by step.

use log::{Append, Closing, Create, Delete, Fork, Freshness, Lifetime, List, Outcome};
use serde::Serialize;
use sys::Sys;
use wire::{ContentType, Expiry, Messages, ReadFrom, StreamPath, caps::LIST_PAGE_MAX};

use super::{
    args::{
        AppendArgs, CreateArgs, DeleteArgs, ForkArgs, LifetimeArgs, ListArgs, PathArgs, ReadArgs,
        TrimArgs,
    },
    input::{self, Input, Shape},
    print::Printer,
    target::{Made, Stored, Target},
};
use crate::{failure::Failure, output};

/// A command under way: where the streams are, and who reads the results.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) sys: Sys,
    pub(super) target: Target,
    pub(super) printer: Printer,
}

/// What became of a stream, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Change<'a> {
    path: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    /// How many were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<bool>,
}

impl Session {
    pub(super) async fn create(&self, args: CreateArgs) -> Result<(), Failure> {
        let create = Create {
            content_type: Some(args.content_type),
            expiry: expiry(&args.lifetime).unwrap_or_default(),
            messages: Messages::none(),
            closing: if args.closed { Closing::Close } else { Closing::LeaveOpen },
        };
        let made = self.target.create(&args.path, create).await?;
        self.tell_made(&args.path, &made)
    }

    pub(super) async fn fork(&self, args: ForkArgs) -> Result<(), Failure> {
        let fork = Fork {
            offset: args.offset,
            sub_offset: args.sub_offset.unwrap_or_default(),
            lifetime: expiry(&args.lifetime).map_or(Lifetime::Inherited, Lifetime::Own),
            ..Fork::of(args.source)
        };
        let made = self.target.fork(&args.path, fork).await?;
        self.tell_made(&args.path, &made)
    }

    pub(super) async fn append(&self, args: AppendArgs) -> Result<(), Failure> {
        let head = self.target.head(&args.path).await?;
        let content_type: ContentType = head.content_type.parse().map_err(Failure::refused)?;
        let shape = match args.lines {
            _ if content_type.is_json() => Shape::Json,
            true => Shape::Lines,
            false => Shape::Whole,
        };
        let template = Append {
            content_type: Some(content_type),
            producer: args.conditions.producer(),
            seq: args.conditions.seq_header.clone(),
            expected: args.conditions.expected_offset,
            closing: if args.close { Closing::Close } else { Closing::LeaveOpen },
            ..Append::messages(Messages::none())
        };
        if let Some(text) = &args.message {
            return self.append_once(&args.path, template, input::typed(shape, text)?).await;
        }
        let input = Input::stdin(&self.sys, shape);
        if args.close || args.conditions.are_given() {
            return self.append_once(&args.path, template, input.all().await?).await;
        }
        self.append_as_they_come(&args.path, &template, input).await
    }

    /// Counts what was appended, and tells of the last append.
    async fn append_batches(
        &self,
        path: &StreamPath,
        template: &Append,
        mut input: Input,
        count: &mut usize,
    ) -> Result<Option<Stored>, Failure> {
        let mut last = None;
        while let Some(messages) = input.next().await? {
            let batch = messages.len();
            let stored = self.target.append(path, Append { messages, ..template.clone() }).await?;
            *count += batch;
            if self.printer == Printer::Programs {
                self.tell_stored(path, batch, &stored)?;
            }
            last = Some(stored);
        }
        Ok(last)
    }

    async fn append_once(
        &self,
        path: &StreamPath,
        template: Append,
        messages: Messages,
    ) -> Result<(), Failure> {
        if messages.is_empty() && template.closing == Closing::LeaveOpen {
            return Err(nothing_to_append(path));
        }
        let count = messages.len();
        let stored = self.target.append(path, Append { messages, ..template }).await?;
        self.tell_stored(path, count, &stored)
    }

    async fn append_as_they_come(
        &self,
        path: &StreamPath,
        template: &Append,
        input: Input,
    ) -> Result<(), Failure> {
        let mut count = 0;
        let appended = self.append_batches(path, template, input, &mut count).await;
        let last = appended.map_err(|failure| match count {
            0 => failure,
            count => failure.with(format!("the first {count} messages were appended")),
        })?;
        match last {
            None => Err(nothing_to_append(path)),
            Some(stored) if self.printer == Printer::People => {
                self.tell_stored(path, count, &stored)
            }
            Some(_) => Ok(()),
        }
    }

    pub(super) async fn read(&self, args: ReadArgs) -> Result<(), Failure> {
        let mut from = args.from;
        loop {
            let part = self.target.read(&args.path, from).await?;
            self.printer.part(&part)?;
            if part.freshness != Freshness::Behind {
                return Ok(());
            }
            from = ReadFrom::At(part.next);
        }
    }

    pub(super) async fn tail(&self, args: ReadArgs) -> Result<(), Failure> {
        let mut part = self.target.read(&args.path, args.from).await?;
        loop {
            self.printer.part(&part)?;
            part = match part.freshness {
                Freshness::Closed => return Ok(()),
                Freshness::Behind => self.target.read(&args.path, ReadFrom::At(part.next)).await?,
                Freshness::UpToDate => {
                    self.warn_of_loneliness();
                    self.target.follow(&args.path, part.next).await?
                }
            };
        }
    }

    pub(super) async fn head(&self, args: PathArgs) -> Result<(), Failure> {
        let summary = self.target.head(&args.path).await?;
        match self.printer {
            Printer::People => output::raw(summary.describe().as_bytes()),
            Printer::Programs => output::json(&summary),
        }
    }

    pub(super) async fn close(&self, args: PathArgs) -> Result<(), Failure> {
        let close = Append { closing: Closing::Close, ..Append::messages(Messages::none()) };
        let stored = self.target.append(&args.path, close).await?;
        let sentence = || format!("closed {} at {}", args.path, stored.tail);
        let tail = Some(stored.tail.to_string());
        let change = Change { tail, closed: Some(true), ..Change::of(&args.path, "closed") };
        self.printer.result(sentence, &change)
    }

    pub(super) async fn trim(&self, args: TrimArgs) -> Result<(), Failure> {
        self.target.trim(&args.path, args.before).await?;
        let sentence = || format!("trimmed {} before {}", args.path, args.before);
        self.printer.result(sentence, &Change::of(&args.path, "trimmed"))
    }

    pub(super) async fn delete(&self, args: DeleteArgs) -> Result<(), Failure> {
        let (delete, outcome) = match args.erase {
            true => (Delete::Erase, "erased"),
            false => (Delete::Stream, "deleted"),
        };
        self.target.delete(&args.path, delete).await?;
        let sentence = || format!("{outcome} {}", args.path);
        self.printer.result(sentence, &Change::of(&args.path, outcome))
    }

    pub(super) async fn list(&self, args: ListArgs) -> Result<(), Failure> {
        let mut after = None;
        loop {
            let list = List { prefix: args.prefix.clone(), after, limit: LIST_PAGE_MAX };
            let page = self.target.list(list).await?;
            for summary in &page.streams {
                self.printer.result(|| summary.path.clone(), summary)?;
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    fn tell_made(&self, path: &StreamPath, made: &Made) -> Result<(), Failure> {
        let (outcome, verb) = match made.outcome {
            Outcome::New => ("new", "created"),
            Outcome::Duplicate => ("duplicate", "found"),
        };
        let change = Change {
            content_type: Some(&made.content_type),
            tail: Some(made.tail.to_string()),
            closed: Some(made.closed),
            ..Change::of(path, outcome)
        };
        self.printer.result(|| format!("{verb} {path} ({})", made.content_type), &change)
    }

    fn tell_stored(&self, path: &StreamPath, count: usize, stored: &Stored) -> Result<(), Failure> {
        let outcome = match stored.outcome {
            Outcome::New => "new",
            Outcome::Duplicate => "duplicate",
        };
        let change = Change {
            messages: Some(count),
            tail: Some(stored.tail.to_string()),
            closed: Some(stored.closed),
            ..Change::of(path, outcome)
        };
        let tail = stored.tail;
        let sentence = || match (stored.outcome, count) {
            (Outcome::Duplicate, _) => format!("{path} had it before; it ends at {tail}"),
            (Outcome::New, 1) => format!("appended 1 message to {path}; it ends at {tail}"),
            (Outcome::New, _) => format!("appended {count} messages to {path}; it ends at {tail}"),
        };
        self.printer.result(sentence, &change)
    }

    /// Nobody else can append to a directory that this command holds.
    fn warn_of_loneliness(&self) {
        if let Target::Local(_) = self.target {
            output::note(
                "nobody can append while this command has the data directory open; \
                 follow a running server with --url, or press Ctrl-C",
            );
        }
    }
}

impl<'a> Change<'a> {
    fn of(path: &'a StreamPath, outcome: &'static str) -> Self {
        let path = path.as_str();
        Self { path, outcome, content_type: None, messages: None, tail: None, closed: None }
    }
}

fn expiry(args: &LifetimeArgs) -> Option<Expiry> {
    let sliding = args.ttl.map(Expiry::Sliding);
    sliding.or_else(|| args.expires_at.map(Expiry::At))
}

fn nothing_to_append(path: &StreamPath) -> Failure {
    Failure::about(path, "there is nothing to append; pipe messages in, or use --message")
}
