//! A conversation without a server: what a client asks, for the fuzz target.

use std::future::poll_fn;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{head, link::Link, link::Source as _};

/// Method, target and body of each request, until one is refused or incomplete. The client must
/// never keep us waiting.
pub(crate) fn read_all<I>(io: I) -> Vec<(String, String, Vec<u8>)>
where
    I: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut requests = Vec::new();
    let reading = async {
        let mut link = Link::new(io);
        while let Some((request, is_last)) = read_one(&mut link).await {
            requests.push(request);
            if is_last {
                break;
            }
        }
    };
    reading.now_or_never().expect("the client never keeps us waiting");
    requests
}

type Asked = (String, String, Vec<u8>);

async fn read_one<I>(link: &mut Link<I>) -> Option<(Asked, bool)>
where
    I: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut searched = 0;
    let len = loop {
        while link.unread.starts_with(b"\r\n") {
            link.unread.advance(2);
            searched = 0;
        }
        if let Some(len) = head::end(&link.unread, searched).ok()? {
            break len;
        }
        searched = link.unread.len();
        if poll_fn(|context| link.poll_more(context)).await.ok()? == 0 {
            return None;
        }
    };
    let bytes = Bytes::copy_from_slice(&link.unread[..len]);
    link.unread.advance(len);
    let head = head::parse(&bytes).ok()?;
    link.begin_body(&head);
    let mut body = BytesMut::new();
    while !link.is_done() {
        poll_fn(|context| link.poll_body(context, &mut body)).await.ok()?;
    }
    let asked = (head.parts.method.to_string(), head.parts.uri.to_string(), body.to_vec());
    Some((asked, !head.is_persistent))
}
