//! POST: append messages, close the stream, or both.

use http::{HeaderMap, Response, StatusCode};
use log::{Append, Appended, Closing, Outcome};
use wire::{Address, ContentType, Messages, Producer, json};

use crate::{
    call::Call,
    names,
    problem::Problem,
    request::{self, Incoming, Received, receive, single},
    response::{Body, Reply},
};

/// Answers `POST /v1/stream/{path}`.
pub(crate) async fn append(
    call: &Call<'_>,
    address: &Address,
    body: Incoming<'_>,
) -> Result<Response<Body>, Problem> {
    let conditions = conditions(&call.head.headers)?;
    let body = receive(call.service, body).await?;
    let append = match (body.bytes.is_empty(), conditions.closing) {
        (true, Closing::Close) => conditions,
        (true, Closing::LeaveOpen) => {
            let detail = "the body is empty; send a message, or Stream-Closed: true to close";
            return Err(Problem::bad_request(detail));
        }
        (false, _) => with_messages(conditions, &call.head.headers, &body)?,
    };
    let new_status = new_status(&append);
    let appended = call.service.log.append(address, append).await?;
    Ok(answer(&appended, new_status))
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

fn with_messages(
    conditions: Append,
    headers: &HeaderMap,
    body: &Received<'_>,
) -> Result<Append, Problem> {
    let Some(content_type) = request::content_type(headers)? else {
        return Err(Problem::bad_request("send the stream's Content-Type with every body"));
    };
    let messages = split(&content_type, body)?;
    Ok(Append { messages, content_type: Some(content_type), ..conditions })
}

fn split(content_type: &ContentType, body: &Received<'_>) -> Result<Messages, Problem> {
    if !content_type.is_json() {
        return Ok(Messages::one(body.bytes.clone())?);
    }
    let messages = json::split(&body.bytes)?;
    if messages.is_empty() {
        return Err(Problem::bad_request("the array is empty; send at least one JSON value"));
    }
    Ok(messages)
}

/// A producer learns from the status whether its messages are new; others have nothing to learn.
fn new_status(append: &Append) -> StatusCode {
    match append.producer {
        Some(_) if !append.messages.is_empty() => StatusCode::OK,
        _ => StatusCode::NO_CONTENT,
    }
}

fn answer(appended: &Appended, new_status: StatusCode) -> Response<Body> {
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
    .into_response()
}
