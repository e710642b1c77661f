//! POST: append messages, close the stream, or both.

use http::{HeaderMap, Response, StatusCode};
use log::{Append, Appended, Closing, Outcome};
use wire::{Address, Messages, Producer};

use crate::{
    call::Call,
    names,
    problem::Problem,
    request::{self, Framing, Incoming, Received, receive, single},
    response::{Body, Reply},
};

/// Answers `POST /v1/stream/{path}`.
pub(crate) async fn append(
    call: &Call<'_>,
    address: &Address,
    body: Incoming<'_>,
) -> Result<Response<Body>, Problem> {
    let conditions = conditions(&call.head.headers)?;
    let mut body = receive(call.upload(body)).await?;
    let append = match (body.bytes.is_empty(), conditions.closing) {
        (true, Closing::Close) => conditions,
        (true, Closing::LeaveOpen) => {
            let detail = "the body is empty; send a message, or Stream-Closed: true to close";
            return Err(Problem::bad_request(detail));
        }
        (false, _) => with_messages(call, address, conditions, &mut body).await?,
    };
    let new_status = new_status(&append);
    let (log, address) = (call.service.log.clone(), address.clone());
    let appending = async move { log.append(&address, append).await };
    let appended = body.store(call.service, appending).await?;
    call.service.has_stored();
    let reply = answer(&appended, new_status);
    Ok(match (request::framing(&call.head.headers)?, appended.outcome) {
        (Framing::Plain, _) => reply,
        (Framing::Length, Outcome::New) => reply.header(&names::OUTCOME, names::NEW.clone()),
        (Framing::Length, Outcome::Duplicate) => {
            reply.header(&names::OUTCOME, names::DUPLICATE.clone())
        }
    }
    .into_response())
}

/// What must hold for the append, its messages yet to come.
fn conditions(headers: &HeaderMap) -> Result<Append, Problem> {
    let producer = Producer::from_headers(
        single(headers, &names::PRODUCER_ID)?,
        single(headers, &names::PRODUCER_EPOCH)?,
        single(headers, &names::PRODUCER_SEQ)?,
    );
    Ok(Append {
        producer: producer.map_err(Problem::bad_request_from)?,
        seq: request::parsed(headers, &names::SEQ)?,
        expected: request::parsed(headers, &names::EXPECTED_OFFSET)?,
        closing: request::closing(headers)?,
        ..Append::messages(Messages::none())
    })
}

async fn with_messages(
    call: &Call<'_>,
    address: &Address,
    conditions: Append,
    body: &mut Received,
) -> Result<Append, Problem> {
    let framing = request::framing(&call.head.headers)?;
    let content_type = request::content_type(&call.head.headers)?;
    let is_json = match (&content_type, framing) {
        (Some(content_type), _) => content_type.is_json(),
        // Who sends frames need not know what they hold.
        (None, Framing::Length) => call.service.log.head(address).await?.content_type.is_json(),
        (None, Framing::Plain) => {
            return Err(Problem::bad_request("send the stream's Content-Type with every body"));
        }
    };
    let messages = request::messages(call.service, is_json, framing, body).await?;
    if messages.is_empty() {
        return Err(Problem::bad_request("the array is empty; send at least one JSON value"));
    }
    Ok(Append { messages, content_type, ..conditions })
}

/// A producer learns from the status whether its messages are new; others have nothing to learn.
fn new_status(append: &Append) -> StatusCode {
    match append.producer {
        Some(_) if !append.messages.is_empty() => StatusCode::OK,
        _ => StatusCode::NO_CONTENT,
    }
}

fn answer(appended: &Appended, new_status: StatusCode) -> Reply {
    let status = match appended.outcome {
        Outcome::New => new_status,
        Outcome::Duplicate => StatusCode::NO_CONTENT,
    };
    let reply =
        Reply::new(status).offset(&names::NEXT_OFFSET, appended.tail).closed(appended.closed);
    match appended.producer {
        Some(state) => reply
            .number(&names::PRODUCER_EPOCH, state.epoch.get())
            .number(&names::PRODUCER_SEQ, state.seq.get()),
        None => reply,
    }
}
