//! Calls: a request on its way, and who makes it.

use std::sync::Arc;

use http::{HeaderName, request::Parts};

use crate::{
    auth::Client,
    names,
    problem::Problem,
    request::{self, Incoming, Upload},
    service::Service,
    shares::{Account, ClientKey},
};

/// Who is on the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// That of its address.
    pub(crate) account: Arc<Account>,
    pub(crate) scheme: &'static str,
}

/// Who makes a request, before it is known whether it may.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) client: Result<Client, Problem>,
    /// That of the token's bearer, or else of the address.
    pub(crate) account: Arc<Account>,
    scheme: &'static str,
}

/// One request under way.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) service: &'a Arc<Service>,
    pub(crate) head: &'a Parts,
    pub(crate) account: Arc<Account>,
    pub(crate) client: Client,
    scheme: &'static str,
}

impl Caller {
    pub(crate) fn of(service: &Service, peer: &Peer, head: &Parts) -> Self {
        let client = service.guard.identify(head);
        let name = client.as_ref().ok().and_then(Client::name);
        let forwarded = || forwarded(service, head, &names::X_FORWARDED_FOR)?.parse().ok();
        let account = match name {
            Some(name) => service.shares.account(ClientKey::Name(name.clone())),
            None => match forwarded() {
                Some(ip) => service.shares.account(ClientKey::ip(ip)),
                None => peer.account.clone(),
            },
        };
        Self { client, account, scheme: peer.scheme }
    }

    /// Refuses a client who asks too often. Those who are not let in count too, or they could guess
    /// as fast as they like.
    pub(crate) fn admit(&self, service: &Service) -> Result<(), Problem> {
        let Some(rate) = &service.rate else { return Ok(()) };
        rate.admit(self.account.key()).inspect_err(|_| service.metrics.shed())
    }

    pub(crate) fn upload<'a, 'b>(
        &'a self,
        service: &'a Service,
        head: &'a Parts,
        body: Incoming<'b>,
    ) -> Upload<'a, 'b> {
        Upload { service, account: &self.account, headers: &head.headers, body }
    }
}

impl<'a> Call<'a> {
    /// Lets a client in who has a token, or needs none, and does not ask too often.
    pub(crate) fn enter(
        service: &'a Arc<Service>,
        caller: Caller,
        head: &'a Parts,
    ) -> Result<Self, Problem> {
        caller.admit(service)?;
        let Caller { client, account, scheme } = caller;
        Ok(Self { service, head, account, client: client?, scheme })
    }

    pub(crate) fn upload<'b>(&self, body: Incoming<'b>) -> Upload<'_, 'b> {
        let headers = &self.head.headers;
        Upload { service: self.service, account: &self.account, headers, body }
    }

    /// The scheme the client used.
    pub(crate) fn scheme(&self) -> &str {
        match forwarded(self.service, self.head, &names::X_FORWARDED_PROTO) {
            Some("https") => "https",
            Some("http") => "http",
            _ => self.scheme,
        }
    }

    /// The host the client asked for.
    pub(crate) fn host(&self) -> &str {
        request::host(self.head).unwrap_or("localhost")
    }
}

/// What the nearest proxy says, if there is one to trust: it appends to the list.
fn forwarded<'a>(service: &Service, head: &'a Parts, name: &'static HeaderName) -> Option<&'a str> {
    if !service.settings.trust_proxy {
        return None;
    }
    let last = head.headers.get_all(name).iter().next_back()?.to_str().ok()?;
    last.rsplit(',').next().map(str::trim)
}
