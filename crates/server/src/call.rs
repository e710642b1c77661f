//! Calls: a request on its way, and who makes it.

use std::{net::IpAddr, sync::Arc};

use http::{HeaderName, request::Parts};

use crate::{auth::Client, names, problem::Problem, request, service::Service};

/// Who is on the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) ip: IpAddr,
    pub(crate) scheme: &'static str,
}

/// One request under way.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) service: &'a Arc<Service>,
    pub(crate) head: &'a Parts,
    pub(crate) peer: Peer,
    pub(crate) client: Client,
}

impl<'a> Call<'a> {
    /// Lets a client in who has a token, or needs none, and does not ask too often.
    pub(crate) fn enter(
        service: &'a Arc<Service>,
        peer: Peer,
        head: &'a Parts,
    ) -> Result<Self, Problem> {
        let client = service.guard.identify(head);
        // Those who are not let in count too, or they could guess as fast as they like.
        let name = client.as_ref().ok().and_then(Client::name);
        admit(service, peer, head, name)?;
        Ok(Self { service, head, peer, client: client? })
    }

    /// The scheme the client used.
    pub(crate) fn scheme(&self) -> &str {
        match forwarded(self.service, self.head, &names::X_FORWARDED_PROTO) {
            Some("https") => "https",
            Some("http") => "http",
            _ => self.peer.scheme,
        }
    }

    /// The host the client asked for.
    pub(crate) fn host(&self) -> &str {
        request::host(self.head).unwrap_or("localhost")
    }
}

/// Refuses a client who asks too often, known by its token or else by its address.
pub(crate) fn admit(
    service: &Service,
    peer: Peer,
    head: &Parts,
    name: Option<&str>,
) -> Result<(), Problem> {
    let Some(rate) = &service.rate else { return Ok(()) };
    let forwarded = || forwarded(service, head, &names::X_FORWARDED_FOR)?.parse().ok();
    let admitted = match name {
        Some(name) => rate.admit_name(name),
        None => rate.admit_ip(forwarded().unwrap_or(peer.ip)),
    };
    admitted.inspect_err(|_| service.metrics.shed())
}

/// What the nearest proxy says, if there is one to trust: it appends to the list.
fn forwarded<'a>(service: &Service, head: &'a Parts, name: &'static HeaderName) -> Option<&'a str> {
    if !service.settings.trust_proxy {
        return None;
    }
    let last = head.headers.get_all(name).iter().next_back()?.to_str().ok()?;
    last.rsplit(',').next().map(str::trim)
}
